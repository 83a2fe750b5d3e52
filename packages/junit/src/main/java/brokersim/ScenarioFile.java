package brokersim;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Reads scenario files: the brokers get their text, since they may be on another machine. */
final class ScenarioFile {
    private ScenarioFile() {}

    /**
     * The parameters for a scenario file under these names: its name and its text; the text of an included scenario is at the brokers.
     *
     * @param file a path, a resource of the class path, or the name of an included scenario
     */
    static Map<String, Object> parameters(String file, String name, String text) {
        boolean included = !file.contains("/") && !file.endsWith(".yaml") && !file.endsWith(".yml");
        return included ? Map.of(name, file) : Map.of(name, file, text, read(file));
    }

    private static String read(String file) {
        try {
            Path path = Path.of(file);
            if (Files.exists(path)) {
                return Files.readString(path);
            }
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            try (InputStream resource = loader.getResourceAsStream(file.startsWith("/") ? file.substring(1) : file)) {
                if (resource == null) {
                    throw new IllegalArgumentException("no file and no resource " + file + " (the directory is " + Path.of("").toAbsolutePath() + ")");
                }
                return new String(resource.readAllBytes(), StandardCharsets.UTF_8);
            }
        } catch (IOException unreadable) {
            throw new UncheckedIOException(file + ": " + unreadable, unreadable);
        }
    }
}
