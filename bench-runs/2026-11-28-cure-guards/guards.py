#!/usr/bin/env python3
"""Plants remedies that help one receiver at the expense of another program, and shows what quaver cure does of each."""
import json, os, pathlib, random, shutil, signal, subprocess, sys, time

Q = os.environ.get("Q", "target/debug/quaver")
D = pathlib.Path(os.environ.get("PLACE", "guards"))
D.mkdir(exist_ok=True)
RECEIVER = r"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[3], int(sys.argv[1])))
s.setblocking(sys.argv[2] == "sleeps")
print("bound", flush=True)
while True:
    try:
        s.recv(2048)
    except BlockingIOError:
        pass
"""
# Counts what it gets done, into a file mapped by us.
WORKER = r"""
import mmap, struct, sys
f = open(sys.argv[1], "r+b"); m = mmap.mmap(f.fileno(), 16)
n = 0
while True:
    for _ in range(2000): pass
    n += 1
    m[0:8] = struct.pack("q", n)
"""
# A receiver of TCP or UDP that works on each packet for so many loops, and counts late ones.
SECOND = r"""
import mmap, struct, sys, socket, time
f = open(sys.argv[1], "r+b"); m = mmap.mmap(f.fileno(), 16)
kind, port, loops = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
late = 0
if kind == "tcp":
    l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", port)); l.listen(1)
    print("bound", flush=True)
    s, _ = l.accept()
else:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[5] if len(sys.argv) > 5 else "127.0.0.1", port))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
    print("bound", flush=True)
n = 0
while True:
    b = s.recv(8, socket.MSG_WAITALL) if kind == "tcp" else s.recv(2048)
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    sent = struct.unpack("q", b[:8])[0]
    late += now - sent > 2_000_000
    for _ in range(loops): pass
    n += 1
    m[0:16] = struct.pack("qq", n, late)
"""
SENDER = r"""
import socket, struct, sys, time
kind, port, period = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
s.connect((sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1", port))
due = time.clock_gettime(time.CLOCK_MONOTONIC)
while True:
    due += period
    wait = due - time.clock_gettime(time.CLOCK_MONOTONIC)
    if wait > 0: time.sleep(wait)
    try: s.send(struct.pack("q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
    except ConnectionRefusedError: pass
"""
children = []
def start(cmd, cpu=1, **more):
    c = subprocess.Popen(cmd, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}), **more)
    children.append(c); return c
def counter(name):
    p = D / name; p.write_bytes(bytes(16)); return p
def read(p):
    import struct
    return struct.unpack("qq", p.read_bytes())
def rates(p, s=3):
    a = read(p); time.sleep(s); b = read(p)
    return round((b[0]-a[0])/s, 1), round((b[1]-a[1])/max(b[0]-a[0], 1), 4)
def main(case, time_given):
    port = random.randrange(20000, 50000, 2)
    kind = "sleeps" if case.startswith("lat") or case == "cpu" else "spins"
    count = counter(case)
    r = start([sys.executable, "-c", RECEIVER, str(port), kind, "127.0.0.1"], stdout=subprocess.PIPE, text=True)
    r.stdout.readline()
    start(["chrt", "-f", "40", Q, "source", f"127.0.0.1:{port}", "--period", "500us", "--pace", "sleep", "--for", "1h", "--quiet"], cpu=0, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    more = ["--only", "receiver-class"]
    second = None
    if case == "batch":
        second = start([sys.executable, "-c", WORKER, str(count)])
    elif case in ("tcp", "udp"):
        second = start([sys.executable, "-c", SECOND, str(count), case, str(port+1), "300"], stdout=subprocess.PIPE, text=True)
        second.stdout.readline()
        start(["chrt", "-f", "40", sys.executable, "-c", SENDER, case, str(port+1), "0.002"], cpu=0)
        if case == "tcp": start([sys.executable, "-c", "while True: pass"])
    elif case == "netns":
        # a second receiver in a network of its own
        second = start(["unshare", "-n", "sh", "-c", f"ip link set lo up; chrt -f 40 taskset -c 0 {sys.executable} -c \"$SENDER\" udp {port+1} 0.002 & exec {sys.executable} -c \"$SECOND\" {count} udp {port+1} 300"], env={**os.environ, "SENDER": SENDER, "SECOND": SECOND}, stdout=subprocess.PIPE, text=True, start_new_session=True)
        second.stdout.readline()
    elif case == "drops":
        # a second receiver of UDP that needs most of what the first leaves
        second = start([sys.executable, "-c", SECOND, str(count), "udp", str(port+1), "6000"], stdout=subprocess.PIPE, text=True)
        second.stdout.readline()
        start(["chrt", "-f", "40", sys.executable, "-c", SENDER, "udp", str(port+1), "0.001"], cpu=0)
    elif case == "moved":
        # hogs of weight on the receiver's CPU that would be moved to the CPU of a worker
        kind = "sleeps"
        for _ in range(2): start(["nice", "-n", "-5", sys.executable, "-c", "while True: pass"])
        second = start([sys.executable, "-c", WORKER, str(count)], cpu=0)
        more = ["--only", "others-elsewhere", "--allow", "host"]
    time.sleep(1)
    without = rates(count)
    if case != "moved":
        subprocess.run(["chrt", "-f", "-p", "1", str(r.pid)], check=True)
        with_ = rates(count)
        subprocess.run(["chrt", "-o", "-p", "0", str(r.pid)], check=True)
    else: with_ = None
    journal = D / "journal"; shutil.rmtree(journal, ignore_errors=True)
    env = {**os.environ, "QUAVER_TUNE_JOURNAL": str(journal)}
    began = time.monotonic()
    done = subprocess.run([Q, "cure", "--pid", str(r.pid), "--yes", "--quiet", "--json", "--seed", "1", "--for", time_given, "--output", str(D/"runs"), *more], env=env, capture_output=True, text=True)
    took = time.monotonic() - began
    status = subprocess.run([Q, "tune", "status"], env=env, capture_output=True, text=True).stdout
    after = rates(count)
    subprocess.run([Q, "tune", "revert"], env=env, capture_output=True)
    print("case", case, "bystander (rate, late share): without", without, "with by hand", with_, "after cure", after, "took", round(took, 1), "rc", done.returncode, done.stderr[-500:])
    if done.returncode == 0:
        s = json.loads(done.stdout)
        print("  kept", s["kept"], "| outcome:", s["outcome"])
        for one in s["remedies"]:
            e = one["effect"] or {}
            print("  ", one["id"], one["verdict"], one["settled"], one["withdrawn"], {k: e.get(k) for k in ("rounds", "without", "with", "e")})
        print("   proof", (s.get("proof") or {}).get("verdict"), "not tried", [(n["id"], n["why"]) for n in s["not_tried"]])
        for name in ("trial_blocks", "proof_blocks"):
            for arm in (0, 1):
                figs = [b["figures"] for b in s[name] if b["arm"] == arm and b["figures"]]
                if figs:
                    keys = [k for k in figs[0] if isinstance(figs[0][k], (int, float))]
                    print("    ", name, arm, {k: round(sum((f.get(k) or 0) for f in figs)/len(figs), 4) for k in keys})
        subprocess.run([Q, "analyze", "--help"], capture_output=True)
        (D / f"{case}.json").write_text(done.stdout)
def end(*_): sys.exit(143)
signal.signal(signal.SIGTERM, end)
try:
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60s")
finally:
    for c in reversed(children):
        if sys.argv[1] == "netns" and c.args[0] == "unshare":
            try: os.killpg(c.pid, signal.SIGKILL)
            except ProcessLookupError: pass
        c.kill(); c.wait()
