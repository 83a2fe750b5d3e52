import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Kafka's task assignor as a function. A case is a line with the number of standby replicas, one "subtopology tasks stateful" for
 * each subtopology, one "member process active standby" for each member (its tasks as "0:0,1;1:2", "-" for none) and an empty line.
 * The answer is a line "member active standby" for each member and an empty line.
 */
public class AssignTasks {
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
        TreeMap<String, Integer> counts = new TreeMap<>();
        Set<String> stateful = new TreeSet<>();
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        List<String> order = new ArrayList<>();
        for (String line : lines.subList(1, lines.size())) {
            String[] parts = line.split(" ");
            if (parts.length == 3) {
                counts.put(parts[0], Integer.parseInt(parts[1]));
                if (parts[2].equals("true")) {
                    stateful.add(parts[0]);
                }
            } else {
                order.add(parts[0]);
                members.put(parts[0], new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), parts[1], Map.of(),
                    tasks(parts[2]), tasks(parts[3]), Map.of(), Map.of(), Map.of()));
            }
        }
        TopologyDescriber describer = new TopologyDescriber() {
            public List<String> subtopologies() {
                return new ArrayList<>(counts.keySet());
            }

            public int maxNumInputPartitions(String subtopology) {
                return counts.get(subtopology);
            }

            public boolean isStateful(String subtopology) {
                return stateful.contains(subtopology);
            }
        };
        AssignmentConfigsImpl configs = new AssignmentConfigsImpl(Integer.parseInt(lines.get(0)), List.of());
        GroupAssignment found = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), describer);
        for (String member : order) {
            System.out.println(member + " " + written(found.members().get(member).activeTasks()) + " "
                + written(found.members().get(member).standbyTasks()));
        }
        System.out.println();
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new HashMap<>();
        if (!text.equals("-")) {
            for (String each : text.split(";")) {
                String[] pair = each.split(":");
                Set<Integer> numbers = new TreeSet<>();
                for (String number : pair[1].split(",")) {
                    numbers.add(Integer.parseInt(number));
                }
                found.put(pair[0], numbers);
            }
        }
        return found;
    }

    private static String written(Map<String, Set<Integer>> tasks) {
        List<String> shown = new ArrayList<>();
        new TreeMap<>(tasks).forEach((subtopology, numbers) -> {
            List<String> texts = new ArrayList<>();
            for (int number : new TreeSet<>(numbers)) {
                texts.add(Integer.toString(number));
            }
            shown.add(subtopology + ":" + String.join(",", texts));
        });
        return shown.isEmpty() ? "-" : String.join(";", shown);
    }
}
