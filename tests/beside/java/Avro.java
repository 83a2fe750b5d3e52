/*
 * A producer and a consumer of Avro records with Apicurio's serdes. Arguments: bootstrap, the registry's address, topic, and the ids of
 * orders to produce; without ids it prints each order of the topic, "id amount", until its stdin ends.
 */

import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Avro {
    private static final Schema ORDER = new Schema.Parser().parse(
        "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop\",\"fields\":["
            + "{\"name\":\"id\",\"type\":\"string\"},{\"name\":\"amount\",\"type\":\"long\"}]}");

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("apicurio.registry.url", args[1]);
        if (args.length > 3) {
            produce(config, args[2], List.of(args).subList(3, args.length));
        } else {
            consume(config, args[2]);
        }
    }

    private static void produce(Properties config, String topic, List<String> ids) throws Exception {
        config.put("apicurio.registry.auto-register", "true");
        config.put("apicurio.registry.artifact-resolver-strategy", "io.apicurio.registry.serde.strategy.TopicIdStrategy");
        try (KafkaProducer<String, GenericRecord> producer =
                new KafkaProducer<>(config, new StringSerializer(), configured(new AvroKafkaSerializer<GenericRecord>(), config))) {
            for (String id : ids) {
                GenericRecord order = new GenericData.Record(ORDER);
                order.put("id", id);
                order.put("amount", 7L);
                producer.send(new ProducerRecord<>(topic, id, order)).get();
            }
        }
    }

    private static void consume(Properties config, String topic) throws Exception {
        config.put("group.id", "java-avro");
        config.put("auto.offset.reset", "earliest");
        AvroKafkaDeserializer<GenericRecord> values = new AvroKafkaDeserializer<>();
        values.configure((java.util.Map) config, false);
        try (KafkaConsumer<String, GenericRecord> consumer = new KafkaConsumer<>(config, new StringDeserializer(), values)) {
            consumer.subscribe(List.of(topic));
            while (System.in.available() == 0) {
                for (ConsumerRecord<String, GenericRecord> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println(record.value().get("id") + " " + record.value().get("amount"));
                }
            }
        }
    }

    private static AvroKafkaSerializer<GenericRecord> configured(AvroKafkaSerializer<GenericRecord> values, Properties config) {
        values.configure((java.util.Map) config, false);
        return values;
    }
}
