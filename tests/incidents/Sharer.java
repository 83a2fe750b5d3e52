import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A member of a share group (KIP-932), told what to do as member.py is. It accepts what it reads, record by record; one that reads
 * "retry" is released at its first delivery, "broken" at each of them, "bad" is rejected, and `dies_on` kills it. A `block` is a record
 * that it works on for so long, its locks held. What it has (`assigned`) are the partitions that it has read from: nobody tells it more.
 */
public final class Sharer {
    private static final Logger LOG = LoggerFactory.getLogger("service");
    private static final Queue<String> COMMANDS = new ConcurrentLinkedQueue<>();

    private final String options;
    private final KafkaShareConsumer<String, String> consumer;
    private final TreeSet<Integer> seen = new TreeSet<>();

    private Sharer(String options) {
        this.options = options;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", text(options, "bootstrap"));
        settings.put("group.id", text(options, "group"));
        settings.put("client.id", text(options, "client_id"));
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "20");
        consumer = new KafkaShareConsumer<>(settings);
        consumer.setAcknowledgementCommitCallback((offsets, error) -> {
            if (error != null) {
                LOG.warn("acknowledgement refused: {}", error.toString());
            }
        });
        consumer.subscribe(List.of(text(options, "topic")));
    }

    private void run() throws InterruptedException {
        String poison = text(options, "dies_on");
        boolean open = true;
        while (open) {
            double busy = 0;
            String done = null;
            for (String command = COMMANDS.poll(); command != null; command = COMMANDS.poll()) {
                done = text(command, "do");
                if ("close".equals(done)) {
                    open = false;
                } else if ("block".equals(done)) {
                    busy = Double.parseDouble(number(command, "seconds"));
                }
            }
            boolean got = false;
            for (long end = System.nanoTime() + 30_000_000_000L; !got && System.nanoTime() < end; got = true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    got = true;
                    if (record.value().equals(poison)) {
                        Runtime.getRuntime().halt(137);
                    }
                    if (busy > 0) {
                        Thread.sleep((long) (busy * 1000));
                        busy = 0;
                    }
                    consumer.acknowledge(record, verdict(record));
                    if (seen.add(record.partition())) {
                        tell();
                    }
                }
                got = got || busy == 0;
            }
            try {
                consumer.commitSync(Duration.ofSeconds(20));
            } catch (KafkaException error) {
                LOG.warn("acknowledgement failed: {}", error.toString());
            }
            if (done != null && open) {
                say("\"event\": \"did\", \"did\": \"" + done + "\"");
            }
        }
        consumer.close();
        say("\"event\": \"closed\"");
    }

    private static AcknowledgeType verdict(ConsumerRecord<String, String> record) {
        int deliveries = record.deliveryCount().map(Short::intValue).orElse(1);
        return switch (record.value()) {
            case "broken" -> AcknowledgeType.RELEASE;
            case "retry" -> deliveries > 1 ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE;
            case "bad" -> AcknowledgeType.REJECT;
            default -> AcknowledgeType.ACCEPT;
        };
    }

    private void tell() {
        String parts = seen.stream().map(String::valueOf).collect(Collectors.joining(", "));
        say("\"event\": \"assigned\", \"partitions\": [" + parts + "]");
    }

    private static void say(String what) {
        System.out.println("{\"at_ms\": " + System.currentTimeMillis() + ", " + what + "}");
    }

    private static String text(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : null;
    }

    private static String number(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": ([0-9.]+)").matcher(json);
        return found.find() ? found.group(1) : "0";
    }

    public static void main(String[] args) throws InterruptedException {
        Thread listener = new Thread(() -> {
            new BufferedReader(new InputStreamReader(System.in)).lines().forEach(COMMANDS::add);
            COMMANDS.add("{\"do\": \"close\"}");
        });
        listener.setDaemon(true);
        listener.start();
        new Sharer(args[0]).run();
    }
}
