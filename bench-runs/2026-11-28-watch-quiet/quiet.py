# quiet.py QUAVER DIRECTORY MINUTES: a watch with the shipped example's triggers of a receiver of 1 ms, in a network namespace.
import subprocess, sys, os, time, signal, shutil
quaver, place, minutes = sys.argv[1], os.path.abspath(sys.argv[2]), float(sys.argv[3])
shutil.rmtree(place, ignore_errors=True); os.makedirs(place)
net = "watch-quiet"
def run(*words): subprocess.run(words, check=True)
run("ip", "netns", "add", net)
children = []
def start(name, *words):
    out = open(f"{place}/{name}.log", "wb")
    child = subprocess.Popen(["ip", "netns", "exec", net, *map(str, words)], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    children.append(child); return child
try:
    run("ip", "-n", net, "link", "set", "lo", "up")
    start("recv", "chrt", "-f", "50", "./recv", 5004, 5); time.sleep(0.3)
    start("send", "chrt", "-f", "51", "./send", 5004, 1000); time.sleep(1)
    open(f"{place}/watch.toml", "w").write(f'''directory = "{place}/data"
socket = "{place}/watch.sock"
[limits]
incidents_an_hour = 500
fold_within = "1ms"
[[receiver]]
name = "quiet"
port = 5004
late = "5ms"
gap = "100ms"
losses = 10
''')
    watch = start("watch", quaver, "watch", "--config", f"{place}/watch.toml")
    end = time.time() + minutes * 60
    def stat():
        return [int(word) for word in open("/proc/stat").readline().split()[1:]]
    before = stat()
    with open(f"{place}/load.log", "w") as load:
        while time.time() < end and watch.poll() is None:
            time.sleep(1)
            now = stat(); d = [b - a for a, b in zip(before, now)]; before = now
            idle, steal = d[3] + d[4], d[7]
            running = open("/proc/loadavg").read().split()
            rss = [line.split()[1] for line in open(f"/proc/{watch.pid}/smaps_rollup") if line.startswith(("Rss:", "Anonymous:"))] if watch.poll() is None else ["0", "0"]
            print(f"{time.time():.3f} load {running[0]} running {running[3]} idle {idle} steal {steal} of {sum(d)} ticks rss {rss[0]} anonymous {rss[1]} KiB", file=load, flush=True)
    watch.send_signal(signal.SIGTERM); print("watch ended", watch.wait(120))
finally:
    for child in reversed(children):
        child.terminate() if child.poll() is None else None
        child.wait()
    run("ip", "netns", "del", net)
