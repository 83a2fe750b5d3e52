import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Kafka's own generated classes and writes them again.
 *
 * stdin, repeated: UTF message name, int16 version, int32 size, bytes. stdout, for each: byte status, int32 position, int32
 * size, bytes. Status 0: read up to position, then what Kafka writes; 1: Kafka refuses to read them, then why;
 * 2: there is no such message or version; 3: it reads but cannot write them. Unknown tagged fields are left out.
 */
public class Reserialize {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.", "kafka.internals.generated."
    };
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    public static void main(String[] args) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            String name;
            try {
                name = in.readUTF();
            } catch (EOFException end) {
                break;
            }
            short version = in.readShort();
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            answer(out, name, version, bytes);
        }
        out.flush();
    }

    private static void answer(DataOutputStream out, String name, short version, byte[] bytes) throws Exception {
        Class<?> kind = CLASSES.computeIfAbsent(name, Reserialize::find);
        Message message = kind == Void.class ? null : (Message) kind.getConstructor().newInstance();
        if (message == null || version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
            write(out, 2, 0, new byte[0]);
            return;
        }
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        try {
            message.read(new ByteBufferAccessor(buffer), version);
        } catch (RuntimeException refused) {
            write(out, 1, buffer.position(), String.valueOf(refused).getBytes(StandardCharsets.UTF_8));
            return;
        }
        try {
            forgetUnknown(message);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer again = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(again), cache, version);
            write(out, 0, buffer.position(), again.array());
        } catch (RuntimeException refused) {
            write(out, 3, buffer.position(), String.valueOf(refused).getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void write(DataOutputStream out, int status, int position, byte[] bytes) throws Exception {
        out.writeByte(status);
        out.writeInt(position);
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static Class<?> find(String name) {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return Class.forName(prefix + name + suffix);
                } catch (ClassNotFoundException another) {
                    continue;
                }
            }
        }
        return Void.class;
    }

    private static void forgetUnknown(Message message) throws RuntimeException {
        message.unknownTaggedFields().clear();
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || field.getType().isPrimitive()) {
                continue;
            }
            Object value;
            try {
                field.setAccessible(true);
                value = field.get(message);
            } catch (ReflectiveOperationException impossible) {
                throw new IllegalStateException(impossible);
            }
            if (value instanceof Message) {
                forgetUnknown((Message) value);
            } else if (value instanceof Collection) {
                for (Object element : (Collection<?>) value) {
                    if (element instanceof Message) {
                        forgetUnknown((Message) element);
                    }
                }
            }
        }
    }
}
