import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;

/** RE2J as a function: lines "N name", then "P pattern"; for each pattern a line, "no" or a digit for each name. */
public class Matches {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        List<String> names = new ArrayList<>();
        while (in.hasNextLine()) {
            String line = in.nextLine();
            String said = line.substring(2);
            if (line.startsWith("N ")) {
                names.add(said);
                continue;
            }
            StringBuilder answer = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(said);
                for (String name : names) {
                    answer.append(pattern.matches(name) ? '1' : '0');
                }
            } catch (PatternSyntaxException refused) {
                answer.append("no");
            }
            System.out.println(answer);
        }
    }
}
