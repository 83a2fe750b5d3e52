package brokersim;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** HTTP to a control plane: a call is a method, a path and parameters, its answer a JSON object. */
final class Control {
    private static final Duration WAIT = Duration.ofMinutes(11);  // longer than the server lets anything wait
    private final HttpClient http = HttpClient.newHttpClient();
    private final String url;

    private final String token;

    /** {@code token}: the bearer token of a server beyond the loopback, or null. */
    Control(String url, String token) {
        this.url = url;
        this.token = token;
    }

    /** Parameters stand in the query of GET and DELETE, and in the body of POST and PUT. */
    @SuppressWarnings("unchecked")
    Map<String, Object> call(String method, String path, Map<String, ?> parameters) {
        return (Map<String, Object>) Json.parse(text(method, path, parameters));
    }

    /** The answer as it came. */
    String text(String method, String path, Map<String, ?> parameters) {
        boolean query = method.equals("GET") || method.equals("DELETE");
        String asked = url + "/v1" + path + (query && !parameters.isEmpty() ? "?" + form(parameters) : "");
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(asked)).timeout(WAIT);
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        if (query) {
            request.method(method, HttpRequest.BodyPublishers.noBody());
        } else {
            request.header("Content-Type", "application/json").method(method, HttpRequest.BodyPublishers.ofString(Json.write(parameters)));
        }
        HttpResponse<String> response;
        try {
            response = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException gone) {
            throw new IllegalStateException(method + " " + asked + ": " + gone, gone);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(method + " " + asked + " was interrupted", interrupted);
        }
        if (response.statusCode() >= 400) {
            throw new SimCluster.SimError(response.statusCode(), (Map<?, ?>) Json.parse(response.body()));
        }
        return response.body();
    }

    private static String form(Map<String, ?> parameters) {
        return parameters.entrySet().stream().map(one -> one.getKey() + "=" + encoded(plain(one.getValue()))).collect(Collectors.joining("&"));
    }

    /** A value as the query of a URL has it: lists are {@code a,b}, maps {@code a=1,b=2}. */
    private static String plain(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(one -> one.getKey() + "=" + one.getValue()).collect(Collectors.joining(","));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
        return value instanceof Duration duration ? SimCluster.text(duration) : value.toString();
    }

    /** A part of a path, or a value of a query: a group id may hold anything. */
    static String encoded(Object value) {
        return URLEncoder.encode(value.toString(), StandardCharsets.UTF_8).replace("+", "%20");
    }
}
