// The Java client reads a topic: `java -cp KAFKA JavaReader.java BOOTSTRAP TOPIC GROUP COUNT`.
// Prints as JSON what benchmarks.throughput.read_topic returns.

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

public class JavaReader {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        long wanted = Long.parseLong(arguments[3]);
        long read = 0, size = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[1]));
            long first = 0;
            while (first == 0) {
                first = consumer.poll(Duration.ofSeconds(1)).count();
            }
            read = first;
            long cpu = cpu(), start = System.nanoTime();
            while (read < wanted) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofSeconds(1))) {
                    size += one.value().length;
                    read++;
                }
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            double used = (cpu() - cpu) / 1e9;
            System.out.printf("[%f, %f, %d, %f]%n", seconds, used, read - first, peak());
        }
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    /** The greatest resident size, in MB. */
    static double peak() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024 / 1e6;
            }
        }
        return 0;
    }
}
