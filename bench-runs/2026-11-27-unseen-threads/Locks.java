import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;
import java.nio.file.*;
/** Fair and unfair locks, a condition, a stamped lock, a semaphore, a latch, a phaser, an exchanger, park, a pool. */
public class Locks {
    static final class Own { final String name; final AtomicLong n = new AtomicLong(), ns = new AtomicLong(); Own(String name) { this.name = name; }
        void timed(Callable<?> deed) throws Exception { long from = System.nanoTime(); deed.call(); ns.addAndGet(System.nanoTime() - from); n.incrementAndGet(); } }
    static final Own fair = new Own("java:fair"), unfair = new Own("java:unfair"), stamped = new Own("java:stamped"), places = new Own("java:semaphore"), phase = new Own("java:phaser"), monitor = new Own("java:monitor"), taken = new Own("java:queue");
    static final ReentrantLock a = new ReentrantLock(true), b = new ReentrantLock(); static final StampedLock s = new StampedLock(); static final Semaphore two = new Semaphore(2); static int sum; static final Object mon = new Object();
    static void nap(long us) throws Exception { long until = System.nanoTime() + us * 1000; long left; while ((left = until - System.nanoTime()) > 0) LockSupport.parkNanos(left); }
    static void sleep() throws Exception { Thread.sleep(1); }
    static Object work() throws Exception { for (int i = 0; i < 20; i++) {
        fair.timed(() -> { a.lock(); return 0; }); sum++; sleep(); a.unlock();
        unfair.timed(() -> { b.lock(); return 0; }); sleep(); b.unlock();
        long[] stamp = new long[1]; stamped.timed(() -> stamp[0] = s.writeLock()); sleep(); s.unlockWrite(stamp[0]);
        places.timed(() -> { two.acquire(); return 0; }); sleep(); two.release();
        long from = System.nanoTime(); synchronized (mon) { monitor.ns.addAndGet(System.nanoTime() - from); monitor.n.incrementAndGet(); sleep(); } } return 0; }
    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3); CountDownLatch end = new CountDownLatch(3); Phaser phaser = new Phaser(3);
        for (int k = 0; k < 3; k++) pool.submit(() -> { try { work(); phase.timed(() -> phaser.arriveAndAwaitAdvance()); } finally { end.countDown(); } return 0; });
        end.await(); pool.shutdown(); SynchronousQueue<Integer> box = new SynchronousQueue<>();
        Thread maker = new Thread(() -> { try { for (int i = 0; i < 30; i++) { Thread.sleep(1); box.put(i); } } catch (InterruptedException e) { } }, "maker"); maker.start();
        for (int i = 0; i < 30; i++) taken.timed(() -> sum += box.take()); maker.join();
        System.out.println(sum);
        if (System.getenv("OWN") != null) for (Own o : new Own[] { fair, unfair, stamped, places, phase, monitor, taken }) Files.writeString(Path.of(System.getenv("OWN")), o.name + " " + o.n + " " + o.ns + "\n", StandardOpenOption.APPEND, StandardOpenOption.CREATE);
    }
}
