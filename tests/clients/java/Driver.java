/*
 * Driver for the Java clients; one source for kafka-clients 3.4 and 4.x. The protocol is the one that
 * python/line_protocol.py describes: a JSON object a line, requests on stdin, replies on stdout, the client's log on stderr.
 * A member polls by itself in its own thread (KafkaConsumer belongs to one thread), its calls run between two polls.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration POLL = Duration.ofMillis(50);
    static final Object LATER = new Object();
    static final Map<String, String> STRATEGIES = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    static volatile Map<String, Object> connection;

    interface Operation {
        Object run(JsonNode request) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        connection = Map.of("bootstrap.servers", args[0]);
        Map<String, Operation> operations = new HashMap<>();
        operations.put("hello", request -> Map.of("client", "java", "version", AppInfoParser.getVersion()));
        operations.put("connect", Driver::connect);
        operations.put("produce", Driver::produce);
        operations.put("transactional", Driver::transactional);
        operations.put("transaction", Driver::transaction);
        operations.put("transform", Driver::transform);
        operations.put("create_topic", Driver::createTopic);
        operations.put("create_partitions", Driver::createPartitions);
        operations.put("delete_records", Driver::deleteRecords);
        operations.put("group_offsets", Driver::groupOffsets);
        operations.put("list_groups", Driver::listGroups);
        operations.put("describe_group", Driver::describeGroup);
        operations.put("delete_group", Driver::deleteGroup);
        Map<String, Member> members = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            String op = request.get("op").asText();
            if (operations.containsKey(op)) {
                perform(request, operations.get(op));
            } else if (op.equals("start")) {
                Member member = new Member(request);
                members.put(request.get("member").asText(), member);
                member.start();
            } else if (op.equals("state")) {
                perform(request, members.get(request.get("member").asText())::state);
            } else {
                members.get(request.get("member").asText()).calls.add(request);
            }
        }
        System.exit(0);
    }

    static void perform(JsonNode request, Operation operation) {
        try {
            Object value = operation.run(request);
            if (value != LATER) {
                answer(request, value, null);
            }
        } catch (ExecutionException error) {
            answer(request, null, error.getCause());
        } catch (Exception error) {
            answer(request, null, error);
        }
    }

    static Map<String, String> describe(Throwable error) {
        return Map.of("type", error.getClass().getSimpleName(), "message", String.valueOf(error.getMessage()));
    }

    static void answer(JsonNode request, Object value, Throwable error) {
        Map<String, Object> reply = new HashMap<>();
        reply.put("id", request.get("id").asInt());
        reply.put(error == null ? "ok" : "error", error == null ? value : describe(error));
        try {
            synchronized (JSON) {
                System.out.println(JSON.writeValueAsString(reply));
                System.out.flush();
            }
        } catch (Exception broken) {
            broken.printStackTrace();
            System.exit(1);
        }
    }

    static boolean given(JsonNode request, String field) {
        return request.hasNonNull(field);
    }

    static List<TopicPartition> partitions(JsonNode rows) {
        List<TopicPartition> found = new ArrayList<>();
        rows.forEach(row -> found.add(new TopicPartition(row.get(0).asText(), row.get(1).asInt())));
        return found;
    }

    static List<List<Object>> pairs(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> List.<Object>of(p.topic(), p.partition())).collect(Collectors.toList());
    }

    static class Member extends Thread {
        final JsonNode options;
        final BlockingQueue<JsonNode> calls = new LinkedBlockingQueue<>();
        final List<List<Object>> records = new ArrayList<>();
        final List<List<List<Object>>> assigned = new ArrayList<>();
        final List<List<List<Object>>> revoked = new ArrayList<>();
        final List<Map<String, String>> errors = new ArrayList<>();
        List<List<Object>> assignment = List.of();
        KafkaConsumer<String, String> consumer;
        boolean finished;

        Member(JsonNode options) {
            this.options = options;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                open();
            } catch (Exception error) {
                answer(options, null, error);
                return;
            }
            answer(options, null, null);
            while (!finished) {
                try {
                    poll();
                } catch (Exception error) {
                    failed(error);
                }
                serveCalls();
            }
        }

        void open() {
            Properties config = new Properties();
            config.putAll(connection);
            config.put("client.id", options.get("member").asText());
            config.put("key.deserializer", StringDeserializer.class.getName());
            config.put("value.deserializer", StringDeserializer.class.getName());
            config.put("auto.offset.reset", options.get("reset").asText());
            boolean inGroup = given(options, "group");
            config.put("enable.auto.commit", inGroup && options.get("auto_commit").asBoolean());
            config.put("auto.commit.interval.ms", options.get("auto_commit_interval_ms").asInt());
            config.put("max.poll.interval.ms", options.get("max_poll_interval_ms").asInt());
            config.put("session.timeout.ms", options.get("session_timeout_ms").asInt());
            config.put("heartbeat.interval.ms", options.get("heartbeat_interval_ms").asInt());
            config.put("isolation.level", options.get("isolation").asText());
            config.put("metadata.max.age.ms", options.get("metadata_max_age_ms").asInt());
            config.put("partition.assignment.strategy", STRATEGIES.get(options.get("strategy").asText()));
            config.put("fetch.max.wait.ms", 100);
            if (inGroup) {
                config.put("group.id", options.get("group").asText());
            }
            if (given(options, "instance")) {
                config.put("group.instance.id", options.get("instance").asText());
            }
            if (given(options, "config")) {
                options.get("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().asText()));
            }
            if (config.getProperty("group.protocol", "classic").equals("consumer")) {
                List.of("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy").forEach(config::remove);
            }
            consumer = new KafkaConsumer<>(config);
            ConsumerRebalanceListener listener = new Listener(this);
            if (given(options, "assign")) {
                consumer.assign(partitions(options.get("assign")));
            } else if (given(options, "pattern")) {
                consumer.subscribe(Pattern.compile(options.get("pattern").asText()), listener);
            } else {
                List<String> topics = new ArrayList<>();
                options.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, listener);
            }
        }

        void poll() {
            List<List<Object>> arrived = new ArrayList<>();
            for (ConsumerRecord<String, String> r : consumer.poll(POLL)) {
                List<Object> row = new ArrayList<>(List.of(r.topic(), r.partition(), r.offset()));
                row.add(r.key());
                row.add(r.value());
                row.add(r.timestamp());
                arrived.add(row);
            }
            synchronized (this) {
                records.addAll(arrived);
                assignment = pairs(consumer.assignment());
            }
        }

        synchronized void failed(Exception error) {
            Map<String, String> entry = describe(error);
            if (errors.isEmpty() || !errors.get(errors.size() - 1).equals(entry)) {
                errors.add(entry);
            }
        }

        synchronized Object state(JsonNode request) {
            return Map.of("assignment", assignment, "records", List.copyOf(records), "assigned", List.copyOf(assigned),
                "revoked", List.copyOf(revoked), "errors", List.copyOf(errors));
        }

        /* Stops polling, as an application does that takes long over its records, until "resume". */
        Object stall(JsonNode request) throws InterruptedException {
            answer(request, null, null);
            JsonNode next = calls.take();
            while (!next.get("op").asText().equals("resume")) {
                next = calls.take();
            }
            answer(next, null, null);
            return LATER;
        }

        void serveCalls() {
            for (JsonNode request = calls.poll(); request != null && !finished; request = calls.poll()) {
                perform(request, this::call);
            }
        }

        Object call(JsonNode request) throws Exception {
            switch (request.get("op").asText()) {
                case "commit": return commit(request);
                case "committed": return committed(request);
                case "position": return position(request);
                case "seek_timestamp": return seekTimestamp(request);
                case "stall": return stall(request);
                case "leave": return leave();
                default: throw new IllegalArgumentException("no operation " + request.get("op"));
            }
        }

        Object commit(JsonNode request) {
            Map<TopicPartition, OffsetAndMetadata> offsets = null;
            if (given(request, "offsets")) {
                offsets = new HashMap<>();
                for (JsonNode row : request.get("offsets")) {
                    offsets.put(new TopicPartition(row.get(0).asText(), row.get(1).asInt()),
                        new OffsetAndMetadata(row.get(2).asLong(), row.get(3).asText()));
                }
            }
            if (request.get("how").asText().equals("sync")) {
                if (offsets == null) {
                    consumer.commitSync();
                } else {
                    consumer.commitSync(offsets);
                }
                return null;
            }
            if (offsets == null) {
                consumer.commitAsync((done, error) -> answer(request, null, error));
            } else {
                consumer.commitAsync(offsets, (done, error) -> answer(request, null, error));
            }
            return LATER;
        }

        Object committed(JsonNode request) {
            List<TopicPartition> wanted = partitions(request.get("partitions"));
            Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(Map.copyOf(
                wanted.stream().collect(Collectors.toMap(p -> p, p -> true))).keySet());
            return wanted.stream().map(p -> offsetRow(p, found.get(p))).collect(Collectors.toList());
        }

        Object position(JsonNode request) {
            return partitions(request.get("partitions")).stream()
                .map(p -> List.<Object>of(p.topic(), p.partition(), consumer.position(p))).collect(Collectors.toList());
        }

        Object seekTimestamp(JsonNode request) {
            Map<TopicPartition, Long> wanted = new HashMap<>();
            partitions(request.get("partitions")).forEach(p -> wanted.put(p, request.get("timestamp_ms").asLong()));
            List<List<Object>> rows = new ArrayList<>();
            for (Map.Entry<TopicPartition, OffsetAndTimestamp> found : consumer.offsetsForTimes(wanted).entrySet()) {
                TopicPartition partition = found.getKey();
                if (found.getValue() == null) {
                    consumer.seekToEnd(List.of(partition));
                    rows.add(List.of(partition.topic(), partition.partition(), -1));
                } else {
                    consumer.seek(partition, found.getValue().offset());
                    rows.add(List.of(partition.topic(), partition.partition(), found.getValue().offset()));
                }
            }
            return rows;
        }

        Object leave() {
            consumer.close();
            synchronized (this) {
                assignment = List.of();
            }
            finished = true;
            return null;
        }
    }

    static class Listener implements ConsumerRebalanceListener {
        final Member member;

        Listener(Member member) {
            this.member = member;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            synchronized (member) {
                member.assigned.add(pairs(partitions));
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            synchronized (member) {
                member.revoked.add(pairs(partitions));
            }
        }
    }

    static List<Object> offsetRow(TopicPartition partition, OffsetAndMetadata committed) {
        long offset = committed == null ? -1 : committed.offset();
        return List.of(partition.topic(), partition.partition(), offset, committed == null ? "" : committed.metadata());
    }

    static Object connect(JsonNode request) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", request.get("bootstrap").asText());
        config.put("security.protocol", request.get("protocol").asText());
        if (given(request, "mechanism")) {
            String mechanism = request.get("mechanism").asText(), user = request.get("user").asText();
            config.put("sasl.mechanism", mechanism);
            if (mechanism.equals("OAUTHBEARER")) {
                config.put("sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
                    + " unsecuredLoginStringClaim_sub=\"" + user + "\";");
            } else {
                String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
                config.put("sasl.jaas.config", String.format("org.apache.kafka.common.security.%s required username=\"%s\""
                    + " password=\"%s\";", module, user, request.get("password").asText()));
            }
        }
        if (given(request, "ca")) {
            config.put("ssl.truststore.type", "PEM");
            config.put("ssl.truststore.location", request.get("ca").asText());
        }
        if (given(request, "certificate")) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.location", request.get("certificate").asText());
        }
        connection = config;
        return null;
    }

    static Object produce(JsonNode request) throws Exception {
        Properties config = new Properties();
        config.putAll(connection);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        config.put("acks", given(request, "acks") ? request.get("acks").asText() : "all");
        config.put("compression.type", given(request, "compression") ? request.get("compression").asText() : "none");
        config.put("enable.idempotence", given(request, "idempotent") && request.get("idempotent").asBoolean());
        config.put("max.request.size", 4_000_000);
        config.put("linger.ms", 5);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<List<Object>> rows = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            for (JsonNode record : request.get("records")) {
                ProducerRecord<String, String> toSend = new ProducerRecord<>(request.get("topic").asText(),
                    given(record, "partition") ? record.get("partition").asInt() : null,
                    given(record, "timestamp") ? record.get("timestamp").asLong() : null,
                    given(record, "key") ? record.get("key").asText() : null,
                    given(record, "value") ? record.get("value").asText() : null);
                if (given(record, "headers")) {
                    record.get("headers").forEach(header -> toSend.headers().add(new RecordHeader(
                        header.get(0).asText(), header.get(1).asText().getBytes(StandardCharsets.UTF_8))));
                }
                sent.add(producer.send(toSend));
            }
            producer.flush();
        }
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata done = future.get(20, TimeUnit.SECONDS);
            rows.add(List.of(done.partition(), done.offset()));
        }
        return rows;
    }

    static final Map<String, KafkaProducer<String, String>> transactionalProducers = new HashMap<>();
    static final java.util.Set<String> openTransactions = new java.util.HashSet<>();

    static Object transactional(JsonNode request) {
        Properties config = new Properties();
        config.putAll(connection);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        config.put("transactional.id", request.get("transactional_id").asText());
        config.put("transaction.timeout.ms", request.get("timeout_ms").asInt());
        KafkaProducer<String, String> producer = new KafkaProducer<>(config);
        producer.initTransactions();
        transactionalProducers.put(request.get("name").asText(), producer);
        return null;
    }

    static Object transaction(JsonNode request) throws Exception {
        String name = request.get("name").asText();
        KafkaProducer<String, String> producer = transactionalProducers.get(name);
        if (openTransactions.add(name)) {
            producer.beginTransaction();
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : request.get("records")) {
            sent.add(producer.send(new ProducerRecord<>(record.get("topic").asText(), record.get("partition").asInt(),
                null, record.get("value").asText())));
        }
        producer.flush();
        for (Future<RecordMetadata> future : sent) {
            future.get(20, TimeUnit.SECONDS);
        }
        if (given(request, "offsets") && request.get("offsets").size() > 0) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            request.get("offsets").forEach(row -> offsets.put(
                new TopicPartition(row.get(0).asText(), row.get(1).asInt()), new OffsetAndMetadata(row.get(2).asLong())));
            producer.sendOffsetsToTransaction(offsets,
                new org.apache.kafka.clients.consumer.ConsumerGroupMetadata(request.get("group").asText()));
        }
        String end = request.get("end").asText();
        if (!end.equals("open")) {
            openTransactions.remove(name);
            if (end.equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        return null;
    }

    static Object transform(JsonNode request) throws Exception {
        Properties config = new Properties();
        config.putAll(connection);
        config.put("group.id", request.get("group").asText());
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "earliest");
        config.put("max.poll.records", 5);
        config.put("session.timeout.ms", request.get("session_timeout_ms").asInt());
        config.put("heartbeat.interval.ms", 300);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config);
        consumer.subscribe(List.of(request.get("source").asText()));
        String name = "transform " + request.get("transactional_id").asText();
        ((com.fasterxml.jackson.databind.node.ObjectNode) request).put("name", name);
        transactional(request);
        KafkaProducer<String, String> producer = transactionalProducers.remove(name);
        boolean staysOpen = request.get("leave").asText().equals("open");
        int count = request.get("count").asInt(), moved = 0, turn = 0;
        while (true) {
            var records = consumer.poll(java.time.Duration.ofMillis(500));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            Map<TopicPartition, Long> begins = new HashMap<>();
            for (var record : records) {
                producer.send(new ProducerRecord<>(request.get("sink").asText(), record.value()));
                TopicPartition at = new TopicPartition(record.topic(), record.partition());
                begins.putIfAbsent(at, record.offset());
                ends.put(at, new OffsetAndMetadata(record.offset() + 1));
            }
            producer.flush();
            if (moved >= count) {
                return moved;
            }
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            turn++;
            if (turn % 3 == 0) {
                producer.abortTransaction();
                begins.forEach(consumer::seek);
                continue;
            }
            producer.commitTransaction();
            moved += records.count();
            if (moved >= count && !staysOpen) {
                consumer.close();
                producer.close();
                return moved;
            }
        }
    }

    static Admin admin() {
        return Admin.create(connection);
    }

    static Object createTopic(JsonNode request) throws Exception {
        NewTopic topic = new NewTopic(request.get("topic").asText(), Optional.of(request.get("partitions").asInt()),
            Optional.of((short) 1));
        if (given(request, "configs")) {
            Map<String, String> configs = new HashMap<>();
            request.get("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
            topic.configs(configs);
        }
        try (Admin admin = admin()) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return null;
    }

    static Object createPartitions(JsonNode request) throws Exception {
        try (Admin admin = admin()) {
            admin.createPartitions(Map.of(request.get("topic").asText(),
                NewPartitions.increaseTo(request.get("total").asInt()))).all().get();
        }
        return null;
    }

    static Object deleteRecords(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        try (Admin admin = admin()) {
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(request.get("before").asLong()))).all().get();
        }
        return null;
    }

    static Object groupOffsets(JsonNode request) throws Exception {
        try (Admin admin = admin()) {
            Map<TopicPartition, OffsetAndMetadata> found = admin.listConsumerGroupOffsets(request.get("group").asText())
                .partitionsToOffsetAndMetadata().get();
            return partitions(request.get("partitions")).stream().map(p -> offsetRow(p, found.get(p)))
                .collect(Collectors.toList());
        }
    }

    static Object listGroups(JsonNode request) throws Exception {
        try (Admin admin = admin()) {
            return admin.listConsumerGroups().all().get().stream().map(g -> g.groupId()).sorted()
                .collect(Collectors.toList());
        }
    }

    static Object describeGroup(JsonNode request) throws Exception {
        String groupId = request.get("group").asText();
        try (Admin admin = admin()) {
            ConsumerGroupDescription group = admin.describeConsumerGroups(List.of(groupId)).all().get().get(groupId);
            List<Map<String, Object>> members = new ArrayList<>();
            group.members().forEach(m -> {
                Map<String, Object> row = new HashMap<>();
                row.put("client_id", m.clientId());
                row.put("instance", m.groupInstanceId().orElse(null));
                row.put("assignment", pairs(m.assignment().topicPartitions()));
                members.add(row);
            });
            return Map.of("state", group.state().toString(), "protocol", group.partitionAssignor(), "members", members);
        }
    }

    static Object deleteGroup(JsonNode request) throws Exception {
        try (Admin admin = admin()) {
            admin.deleteConsumerGroups(List.of(request.get("group").asText())).all().get();
        }
        return null;
    }
}
