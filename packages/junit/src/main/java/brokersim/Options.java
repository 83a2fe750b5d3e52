package brokersim;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.extension.ExtensionConfigurationException;

/** What POST /v1/clusters takes of an annotation. */
final class Options {
    private Options() {}

    static Map<String, Object> of(Optional<Kafka> annotation) {
        Map<String, Object> options = new LinkedHashMap<>(Map.of("internal_topics", "at-start"));
        Map<String, Object> config = new LinkedHashMap<>();
        annotation.ifPresent(kafka -> {
            options.put("brokers", kafka.brokers());
            options.put("as_version", kafka.asVersion());
            options.put("clock", kafka.clock());
            options.put("topics", List.of(kafka.topics()));
            options.put("internal_topics", kafka.internalTopics());
            options.put("security_protocol", kafka.securityProtocol());
            options.put("users", pairs("users", kafka.users(), ':', "alice:secret"));
            if (!kafka.scenario().isEmpty()) {
                options.putAll(ScenarioFile.parameters(kafka.scenario(), "scenario", "scenario_file"));
            }
            config.putAll(pairs("config", kafka.config(), '=', "num.partitions=3"));
        });
        if (!options.containsKey("scenario")) {
            config.putIfAbsent("group.initial.rebalance.delay.ms", "0");  // groups form at once; of a scenario they do unless it says otherwise
        }
        options.put("config", config);
        return options;
    }

    private static Map<String, String> pairs(String what, String[] entries, char between, String example) {
        Map<String, String> found = new LinkedHashMap<>();
        for (String entry : entries) {
            int at = entry.indexOf(between);
            if (at <= 0) {
                throw new ExtensionConfigurationException("@Kafka(" + what + " = \"" + entry + "\") is not \"name" + between + "value\""
                    + " (expected e.g. \"" + example + "\")");
            }
            found.put(entry.substring(0, at), entry.substring(at + 1));
        }
        return found;
    }
}
