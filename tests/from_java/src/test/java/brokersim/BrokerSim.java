package brokersim;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * JUnit 5 extension: {@code @ExtendWith(BrokerSim.class)}, and a test that asks for a {@link SimCluster} gets a cluster of its own.
 *
 * <p>One {@code broker-sim serve --control 0} process serves all test classes and ends with them. Each test's cluster is started
 * there by HTTP, as {@link Kafka} says, and stopped behind the test. A test that fails tells what happened to its groups.
 *
 * <p>The program is {@code broker-sim} on the PATH, or what the system property {@code broker-sim.command} or the environment
 * variable {@code BROKER_SIM_COMMAND} says, words between blanks: {@code python3 -m broker_sim}.
 */
public final class BrokerSim implements ParameterResolver, TestExecutionExceptionHandler {
    private static final Namespace NAMESPACE = Namespace.create(BrokerSim.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
        return parameter.getParameter().getType() == SimCluster.class;
    }

    @Override
    public SimCluster resolveParameter(ParameterContext parameter, ExtensionContext test) {
        Server server = test.getRoot().getStore(NAMESPACE).getOrComputeIfAbsent(Server.class, key -> new Server(), Server.class);
        return test.getStore(NAMESPACE).getOrComputeIfAbsent(
            SimCluster.class, key -> SimCluster.create(server.control, options(test)), SimCluster.class);
    }

    @Override
    public void handleTestExecutionException(ExtensionContext test, Throwable failure) throws Throwable {
        SimCluster cluster = test.getStore(NAMESPACE).get(SimCluster.class, SimCluster.class);
        if (cluster != null) {
            failure.addSuppressed(new RecentHistory("\n" + cluster.recentHistory()));
        }
        throw failure;
    }

    private static Map<String, Object> options(ExtensionContext test) {
        Map<String, Object> options = new LinkedHashMap<>();
        Map<String, Object> config = new LinkedHashMap<>(Map.of("group.initial.rebalance.delay.ms", "0"));  // groups form at once
        AnnotationSupport.findAnnotation(test.getElement(), Kafka.class)
            .or(() -> AnnotationSupport.findAnnotation(test.getTestClass(), Kafka.class))
            .ifPresent(kafka -> {
                options.put("brokers", kafka.brokers());
                options.put("as_version", kafka.asVersion());
                options.put("clock", kafka.clock());
                for (String setting : kafka.config()) {
                    config.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
                }
            });
        options.put("config", config);
        return options;
    }

    /** The recent history of the groups of a failed test, suppressed below its failure, without a stack trace of its own. */
    public static final class RecentHistory extends RuntimeException {
        RecentHistory(String text) {
            super(text, null, false, false);
        }
    }

    /** The process. */
    private static final class Server implements ExtensionContext.Store.CloseableResource, AutoCloseable {
        private static final Pattern READY = Pattern.compile("broker-sim control: (http://\\S+)");
        private static final long START_S = 30;
        private final Process process;
        private final Thread atExit = new Thread(this::end);
        final Control control;

        Server() {
            String program = System.getProperty("broker-sim.command", System.getenv().getOrDefault("BROKER_SIM_COMMAND", "broker-sim"));
            List<String> command = new ArrayList<>(List.of(program.trim().split("\\s+")));
            command.addAll(List.of("serve", "--control", "0", "--until-eof"));
            try {
                process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            } catch (IOException notThere) {
                throw new IllegalStateException("can't start " + String.join(" ", command) + ": " + notThere.getMessage());
            }
            Runtime.getRuntime().addShutdownHook(atExit);
            try {
                control = new Control(CompletableFuture.supplyAsync(this::address).get(START_S, TimeUnit.SECONDS));
            } catch (Exception failed) {
                end();
                throw new IllegalStateException("waited " + START_S + " s for the ready lines of " + String.join(" ", command), failed);
            }
        }

        /** Two lines on stdout tell the address of the first broker, and of the control plane. */
        private String address() {
            StringBuilder read = new StringBuilder();
            try {
                BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    Matcher ready = READY.matcher(line);
                    if (ready.matches()) {
                        return ready.group(1);
                    }
                    read.append(line).append('\n');
                }
            } catch (IOException ended) {
                read.append(ended);
            }
            throw new IllegalStateException("it ended without them; its stdout: " + read);
        }

        private void end() {
            process.destroy();  // SIGTERM: an orderly end
            try {
                if (!process.waitFor(10, TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                }
            } catch (InterruptedException hurry) {
                process.destroyForcibly();
            }
        }

        @Override
        public void close() {
            end();
            Runtime.getRuntime().removeShutdownHook(atExit);
        }
    }
}
