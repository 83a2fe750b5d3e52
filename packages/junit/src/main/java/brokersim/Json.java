package brokersim;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * As much JSON as the control plane speaks: objects are {@code Map<String, Object>}, arrays {@code List<Object>}, whole numbers
 * {@code Long}, others {@code Double}. A {@code Duration} is written in milliseconds.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value of a JSON text; IllegalArgumentException where it is none. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        if (json.peek() != 0) {
            throw json.wrong("the end");
        }
        return value;
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return "{" + String.join(",", map.entrySet().stream().map(e -> quote(e.getKey()) + ":" + write(e.getValue())).toList()) + "}";
        }
        if (value instanceof List<?> list) {
            return "[" + String.join(",", list.stream().map(Json::write).toList()) + "]";
        }
        if (value instanceof Duration duration) {
            return quote(SimCluster.text(duration));
        }
        return value == null || value instanceof Number || value instanceof Boolean ? String.valueOf(value) : quote(value);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    /** A list with each entry read; null for null. */
    static <T> List<T> list(Object value, Function<Object, T> read) {
        return value == null ? null : ((List<?>) value).stream().map(entry -> read.apply(entry)).toList();
    }

    /** A map with each value read; null for null. */
    static <T> Map<String, T> map(Object value, Function<Object, T> read) {
        if (value == null) {
            return null;
        }
        Map<String, T> found = new LinkedHashMap<>();
        object(value).forEach((name, entry) -> found.put(name, read.apply(entry)));
        return found;
    }

    private static String quote(Object value) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private Object value() {
        switch (peek()) {
            case '{':
                Map<String, Object> map = new LinkedHashMap<>();
                list('{', '}', () -> {
                    peek();
                    String name = string();
                    expect(':');
                    map.put(name, value());
                });
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                list('[', ']', () -> list.add(value()));
                return list;
            case '"':
                return string();
            default:
                return word();
        }
    }

    private void list(char open, char close, Runnable entry) {
        expect(open);
        while (peek() != close) {
            entry.run();
            if (peek() != close) {
                expect(',');
            }
        }
        at++;
    }

    private Object word() {
        int from = at;
        while (at < text.length() && "+-.".indexOf(text.charAt(at)) + 1 + (Character.isLetterOrDigit(text.charAt(at)) ? 1 : 0) > 0) {
            at++;
        }
        String word = text.substring(from, at);
        switch (word) {
            case "null":
                return null;
            case "true", "false":
                return word.equals("true");
            default:
                try {
                    return word.matches("-?\\d+") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
                } catch (NumberFormatException notOne) {
                    throw wrong("a value");
                }
        }
    }

    private String string() {
        expect('"');
        StringBuilder out = new StringBuilder();
        for (char c = next(); c != '"'; c = next()) {
            out.append(c == '\\' ? escaped(next()) : c);
        }
        return out.toString();
    }

    private char escaped(char c) {
        switch (c) {
            case 'n': return '\n';
            case 't': return '\t';
            case 'r': return '\r';
            case 'b': return '\b';
            case 'f': return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default: return c;
        }
    }

    private char next() {
        if (at >= text.length()) {
            throw wrong("the end of a string");
        }
        return text.charAt(at++);
    }

    private char peek() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private void expect(char c) {
        if (peek() != c) {
            throw wrong("'" + c + "'");
        }
        at++;
    }

    private IllegalArgumentException wrong(String wanted) {
        return new IllegalArgumentException("no JSON: " + wanted + " expected at character " + at + " of " + text);
    }
}
