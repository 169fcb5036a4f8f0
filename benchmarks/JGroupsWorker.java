import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;

/**
 * One process of the benchmark of ordered multicast: a publisher or a subscriber of JGroups, with the stack that it
 * ships for one order (sequencer.xml). It takes the same orders and gives the same reports, line by line, as
 * live_worker.py: see there.
 */
public class JGroupsWorker extends ReceiverAdapter {
    private static final long END = Long.MIN_VALUE; // added to a number: nothing of the round comes after this
    private static final long WARM = -1;
    private static final PrintStream reports = System.out;

    private final boolean paced;
    private boolean warm;
    private long first, end, expected, finished, last, wrong, skipped, cpu;
    private long[] delays = new long[0];
    private int kept;

    JGroupsWorker(boolean paced) {
        this.paced = paced;
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // JGroups says who it is
        boolean publishes = arguments[0].equals("publisher");
        int size = Integer.parseInt(arguments[1]);
        JGroupsWorker worker = new JGroupsWorker(Boolean.parseBoolean(arguments[2]));
        JChannel channel = new JChannel("sequencer.xml");
        if (!publishes) channel.setReceiver(worker);
        channel.connect("bench");
        reports.println("{\"ready\": true}");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        if (publishes) publish(channel, orders, size);
        else worker.subscribe(orders);
        channel.close();
        System.exit(0);
    }

    private static void publish(JChannel channel, BufferedReader orders, int size) throws Exception {
        for (String order; (order = orders.readLine()) != null; ) {
            long from = order.contains("\"first\"") ? number(order, "first") : 0;
            if (order.contains("\"warm\"")) {
                channel.send(new Message(null, null, payload(size, WARM, 0)));
            } else if (order.contains("\"end\"")) {
                channel.send(new Message(null, null, payload(size, END + from, 0)));
            } else {
                round(channel, order, size, from);
            }
        }
    }

    private static void round(JChannel channel, String order, int size, long from) throws Exception {
        long count = number(order, "count"), rate = number(order, "rate"), sent = 0;
        long started = System.nanoTime(), spent = cpu(), until = started + number(order, "limit_s") * 1_000_000_000L;
        for (; sent < count; sent++) {
            if (rate > 0) sleepUntil(started + sent * 1_000_000_000L / rate);
            else if (sent % 1000 == 0 && System.nanoTime() > until) break;
            channel.send(new Message(null, null, payload(size, from + sent, System.nanoTime())));
        }
        long ended = System.nanoTime();
        reports.printf(
                "{\"count\": %d, \"started\": %d, \"ended\": %d, \"cpu\": %d, \"stats\": {}}%n",
                sent, started, ended, cpu() - spent);
    }

    private static void sleepUntil(long when) {
        for (long left; (left = when - System.nanoTime()) > 0; ) LockSupport.parkNanos(left);
    }

    private static byte[] payload(int size, long number, long at) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN).putLong(number).putLong(at).array();
    }

    private void subscribe(BufferedReader orders) throws Exception {
        synchronized (this) {
            while (!warm) wait();
        }
        reports.println("{\"heard\": true}");
        for (String order; (order = orders.readLine()) != null; ) {
            String report;
            synchronized (this) {
                begin(number(order, "first"), (int) number(order, "count"));
                while (expected < end) wait();
                report = report();
            }
            reports.println(report);
        }
    }

    private void begin(long from, int count) {
        first = from;
        end = from + count;
        expected = Math.max(expected, from);
        wrong = skipped = finished = 0;
        if (expected >= end) finished = last;
        cpu = cpu();
        if (paced) delays = Arrays.copyOf(delays, Math.max(kept, count + 1));
    }

    private String report() {
        String latency = "";
        if (paced && kept > 0) {
            long[] sorted = Arrays.copyOf(delays, kept);
            Arrays.sort(sorted);
            latency = String.format(
                    ", \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f",
                    sorted[kept / 2] / 1e3, sorted[(int) (kept * 0.99)] / 1e3, sorted[kept - 1] / 1e3);
        }
        kept = 0;
        return String.format(
                "{\"finished\": %d, \"wrong\": %d, \"skipped\": %d, \"cpu\": %d, \"stats\": {}%s}",
                finished, wrong, skipped, cpu() - cpu, latency);
    }

    @Override
    public synchronized void receive(Message message) {
        long now = System.nanoTime();
        ByteBuffer payload =
                ByteBuffer.wrap(message.getRawBuffer(), message.getOffset(), message.getLength())
                        .order(ByteOrder.LITTLE_ENDIAN);
        long number = payload.getLong();
        if (number == WARM) {
            warm = true;
            notifyAll();
        } else if (number < 0) {
            ended(number - END);
        } else if (number < expected) {
            wrong++;
        } else {
            skipped += number - expected;
            expected = number + 1;
            last = now;
            if (paced) keep(now - payload.getLong());
            if (expected >= end && finished == 0) {
                finished = now;
                notifyAll();
            }
        }
    }

    private void keep(long delay) {
        if (kept == delays.length) delays = Arrays.copyOf(delays, 2 * kept + 1024);
        delays[kept++] = delay;
    }

    private void ended(long at) {
        if (first < at && at <= end && finished == 0) {
            skipped += at - expected;
            end = expected = at;
            finished = last;
            notifyAll();
        }
    }

    private static long number(String order, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": ([0-9]+)").matcher(order);
        return found.find() ? Long.parseLong(found.group(1)) : 0;
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
