package example;

import static java.time.Duration.ZERO;
import static java.time.Duration.ofMillis;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;

/** An application's loop: polls a consumer on a thread of its own until it is closed, or crashes. */
final class Poller implements AutoCloseable {
    private final KafkaConsumer<String, String> consumer;
    private final CompletableFuture<Void> loop;
    private volatile CloseOptions end = CloseOptions.timeout(ofMillis(2_000));

    Poller(KafkaConsumer<String, String> consumer) {
        this.consumer = consumer;
        this.loop = CompletableFuture.runAsync(this::run, task -> new Thread(task, "poller").start());
    }

    private void run() {
        try {
            while (true) {
                consumer.poll(ofMillis(100));
            }
        } catch (WakeupException asked) {
            consumer.close(end);
        }
    }

    /** Its connections close, and it tells nobody that it leaves. */
    void crash() throws Exception {
        end = CloseOptions.timeout(ZERO).withGroupMembershipOperation(GroupMembershipOperation.REMAIN_IN_GROUP);
        close();
    }

    @Override
    public void close() throws Exception {
        consumer.wakeup();
        loop.get(10, TimeUnit.SECONDS);
    }
}
