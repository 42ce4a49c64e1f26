/** A pool of threads that wait for work, beside a thread that computes until the process is killed. */
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

public final class Pool {
    private static volatile long sink;

    public static void main(String[] args) {
        var pool = new ThreadPoolExecutor(8, 8, 1, TimeUnit.HOURS, new LinkedBlockingQueue<>());
        pool.prestartAllCoreThreads();
        System.out.println("ready");
        for (long sum = 0;; sum++) {
            sink = sum;
        }
    }
}
