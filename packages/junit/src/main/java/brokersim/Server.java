package brokersim;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The control server of this JVM: one that runs already, or a process that ends with the JVM. It is found in this order: the address in
 * broker-sim.control (BROKER_SIM_CONTROL), the command in broker-sim.command (BROKER_SIM_COMMAND), broker-sim on the PATH, and, where
 * broker-sim.fetch (BROKER_SIM_FETCH) is set, uvx or pipx on the PATH, which fetch it.
 */
final class Server {
    private static final Pattern READY = Pattern.compile("broker-sim control: (http://\\S+)");
    private static final String PACKAGE = "broker-sim[control,tls]";
    private static final String INSTALL = "python3 -m pip install '" + PACKAGE + "' installs it; the system property"
        + " broker-sim.command or the environment variable BROKER_SIM_COMMAND names another program, as in python3 -m broker_sim, and"
        + " broker-sim.control or BROKER_SIM_CONTROL the address of a control server that runs already";
    private static final long CONTEXTS_S = 10;
    private static final Set<SimCluster> HELD = new HashSet<>();
    private static Server shared;

    private final Process process;
    private final Deque<String> errors = new ArrayDeque<>();
    final Control control;

    /** The one of this JVM, which the first call finds or starts. A start that failed is tried again by the next call. */
    static synchronized Server shared() {
        if (shared == null) {
            shared = new Server();
        }
        return shared;
    }

    private Server() {
        String running = given("broker-sim.control", "BROKER_SIM_CONTROL");
        if (running != null) {
            process = null;
            control = new Control(running.replaceAll("/+$", ""), given("broker-sim.control-token", "BROKER_SIM_CONTROL_TOKEN"));
            return;
        }
        List<String> program = program();
        boolean fetched = program.contains(PACKAGE);
        List<String> command = new ArrayList<>(program);
        command.addAll(List.of("serve", "--control", "0", "--until-eof"));
        try {
            process = new ProcessBuilder(command).start();
        } catch (IOException notThere) {
            throw new IllegalStateException("can't start " + String.join(" ", command) + ": " + notThere.getMessage() + "; " + INSTALL);
        }
        Thread reader = new Thread(this::passOnErrors, "broker-sim stderr");
        reader.setDaemon(true);
        reader.start();
        Runtime.getRuntime().addShutdownHook(new Thread(this::endBehindContexts));
        long startS = fetched ? 180 : 30;
        try {
            control = new Control(CompletableFuture.supplyAsync(this::address).get(startS, TimeUnit.SECONDS), null);
        } catch (Exception failed) {
            String what = failed instanceof TimeoutException ? "is not ready after " + startS + " s" : "ended before it was ready";
            end();
            throw new IllegalStateException(String.join(" ", command) + " " + what + said(reader));
        }
    }

    /**
     * A cluster for which the process waits at the end of the JVM: Spring closes its contexts then, on threads of its own, and their
     * consumers leave their groups.
     */
    static SimCluster held(SimCluster cluster) {
        synchronized (HELD) {
            HELD.add(cluster);
        }
        cluster.whenClosed = () -> {
            synchronized (HELD) {
                HELD.remove(cluster);
                HELD.notifyAll();
            }
        };
        return cluster;
    }

    private void endBehindContexts() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(CONTEXTS_S);
        synchronized (HELD) {
            for (long left = CONTEXTS_S * 1000; left > 0 && !HELD.isEmpty(); left = (deadline - System.nanoTime()) / 1_000_000) {
                try {
                    HELD.wait(left);
                } catch (InterruptedException hurry) {
                    break;
                }
            }
        }
        end();
    }

    /** A system property, or else an environment variable; null where neither is set. */
    private static String given(String property, String variable) {
        String value = System.getProperty(property, System.getenv().getOrDefault(variable, ""));
        return value.isBlank() ? null : value.trim();
    }

    private static List<String> program() {
        String command = given("broker-sim.command", "BROKER_SIM_COMMAND");
        if (command != null) {
            return List.of(command.split("\\s+"));
        }
        Map<String, List<String>> known = Map.of(
            "broker-sim", List.of(),
            "uvx", List.of("--from", PACKAGE, "broker-sim"),
            "pipx", List.of("run", "--spec", PACKAGE, "broker-sim"));
        boolean fetch = given("broker-sim.fetch", "BROKER_SIM_FETCH") != null;
        for (String name : fetch ? List.of("broker-sim", "uvx", "pipx") : List.of("broker-sim")) {
            String found = onPath(name);
            if (found != null) {
                List<String> words = new ArrayList<>(List.of(found));
                words.addAll(known.get(name));
                return words;
            }
        }
        if (!fetch) {
            throw new IllegalStateException("no broker-sim on the PATH; " + INSTALL + "; BROKER_SIM_FETCH=1 has uvx or pipx fetch it");
        }
        throw new IllegalStateException("no broker-sim on the PATH, nor uvx or pipx to fetch it; " + INSTALL);
    }

    private static String onPath(String name) {
        List<String> endings = File.pathSeparatorChar == ';' ? List.of(".exe", ".cmd", ".bat") : List.of("");
        for (String directory : System.getenv().getOrDefault("PATH", "").split(File.pathSeparator)) {
            for (String ending : endings) {
                File file = new File(directory, name + ending);
                if (file.isFile() && file.canExecute()) {
                    return file.getPath();
                }
            }
        }
        return null;
    }

    /** The address of the control server, from a line of stdout. */
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
}
