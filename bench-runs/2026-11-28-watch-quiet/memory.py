# memory.py QUAVER DIRECTORY: the memory of a watch of four receivers before and after incidents that are asked for.
import subprocess, sys, os, time, signal, shutil
quaver, place = sys.argv[1], os.path.abspath(sys.argv[2])
shutil.rmtree(place, ignore_errors=True); os.makedirs(place)
net = f"watch-memory-{os.getpid()}"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
def run(*words): subprocess.run(words, check=True)
run("ip", "netns", "add", net)
children = []
def start(name, *words):
    out = open(f"{place}/{name}.log", "wb")
    child = subprocess.Popen(["ip", "netns", "exec", net, *map(str, words)], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    children.append(child); return child
def memory(when):
    lines = open(f"/proc/{watch.pid}/smaps_rollup").read().splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    maps, name = {}, ""
    for line in open(f"/proc/{watch.pid}/smaps"):
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"): name = words[5] if len(words) > 5 else "anonymous"
        elif words[0] == "Rss:": maps[name] = maps.get(name, 0) + int(words[1])
    bpf = sum(size for name, size in maps.items() if "bpf" in name)
    print(f"{when}: {kib['Rss'] / 1024:.1f} MiB: {kib['Pss_Anon'] / 1024:.1f} anonymous, {bpf / 1024:.1f} maps of BPF, {(kib['Rss'] - kib['Pss_Anon'] - bpf) / 1024:.1f} of files", flush=True)
try:
    run("ip", "-n", net, "link", "set", "lo", "up")
    for port in range(5004, 5008): start(f"recv-{port}", "chrt", "-f", "50", "./recv", port, 50)
    time.sleep(0.3)
    for port in range(5004, 5008): start(f"send-{port}", "chrt", "-f", "51", "./send", port, 1000)
    time.sleep(1)
    settings = f'directory = "{place}/data"\nsocket = "{place}/watch.sock"\n'
    settings += "".join(f'[[receiver]]\nname = "r{port}"\nport = {port}\nlate = "500ms"\n' for port in range(5004, 5008))
    open(f"{place}/watch.toml", "w").write(settings)
    watch = start("watch", quaver, "watch", "--config", f"{place}/watch.toml")
    log = f"{place}/watch.log"
    while open(log).read().count("watching ") < 4 and watch.poll() is None: time.sleep(0.2)
    time.sleep(15); memory("15 s after all four are watched")
    for turn in (1,):
        run(quaver, "watch", "trigger", "--socket", f"{place}/watch.sock")
        end = time.time() + 150
        while open(log).read().count(": incident ") < 4 * turn and time.time() < end: time.sleep(0.2)
        memory(f"right after {4 * turn} incidents"); time.sleep(10); memory("10 s later")
    watch.send_signal(signal.SIGTERM); print("watch ended", watch.wait(120))
finally:
    for child in reversed(children):
        child.terminate() if child.poll() is None else None
        child.wait()
    run("ip", "netns", "del", net)
