# starts.py QUAVER DIRECTORY TIMES: starts a watch so often, each for four seconds, beside a receiver of 1 ms in a network namespace.
# Prints of each start the triggers that it counted, and how many packets the receiver itself read later than the limit meanwhile.
import subprocess, sys, os, time, signal, shutil, re
quaver, place, times = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
shutil.rmtree(place, ignore_errors=True); os.makedirs(place)
net = "watch-starts"
def run(*words): subprocess.run(words, check=True)
run("ip", "netns", "add", net)
children = []
def start(name, *words):
    out = open(f"{place}/{name}.log", "wb")
    child = subprocess.Popen(["ip", "netns", "exec", net, *map(str, words)], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    children.append(child); return child
def late(since):
    found = [re.match(r"([\d.]+) packet", line) for line in open(f"{place}/recv.log")]
    return sum(1 for one in found if one and float(one[1]) >= since)
try:
    run("ip", "-n", net, "link", "set", "lo", "up")
    start("recv", "chrt", "-f", "50", "./recv", 5004, 5); time.sleep(0.3)
    start("send", "chrt", "-f", "51", "./send", 5004, 1000); time.sleep(1)
    settings = f'directory = "{place}/data"\nsocket = "{place}/watch.sock"\n[limits]\nincidents_an_hour = 500\nfold_within = "1ms"\n'
    settings += '[[receiver]]\nname = "quiet"\nport = 5004\nlate = "5ms"\n'
    open(f"{place}/watch.toml", "w").write(settings)
    for number in range(times):
        since = time.time()
        watch = start(f"watch-{number}", quaver, "watch", "--config", f"{place}/watch.toml")
        log = f"{place}/watch-{number}.log"
        while "watching " not in open(log).read() and watch.poll() is None: time.sleep(0.1)
        time.sleep(4); own = late(since)
        watch.send_signal(signal.SIGTERM); watch.wait(120)
        text = open(log).read()
        kept = re.findall(r"incident \S+: (a packet .*?):|is lost: .*?: (a packet .*)|: (a packet .*); the records", text)
        print(f"start {number}: triggers {['; '.join(filter(None, one)) for one in kept]}, packets that the receiver read late: {own}", flush=True)
finally:
    for child in reversed(children):
        child.terminate() if child.poll() is None else None
        child.wait()
    run("ip", "netns", "del", net)
