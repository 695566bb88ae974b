import threading, queue, os, time, concurrent.futures, sys
lock = threading.Lock(); q = queue.Queue(3); own = 0; calls = 0
def work():
    global own, calls
    for _ in range(20):
        f = time.monotonic(); lock.acquire(); own += time.monotonic() - f; calls += 1; time.sleep(.002); lock.release()
    for i in range(50): q.put(i)
def burn(n):
    s = 0
    for i in range(300000): s += i & 3
    return s
t = [threading.Thread(target=work) for _ in range(4)]
for x in t: x.start()
s = sum(q.get() for _ in range(200))
for x in t: x.join()
with concurrent.futures.ThreadPoolExecutor(4) as e: b = sum(e.map(burn, range(8)))
print(s, b)
if "OWN" in os.environ: open(os.environ["OWN"], "w").write(f"lock {calls} {own*1e3:.1f} ms\n")
sys.exit(8)
