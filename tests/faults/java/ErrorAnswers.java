import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * What Kafka's own request classes answer when a whole request fails.
 *
 * stdin, repeated: int16 api key, int16 version, int16 error code, int32 size, the request's bytes. stdout, for each: byte status,
 * int32 size, bytes. Status 0: the response; 1: there is no such version; 2: no response at all; 3: it fails, then why.
 */
public class ErrorAnswers {
    private static Method parse;
    private static boolean wrapped;

    public static void main(String[] args) throws Exception {
        for (Method method : AbstractRequest.class.getMethods()) {
            if (method.getName().equals("parseRequest")) {
                parse = method;
                wrapped = method.getParameterTypes()[2] != ByteBuffer.class;
            }
        }
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            short key;
            try {
                key = in.readShort();
            } catch (EOFException end) {
                break;
            }
            short version = in.readShort();
            short error = in.readShort();
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            answer(out, ApiKeys.forId(key), version, Errors.forCode(error), bytes);
        }
        out.flush();
    }

    private static void answer(DataOutputStream out, ApiKeys key, short version, Errors error, byte[] bytes) throws Exception {
        if (version < key.oldestVersion() || version > key.latestVersion()) {
            write(out, 1, new byte[0]);
            return;
        }
        try {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            Object parsed = parse.invoke(null, key, version, wrapped ? new ByteBufferAccessor(buffer) : buffer);
            AbstractRequest request;
            if (parsed instanceof AbstractRequest) {
                request = (AbstractRequest) parsed;
            } else {
                request = (AbstractRequest) parsed.getClass().getField("request").get(parsed);
            }
            AbstractResponse response = request.getErrorResponse(0, error.exception());
            if (response == null) {
                write(out, 2, new byte[0]);
                return;
            }
            Message data = response.data();
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer again = ByteBuffer.allocate(data.size(cache, version));
            data.write(new ByteBufferAccessor(again), cache, version);
            write(out, 0, again.array());
        } catch (Exception refused) {
            Throwable cause = refused.getCause() == null ? refused : refused.getCause();
            write(out, 3, String.valueOf(cause).getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void write(DataOutputStream out, int status, byte[] bytes) throws Exception {
        out.writeByte(status);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
