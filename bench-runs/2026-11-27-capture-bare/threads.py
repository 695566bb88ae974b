"""CPU time of captures by thread, and how often each waited, program by program in turn (as root).

usage: ROUNDS=N threads.py SOURCE PERIOD SECONDS NAME=COMMAND...   ({out} in COMMAND is the file)"""
import glob, json, os, shlex, signal, subprocess, sys, tempfile, time
FROM, TO = "qc-from", "qc-to"
def sh(*w): subprocess.run(w, check=True)
def threads(pid):
    r = {}
    for p in glob.glob(f"/proc/{pid}/task/*"):
        try:
            n = open(p+"/comm").read().strip(); t = os.path.basename(p)
            s = int(open(p+"/schedstat").read().split()[0])
            st = open(p+"/stat").read().rsplit(")",1)[1].split()
            v = [l for l in open(p+"/status") if "ctxt" in l]
            r[n+"/"+t] = (s, int(st[11]), int(st[12]), int(v[0].split()[1]), int(v[1].split()[1]))
        except FileNotFoundError: pass
    return r
src, period, secs = sys.argv[1], sys.argv[2], sys.argv[3]
sh("ip","netns","add",FROM); sh("ip","netns","add",TO)
try:
    sh("ip","-n",FROM,"link","add","veth0","type","veth","peer","name","veth0","netns",TO)
    sh("ip","-n",FROM,"address","add","198.51.100.1/24","dev","veth0"); sh("ip","-n",TO,"address","add","198.51.100.2/24","dev","veth0")
    for n in (FROM,TO):
        sh("ip","-n",n,"link","set","lo","up"); sh("ip","-n",n,"link","set","veth0","up")
    hold = subprocess.Popen(["ip","netns","exec",TO,"python3","-c","import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 2680)); time.sleep(86400)"])
    for rnd in range(int(os.environ.get("ROUNDS","1"))):
      for arm in sys.argv[4:]:
        name, cmd = arm.split("=",1)
        with tempfile.TemporaryDirectory(dir=os.environ.get("PLACE")) as d:
            out = d+"/c"
            p = subprocess.Popen(["ip","netns","exec",TO,"taskset","-c","1",*shlex.split(cmd.format(out=out))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1.5); a = threads(p.pid)
            sent = json.loads(subprocess.run(["ip","netns","exec",FROM,*f"{src} source 198.51.100.2:2680 --period {period} --size 32 --for {secs}s --pace spin --catch-up --cpu 0 --json".split()],capture_output=True,check=True).stdout)["sent"]
            time.sleep(1.5); b = threads(p.pid)
            p.send_signal(signal.SIGINT); p.wait()
            tot = sum(b[k][0]-a.get(k,(0,)*5)[0] for k in b)
            print(f"{name}: {tot/sent:.0f} ns/packet  file {(os.path.getsize(out) if os.path.exists(out) else 0)/sent:.1f} B sent {sent}")
            for k in sorted(b):
                d_ = [x - y for x, y in zip(b[k], a.get(k, (0,) * 5))]
                print(f"   {k:28} {d_[0]/sent:6.1f} ns  user {d_[1]*10}ms sys {d_[2]*10}ms  vol {d_[3]} invol {d_[4]}")
finally:
    hold.kill(); hold.wait()
    for n in (FROM,TO): subprocess.run(["ip","netns","del",n])
