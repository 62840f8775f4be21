// The Java client as a child of a benchmark: `java -cp KAFKA JavaMember.java MODE BOOTSTRAP TOPIC GROUP [name=value ...]`.
// MODE member: as benchmarks.handover.member. MODE first: milliseconds to the first record, ROUNDS times.

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

public class JavaMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("group.id", arguments[3]);
        settings.put("auto.offset.reset", arguments[0].equals("first") ? "earliest" : "latest");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        for (int i = 4; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        if (arguments[0].equals("first")) {
            first(settings, arguments[2]);
        } else {
            member(settings, arguments[2]);
        }
    }

    static double now() {
        // The clock of Python's time.monotonic.
        return System.nanoTime() / 1e9;
    }

    static void member(Properties settings, String topic) throws IOException {
        // A consumer that was opened and closed once has its classes loaded.
        new KafkaConsumer<byte[], byte[]>(settings).close();
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() != '\n') { }
        AtomicBoolean stop = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException gone) {
                // the parent is gone: stop, too
            }
            stop.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        List<String> deliveries = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (!stop.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                double at = now();
                if (!records.isEmpty() && deliveries.isEmpty()) {
                    System.out.println("ready");
                    System.out.flush();
                }
                records.partitions().forEach(
                    one -> deliveries.add("[" + at + "," + one.partition() + "]"));
            }
        }
        System.out.println("[" + String.join(",", deliveries) + "]");
    }

    static void first(Properties settings, String topic) {
        List<String> times = new ArrayList<>();
        int rounds = Integer.parseInt((String) settings.remove("rounds"));
        String group = settings.getProperty("group.id");
        for (int round = 0; round < rounds; round++) {
            settings.put("group.id", group + "-" + round);
            double began = now();
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
                consumer.subscribe(List.of(topic));
                while (consumer.poll(Duration.ofMillis(500)).isEmpty()) { }
                times.add(String.valueOf((now() - began) * 1000));
            }
        }
        System.out.println("[" + String.join(",", times) + "]");
    }
}
