package brokersim;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A simulated Kafka cluster for a test method, or for each test of a class: one broker of Kafka 4.1 on a real clock, unless an element says
 * otherwise. Tests take it as a parameter of type {@link SimCluster}.
 *
 * <p>Above a class with {@code @SpringBootTest} (or any test of Spring's) the cluster starts with the application context and ends with it;
 * its address is the property {@code spring.kafka.bootstrap-servers}, and it is a bean of type {@link SimCluster}.
 */
@Documented
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(BrokerSim.class)
public @interface Kafka {
    /**
     * Number of brokers.
     *
     * @return 1 to 100
     */
    int brokers() default 1;

    /**
     * The Kafka release to behave as.
     *
     * @return 3.4 to 4.4
     */
    String asVersion() default "4.1";

    /**
     * Topics that exist from the start.
     *
     * @return names, as in {@code "orders:6"} with a number of partitions; without one it is 1
     */
    String[] topics() default {};

    /**
     * When __consumer_offsets and the other internal topics are created.
     *
     * @return at-start, or on-demand as in Kafka, where the first client that needs one gets COORDINATOR_NOT_AVAILABLE and asks again
     */
    String internalTopics() default "at-start";

    /**
     * The brokers' clock.
     *
     * @return real, manual, or scaled:10
     */
    String clock() default "real";

    /**
     * Broker settings by Kafka's names.
     *
     * @return entries of the form {@code "name=value"}
     */
    String[] config() default {};

    /**
     * How clients must connect; {@link SimCluster#clientProperties} has the settings for it.
     *
     * @return PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
     */
    String securityProtocol() default "PLAINTEXT";

    /**
     * Users for SASL.
     *
     * @return entries of the form {@code "name:password"}
     */
    String[] users() default {};

    /**
     * A scenario file whose incident happens to the clients of each test: the cluster has the file's settings and topics, unless other
     * elements that differ from their defaults replace them, and its steps run from the start of the test. A test fails where an
     * expectation of the file failed; {@link SimCluster#scenario()} waits for its steps and its end.
     *
     * @return a path, a resource of the class path, or the name of an included scenario
     */
    String scenario() default "";

    /**
     * The property of Spring's environment that gets the bootstrap address.
     *
     * @return its name
     */
    String bootstrapServersProperty() default "spring.kafka.bootstrap-servers";
}
