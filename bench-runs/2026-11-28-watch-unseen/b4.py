from rig import *
import fcntl
r=sp("./deed",5140,200,stderr=open("b4deed.log","w")); s=sp("./send",5140,2000)
T='[[receiver]]\nname="d"\ncomm="deed"\nlate="10ms"\nlosses=5\n'
w=Watch("b4",T,'fold_within="24h"')
time.sleep(1.2); print("status at 1.2 s:",w.get("/status"))
w.wait("watching RTP"); time.sleep(3); print(w.text())
w.deed("200 threads: page faults 130 ms, then own sleep 40 ms 1.5 s later",lambda:(sigq(r.pid,1),time.sleep(1.5),sigq(r.pid,13)),t=14,quiet=6)
time.sleep(3)
f=open("lockfile","w"); fcntl.flock(f,fcntl.LOCK_EX); threading.Timer(0.3,lambda: fcntl.flock(f,fcntl.LOCK_UN)).start()
w.deed("flock held by another process",lambda: sigq(r.pid,5),t=10,quiet=4)
w.deed("gdb attach 0.3 s",lambda: subprocess.run(["gdb","-p",str(r.pid),"-batch","-ex","shell sleep 0.3"],capture_output=True),t=12,quiet=5)
def quota():
    g="/sys/fs/cgroup/cpu/qa"; os.path.isdir(g) or os.mkdir(g)
    open(g+"/cpu.cfs_period_us","w").write("100000"); open(g+"/cpu.cfs_quota_us","w").write("30000"); open(g+"/cgroup.procs","w").write(str(r.pid)); sigq(r.pid,8); time.sleep(2); open("/sys/fs/cgroup/cpu/cgroup.procs","w").write(str(r.pid)); os.rmdir(g)
w.deed("cgroup quota 30 % and own work 40 ms",quota,t=10,quiet=4)
def freeze():
    g="/sys/fs/cgroup/freezer/qa"; os.path.isdir(g) or os.mkdir(g)
    open(g+"/cgroup.procs","w").write(str(r.pid)); open(g+"/freezer.state","w").write("FROZEN"); time.sleep(.3); open(g+"/freezer.state","w").write("THAWED"); time.sleep(1); open("/sys/fs/cgroup/freezer/cgroup.procs","w").write(str(r.pid)); os.rmdir(g)
w.deed("freezer 300 ms",freeze,t=10,quiet=4)
def storm():
    os.sched_setaffinity(r.pid,{0}); subprocess.run(["taskset","-c","0","bash","-c","for i in $(seq 400); do (:) & done; wait"]); os.sched_setaffinity(r.pid,{0,1})
w.deed("fork storm on its CPU",storm,t=10,quiet=4)
w.deed("changes its port",lambda:(sigq(r.pid,3),time.sleep(.2),s.kill()),t=3)
s=sp("./send",5141,2000); w.wait("watching RTP",2,20); print("after port change:",w.get("/status"))
time.sleep(3)
w.deed("own loop on the new port",lambda: sigq(r.pid,8),t=8,quiet=2)
for i in range(3):
    r.kill(); r.wait(); r=sp("./deed",5141,stderr=open("b4deed.log","a")); w.wait("watching RTP",3+i,20)
print("restarts:",w.get("/status").splitlines()[:2])
n=w.text().count(": incident "); time.sleep(30); print("incidents in 30 quiet s:",w.text().count(": incident ")-n)
# kill -9 in the middle of writing
sigq(r.pid,13); e=time.time()+8
while time.time()<e and not (os.path.isdir(w.d+"/k/staging") and os.listdir(w.d+"/k/staging")): time.sleep(.003)
w.p.kill(); w.p.wait(); print("staging at kill -9:",os.listdir(w.d+"/k/staging"), "incidents",len(os.listdir(w.d+"/k/incidents")))
k=w.text().count("watching RTP"); w.start(); w.wait("watching RTP",k+1); print("staging after:",os.listdir(w.d+"/k/staging"))
w.end(); r.kill(); s.kill()
print(subprocess.run([Q,"runs","--root",w.d+"/k/incidents"],capture_output=True,text=True).stdout)
print(open("b4deed.log").read())
