package brokersim;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.commons.support.AnnotationSupport;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;
import org.springframework.test.context.TestContextAnnotationUtils;
import org.springframework.test.context.junit.jupiter.SpringExtension;

/**
 * Gives the application context of a test of Spring's below {@link Kafka} a cluster. Spring's own META-INF/spring.factories names this
 * class; nothing loads it where Spring is not used.
 */
public final class SpringContexts implements ContextCustomizerFactory {
    /** Made by Spring. */
    public SpringContexts() {}

    @Override
    public ContextCustomizer createContextCustomizer(Class<?> test, List<ContextConfigurationAttributes> attributes) {
        Kafka kafka = TestContextAnnotationUtils.findMergedAnnotation(test, Kafka.class);
        return kafka == null ? null : new WithCluster(kafka);
    }

    /** The cluster of a test's application context; null where it has none, and for tests without Spring. */
    static SimCluster cluster(ExtensionContext test) {
        Class<?> type = test.getTestClass().orElse(null);
        if (type == null
            || !TestContextAnnotationUtils.hasAnnotation(type, Kafka.class)
            || !extended(type)) {
            return null;
        }
        ApplicationContext context = SpringExtension.getApplicationContext(test);
        return context.getBeanProvider(SimCluster.class).getIfAvailable();
    }

    private static boolean extended(Class<?> type) {
        for (Class<?> one = type; one != null; one = one.getEnclosingClass()) {
            boolean found = AnnotationSupport.findRepeatableAnnotations(one, ExtendWith.class).stream()
                .anyMatch(extension -> List.of(extension.value()).contains(SpringExtension.class));
            if (found) {
                return true;
            }
        }
        return false;
    }

    /** Contexts of equal annotations are one context, which Spring keeps for later test classes. */
    private record WithCluster(Kafka kafka) implements ContextCustomizer {
        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration configuration) {
            SimCluster cluster = SimCluster.create(Server.shared().control, Options.of(Optional.of(kafka)), "a context of Spring");
            Map<String, Object> properties = new LinkedHashMap<>();
            cluster.clientProperties().forEach((name, value) -> properties.put("spring.kafka.properties." + name, value));
            properties.remove("spring.kafka.properties.bootstrap.servers");
            properties.put(kafka.bootstrapServersProperty(), cluster.bootstrap());
            context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("broker-sim", properties));
            RootBeanDefinition bean = new RootBeanDefinition(SimCluster.class, () -> Server.held(cluster));
            bean.setDestroyMethodName("close");  // with the context
            ((BeanDefinitionRegistry) context.getBeanFactory()).registerBeanDefinition("simCluster", bean);
        }
    }
}
