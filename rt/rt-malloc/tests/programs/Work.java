/* Many threads, much garbage, memory outside of the heap, and a child process. The output is always the same. */
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Work {
    static long work(int seed) {
        long sum = 0;
        Map<String, byte[]> kept = new HashMap<>();
        for (int at = 0; at < 3000; at++) {
            kept.put("key" + at % 500, new byte[1000 + at * 37 % 5000]);
            CRC32 crc = new CRC32();
            crc.update(("value" + at + seed).getBytes());
            sum += crc.getValue();
            if (at % 300 == 0) {
                Deflater deflater = new Deflater();
                deflater.setInput(new byte[20000]);
                deflater.finish();
                sum += deflater.deflate(new byte[1000]);
                deflater.end();
                ByteBuffer.allocateDirect(70000).putInt(at);
            }
        }
        return sum + kept.size();
    }

    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(16);
        long sum = 0;
        try {
            List<Future<Long>> wanted = new ArrayList<>();
            for (int at = 0; at < 64; at++) {
                int seed = at;
                wanted.add(pool.submit(() -> work(seed)));
            }
            for (Future<Long> one : wanted) sum += one.get();
        } finally {
            // Otherwise a failure would keep the threads, and so the process, waiting.
            pool.shutdown();
        }
        System.gc();
        System.out.println(sum);
        List<Thread> threads = new ArrayList<>();
        for (int at = 0; at < 300; at++) {
            Thread thread = new Thread(() -> { byte[] some = new byte[10000]; });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
        Process child = new ProcessBuilder("echo", "started").start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
    }
}
