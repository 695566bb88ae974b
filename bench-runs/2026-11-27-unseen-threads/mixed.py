"""threading (Condition, Event, Barrier, Semaphore, Timer), multiprocessing (Lock, Queue, Pool, Condition), an executor of asyncio."""
import asyncio, concurrent.futures, multiprocessing as mp, os, queue, threading, time
OWN = {}
def timed(name, deed):
    start = time.monotonic_ns(); result = deed(); took = time.monotonic_ns() - start
    n, ns = OWN.get(name, (0, 0)); OWN[name] = (n + 1, ns + took); return result
def write():
    if path := os.environ.get("OWN"):
        with open(path, "a") as f:
            for name, (n, ns) in OWN.items(): f.write(f"{name} {n} {ns}\n")
    OWN.clear()
lock, places = threading.Lock(), threading.Semaphore(2)
meeting, told, box = threading.Barrier(3), threading.Event(), queue.Queue(2)
def work(k):
    for _ in range(20):
        timed(f"py:lock{k}", lock.acquire); time.sleep(0.001); lock.release()
        timed(f"py:places{k}", places.acquire); time.sleep(0.001); places.release()
    timed(f"py:barrier{k}", meeting.wait); timed(f"py:event{k}", told.wait)
def child(shared, box, k):
    for i in range(15):
        timed(f"sem:mp-lock", shared.acquire); time.sleep(0.002); shared.release(); time.sleep(0.0005)
    box.put(k); write()
async def loop():
    running = asyncio.get_running_loop()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return sum(await asyncio.gather(*(running.run_in_executor(pool, lambda i=i: (time.sleep(0.002), i)[1]) for i in range(20))))
if __name__ == "__main__":
    crowd = [threading.Thread(target=work, args=(k,), name=f"work{k}") for k in range(3)]
    for one in crowd: one.start()
    time.sleep(0.2); told.set()
    for one in crowd: one.join()
    write()
    context = mp.get_context("fork"); shared, results = context.Lock(), context.Queue()
    children = [context.Process(target=child, args=(shared, results, k)) for k in range(2)]
    for one in children: one.start()
    got = sorted(results.get() for _ in children)
    for one in children: one.join()
    with mp.get_context("spawn").Pool(2) as pool: squares = sum(pool.map(abs, range(50)))
    print(got, squares, asyncio.run(loop()))
