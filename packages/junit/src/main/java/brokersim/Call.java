package brokersim;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * A call of an operation that has not been made yet: its optional parameters are set first, and {@code call()} makes it.
 *
 * @param <T> the answer
 */
public abstract class Call<T> {
    private final Control control;
    private final String method;
    private final String path;
    private final Function<String, T> read;
    private final Map<String, Object> parameters = new LinkedHashMap<>();

    Call(Control control, String method, String path, Function<String, T> read) {
        this.control = control;
        this.method = method;
        this.path = path;
        this.read = read;
    }

    final void set(String name, Object value) {
        parameters.put(name, value);
    }

    /**
     * Makes the call.
     *
     * @return the answer
     * @throws SimCluster.SimError for a request that is refused, or a wait whose deadline passed
     */
    public final T call() {
        return read.apply(control.text(method, path, parameters));
    }
}
