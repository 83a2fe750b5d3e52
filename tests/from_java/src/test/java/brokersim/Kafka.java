package brokersim;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** What cluster a test wants; above a test or above its class. Without it: one broker of Kafka 4.1 on a real clock. */
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
public @interface Kafka {
    int brokers() default 1;

    /** Which Kafka to be, 3.4 to 4.4. */
    String asVersion() default "4.1";

    /** Topics that are there from the start, {@code "orders:6"}; without a number of partitions one. */
    String[] topics() default {};

    /**
     * When __consumer_offsets and the other internal topics are created: at-start, or on-demand as in Kafka, where the first client that
     * needs one is told COORDINATOR_NOT_AVAILABLE and asks again.
     */
    String internalTopics() default "at-start";

    /** real, manual, or scaled:10. */
    String clock() default "real";

    /** Broker settings by Kafka's own names, {@code "name=value"}. */
    String[] config() default {};
}
