import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own assignors as a function. A case is a line "assignor same|other", one "topic count" for each topic, one
 * "member topic,topic topic:0,1;topic:2" for each member (what it reads, what it had; "-" for nothing) and an empty line.
 * The answer is a line "member topic:0,1;topic:2" for each member and an empty line; of "simple" also topics without partitions. Topics are numbers: the topic's id.
 */
public class Assign {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        List<String> lines = new ArrayList<>();
        while (in.hasNextLine()) {
            String line = in.nextLine();
            if (!line.isEmpty()) {
                lines.add(line);
            } else if (!lines.isEmpty()) {
                answer(lines);
                lines.clear();
            }
        }
    }

    private static void answer(List<String> lines) {
        String[] head = lines.get(0).split(" ");
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String line : lines.subList(1, lines.size())) {
            String[] parts = line.split(" ");
            if (parts.length == 2) {
                counts.put(topic(parts[0]), Integer.parseInt(parts[1]));
                continue;
            }
            Set<Uuid> reads = new LinkedHashSet<>();
            if (!parts[1].equals("-")) {
                for (String name : parts[1].split(",")) {
                    reads.add(topic(name));
                }
            }
            Map<Uuid, Set<Integer>> had = new HashMap<>();
            if (!parts[2].equals("-")) {
                for (String each : parts[2].split(";")) {
                    String[] pair = each.split(":", 2);
                    Set<Integer> numbers = new LinkedHashSet<>();
                    for (String number : pair[1].isEmpty() ? new String[0] : pair[1].split(",")) {
                        numbers.add(Integer.parseInt(number));
                        owners.computeIfAbsent(topic(pair[0]), k -> new HashMap<>()).put(Integer.parseInt(number), parts[0]);
                    }
                    had.put(topic(pair[0]), Collections.unmodifiableSet(numbers));
                }
            }
            members.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), reads, new Assignment(Collections.unmodifiableMap(had))));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return counts.getOrDefault(id, -1);
            }

            public Set<String> racksForPartition(Uuid id, int partition) {
                return Collections.emptySet();
            }
        };
        PartitionAssignor assignor = head[0].equals("range") ? new RangeAssignor()
            : head[0].equals("simple") ? new SimpleAssignor() : new UniformAssignor();
        SubscriptionType type = head[1].equals("same") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment found = assignor.assign(new GroupSpecImpl(members, type, owners), describer);
        for (String member : members.keySet()) {
            Map<Long, String> shown = new TreeMap<>();
            if (found.members().containsKey(member)) {
                found.members().get(member).partitions().forEach((id, numbers) -> {
                    List<String> texts = new ArrayList<>();
                    for (int number : new TreeSet<>(numbers)) {
                        texts.add(Integer.toString(number));
                    }
                    if (!texts.isEmpty() || head[0].equals("simple")) {
                        shown.put(id.getLeastSignificantBits(), id.getLeastSignificantBits() + ":" + String.join(",", texts));
                    }
                });
            }
            System.out.println(member + " " + (shown.isEmpty() ? "-" : String.join(";", shown.values())));
        }
        System.out.println();
    }

    private static Uuid topic(String number) {
        return new Uuid(0L, Long.parseLong(number));
    }
}
