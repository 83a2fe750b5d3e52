package brokersim;

import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionConfigurationException;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * JUnit 5 extension: a test below {@link Kafka} (or {@code @ExtendWith(BrokerSim.class)}) with a {@link SimCluster} parameter gets a cluster.
 *
 * <p>Each test has a cluster of its own, which ends with it; one that a {@code @BeforeAll} method takes as a parameter serves all tests of
 * its class. In a test of Spring ({@code @SpringBootTest}) below a {@code @Kafka} class the cluster is that of the application context.
 * The failure of a test carries the recent history of its groups. A rule that is still active at the end of its test and never matched, and
 * a scenario whose expectations failed, fail it.
 *
 * <p>One process of {@code broker-sim serve} serves all test classes of a JVM; the README of this package says how it is found.
 */
public final class BrokerSim
    implements ParameterResolver, BeforeEachCallback, TestExecutionExceptionHandler, AfterEachCallback, AfterAllCallback {
    private static final Namespace NAMESPACE = Namespace.create(BrokerSim.class);
    private static final String RULES = "rules";
    private static final String SCENARIOS = "scenarios";
    private static final boolean SPRING = isThere("org.springframework.test.context.junit.jupiter.SpringExtension");

    /** Made by JUnit. */
    public BrokerSim() {}

    private static boolean isThere(String name) {
        try {
            Class.forName(name, false, BrokerSim.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException without) {
            return false;
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
        return parameter.getParameter().getType() == SimCluster.class;
    }

    @Override
    public SimCluster resolveParameter(ParameterContext parameter, ExtensionContext test) {
        SimCluster ofContext = ofSpringsContext(test);
        if (ofContext != null) {
            if (AnnotationSupport.isAnnotated(test.getElement(), Kafka.class) && test.getTestMethod().isPresent()) {
                throw new ExtensionConfigurationException("@Kafka above a method has no effect in a test of Spring, whose application context"
                    + " has the cluster; it belongs above a class");
            }
            return ofContext;
        }
        return test.getStore(NAMESPACE).getOrComputeIfAbsent(
            SimCluster.class,
            key -> created(test),
            SimCluster.class);
    }

    private static SimCluster created(ExtensionContext test) {
        SimCluster cluster = SimCluster.create(Server.shared().control, Options.of(annotation(test)), test.getUniqueId());
        try {
            return cluster.startScenario();
        } catch (RuntimeException | AssertionError refused) {
            cluster.close();
            throw refused;
        }
    }

    private static Optional<Kafka> annotation(ExtensionContext test) {
        Optional<Kafka> found = AnnotationSupport.findAnnotation(test.getElement(), Kafka.class);
        for (Class<?> type = test.getTestClass().orElse(null); found.isEmpty() && type != null; type = type.getEnclosingClass()) {
            found = AnnotationSupport.findAnnotation(type, Kafka.class);
        }
        return found;
    }

    private static SimCluster ofSpringsContext(ExtensionContext test) {
        return SPRING ? SpringContexts.cluster(test) : null;
    }

    @Override
    public void beforeEach(ExtensionContext test) {
        SimCluster cluster = ofSpringsContext(test);
        if (cluster != null) {
            test.getStore(NAMESPACE).put(RULES, new HashSet<>(cluster.rules()));
            test.getStore(NAMESPACE).put(SCENARIOS, new HashSet<>(cluster.scenarios()));
            cluster.startScenario();
        }
    }

    @Override
    public void afterEach(ExtensionContext test) {
        end(test);
    }

    @Override
    public void afterAll(ExtensionContext tests) {
        end(tests);
    }

    private static Set<?> earlier(ExtensionContext test, String what) {
        Set<?> found = test.getStore(NAMESPACE).get(what, Set.class);
        return found == null ? Set.of() : found;
    }

    /**
     * Ends the scenarios and rules of the cluster that was made for this test, or for all tests of this class, but for those that were
     * there before.
     */
    private static void end(ExtensionContext test) {
        SimCluster cluster = ofSpringsContext(test);
        if (cluster == null) {
            cluster = test.getStore(NAMESPACE).get(SimCluster.class, SimCluster.class);
            if (cluster == null || !cluster.owner.equals(test.getUniqueId())) {
                return;
            }
        }
        try {
            boolean passed = test.getExecutionException().isEmpty();
            try {
                cluster.endScenarios(earlier(test, SCENARIOS), passed);
            } catch (SimCluster.SimError broken) {
                cluster.endRules(earlier(test, RULES), false);
                throw broken;
            }
            cluster.endRules(earlier(test, RULES), passed);
        } catch (SimCluster.SimError failed) {
            addHistory(failed, cluster);
            throw failed;
        }
    }

    @Override
    public void handleTestExecutionException(ExtensionContext test, Throwable failure) throws Throwable {
        SimCluster ofContext = ofSpringsContext(test);
        SimCluster cluster = ofContext != null ? ofContext : test.getStore(NAMESPACE).get(SimCluster.class, SimCluster.class);
        if (cluster != null) {
            addHistory(failure, cluster);
        }
        throw failure;
    }

    private static void addHistory(Throwable failure, SimCluster cluster) {
        try {
            String history = cluster.recentHistory();
            if (!history.isBlank()) {
                failure.addSuppressed(new RecentHistory("\n" + history));
            }
        } catch (SimCluster.SimError | IllegalStateException without) {  // it must not hide the failure
            failure.addSuppressed(without);
        }
    }

    /** The recent history of the groups of a failed test, suppressed below its failure, without a stack trace of its own. */
    public static final class RecentHistory extends RuntimeException {
        private static final long serialVersionUID = 1;

        RecentHistory(String text) {
            super(text, null, false, false);
        }
    }
}
