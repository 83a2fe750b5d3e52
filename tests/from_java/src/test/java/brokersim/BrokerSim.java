package brokersim;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionConfigurationException;
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
 * there by HTTP, as {@link Kafka} says, and stopped behind the test. A test that fails tells what happened to its groups, and a rule
 * that is still there at the end of its test and never matched fails it.
 *
 * <p>The program is {@code broker-sim} on the PATH, or what the system property {@code broker-sim.command} or the environment
 * variable {@code BROKER_SIM_COMMAND} says, words between blanks: {@code python3 -m broker_sim}.
 */
public final class BrokerSim implements ParameterResolver, TestExecutionExceptionHandler, AfterEachCallback, AfterAllCallback {
    private static final Namespace NAMESPACE = Namespace.create(BrokerSim.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
        return parameter.getParameter().getType() == SimCluster.class;
    }

    @Override
    public SimCluster resolveParameter(ParameterContext parameter, ExtensionContext test) {
        Server server = test.getRoot().getStore(NAMESPACE).getOrComputeIfAbsent(Server.class, key -> new Server(), Server.class);
        return test.getStore(NAMESPACE).getOrComputeIfAbsent(
            SimCluster.class, key -> SimCluster.create(server.control, options(test), test.getUniqueId()), SimCluster.class);
    }

    @Override
    public void afterEach(ExtensionContext test) {
        endRules(test);
    }

    @Override
    public void afterAll(ExtensionContext tests) {
        endRules(tests);
    }

    /** Those of the cluster that was made for this test, or for all tests of this class. */
    private static void endRules(ExtensionContext test) {
        SimCluster cluster = test.getStore(NAMESPACE).get(SimCluster.class, SimCluster.class);
        if (cluster == null || !cluster.owner.equals(test.getUniqueId()) || test.getExecutionException().isPresent()) {
            return;
        }
        try {
            cluster.endRules();
        } catch (SimCluster.SimError neverHit) {
            addHistory(neverHit, cluster);
            throw neverHit;
        }
    }

    @Override
    public void handleTestExecutionException(ExtensionContext test, Throwable failure) throws Throwable {
        SimCluster cluster = test.getStore(NAMESPACE).get(SimCluster.class, SimCluster.class);
        if (cluster != null) {
            addHistory(failure, cluster);
        }
        throw failure;
    }

    private static void addHistory(Throwable failure, SimCluster cluster) {
        String history = cluster.recentHistory();
        if (!history.isBlank()) {
            failure.addSuppressed(new RecentHistory("\n" + history));
        }
    }

    private static Map<String, Object> options(ExtensionContext test) {
        Map<String, Object> options = new LinkedHashMap<>(Map.of("internal_topics", "at-start"));
        Map<String, Object> config = new LinkedHashMap<>(Map.of("group.initial.rebalance.delay.ms", "0"));  // groups form at once
        AnnotationSupport.findAnnotation(test.getElement(), Kafka.class)
            .or(() -> AnnotationSupport.findAnnotation(test.getTestClass(), Kafka.class))
            .ifPresent(kafka -> {
                options.put("brokers", kafka.brokers());
                options.put("as_version", kafka.asVersion());
                options.put("clock", kafka.clock());
                options.put("topics", List.of(kafka.topics()));
                options.put("internal_topics", kafka.internalTopics());
                for (String setting : kafka.config()) {
                    int equals = setting.indexOf('=');
                    if (equals <= 0) {
                        throw new ExtensionConfigurationException("@Kafka(config = \"" + setting + "\") is not \"name=value\""
                            + " (expected e.g. \"num.partitions=3\")");
                    }
                    config.put(setting.substring(0, equals), setting.substring(equals + 1));
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
        private static final String INSTALL = "python3 -m pip install 'broker-sim[control]' installs it; the system property"
            + " broker-sim.command or the environment variable BROKER_SIM_COMMAND names another program, as in python3 -m broker_sim";
        private final Process process;
        private final Thread atExit = new Thread(this::end);
        private final Deque<String> errors = new ArrayDeque<>();
        final Control control;

        Server() {
            String program = System.getProperty("broker-sim.command", System.getenv().getOrDefault("BROKER_SIM_COMMAND", "broker-sim"));
            List<String> command = new ArrayList<>(List.of(program.trim().split("\\s+")));
            command.addAll(List.of("serve", "--control", "0", "--until-eof"));
            try {
                process = new ProcessBuilder(command).start();
            } catch (IOException notThere) {
                throw new IllegalStateException("can't start " + String.join(" ", command) + ": " + notThere.getMessage() + "; " + INSTALL);
            }
            Thread reader = new Thread(this::passOnErrors, "broker-sim stderr");
            reader.setDaemon(true);
            reader.start();
            Runtime.getRuntime().addShutdownHook(atExit);
            CompletableFuture<String> address = CompletableFuture.supplyAsync(this::address);
            try {
                control = new Control(address.get(START_S, TimeUnit.SECONDS));
            } catch (Exception failed) {
                String what = failed instanceof TimeoutException ? "is not ready after " + START_S + " s" : "ended before it was ready";
                end();
                throw new IllegalStateException(String.join(" ", command) + " " + what + said(reader));
            }
        }

        /** The address of the control plane, from a line of stdout. */
        private String address() {
            try {
                BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    Matcher ready = READY.matcher(line);
                    if (ready.matches()) {
                        return ready.group(1);
                    }
                }
            } catch (IOException ended) {
                throw new UncheckedIOException(ended);
            }
            throw new IllegalStateException("no such line");
        }

        /** What the process writes on stderr is written here too; the last lines are kept for a failure to start. */
        private void passOnErrors() {
            try {
                BufferedReader lines = process.errorReader(StandardCharsets.UTF_8);
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    System.err.println(line);
                    synchronized (errors) {
                        errors.addLast(line);
                        if (errors.size() > 20) {
                            errors.removeFirst();
                        }
                    }
                }
            } catch (IOException ended) {
                // with the process
            }
        }

        private String said(Thread reader) {
            try {
                reader.join(1000);
            } catch (InterruptedException hurry) {
                Thread.currentThread().interrupt();
            }
            synchronized (errors) {
                return errors.isEmpty() ? ", without a word; " + INSTALL : ":\n" + String.join("\n", errors);
            }
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
