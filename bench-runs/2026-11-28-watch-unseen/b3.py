from rig import *
import re
r=sp("./deed",5120,stderr=open("b3deed.log","w")); s=sp("./send",5120,2000)
conf='cpus="0-1"\n'
tabs='[[receiver]]\nname="d"\ncomm="deed"\nport=5120\nlate="10ms"\ngap="500ms"\nlosses=5\n[[threads]]\nname="all"\ncpus="0-1"\nwait="300ms"\n[[threads]]\nname="deed"\ncomm="deed"\nlock="20ms"\n'
w=Watch("b3",tabs,'fold_within="24h"',top=conf)
time.sleep(1.5); print("first status:",w.get("/status"))
w.wait("watching",1); time.sleep(3)
m1=w.get(); open("m1.txt","w").write(m1)
old=open("/proc/sys/kernel/bpf_stats_enabled").read().strip()
def stat(): 
    f=open(f"/proc/{w.p.pid}/stat").read().rsplit(")",1)[1].split(); return (int(f[11])+int(f[12]))/100
def bpf():
    t=n=0
    seen=set()
    for f in os.listdir(f"/proc/{w.p.pid}/fdinfo"):
        try: x=open(f"/proc/{w.p.pid}/fdinfo/{f}").read()
        except OSError: continue
        a=re.search(r"prog_id:\s*(\d+)",x)
        if a and a.group(1) not in seen and "run_time_ns" in x:
            seen.add(a.group(1)); t+=int(re.search(r"run_time_ns:\s*(\d+)",x).group(1)); n+=int(re.search(r"run_cnt:\s*(\d+)",x).group(1))
    return t,n,len(seen)
def switches(): return int(re.search(r"ctxt (\d+)",open("/proc/stat").read()).group(1))
def own(): return float(re.search(r"quaver_watch_cpu_seconds_total (\S+)",w.get()).group(1))
open("/proc/sys/kernel/bpf_stats_enabled","w").write("1")
try:
    for load in (None,["stress-ng","--switch","2","-t","14","-q"]):
        l=load and sp(*load); time.sleep(2)
        a=(time.time(),stat(),own(),bpf(),switches()); time.sleep(10); b=(time.time(),stat(),own(),bpf(),switches())
        dt=b[0]-a[0]; print("load",load,"proc stat %.2f%% own metric %.2f%% bpf %.2f%% (%d runs/s, %d progs) switches/s %d"%((b[1]-a[1])/dt*100,(b[2]-a[2])/dt*100,(b[3][0]-a[3][0])/dt/1e7,(b[3][1]-a[3][1])/dt,b[3][2],(b[4]-a[4])/dt))
        print(w.get("/status").splitlines()[-1]); 
        if l: l.wait()
finally: open("/proc/sys/kernel/bpf_stats_enabled","w").write(old)
a=len(w.text())
w.deed("lock held across write, 1",lambda: sigq(r.pid,2),t=12,quiet=6)
time.sleep(3)
w.deed("lock held across write, 2: folded",lambda: sigq(r.pid,2),t=12,quiet=6)
time.sleep(3)
w.deed("two glitches 1.5 s apart: page faults 130 ms, then own loop 40 ms",lambda: (sigq(r.pid,1),time.sleep(1.5),sigq(r.pid,8)),t=14,quiet=8)
# trigger storm
def storm():
    import socket
    for i in range(30):
        w.p.send_signal(signal.SIGUSR1); subprocess.run([Q,"watch","trigger","--config",w.conf] if False else ["true"])
        c=socket.socket(socket.AF_UNIX);c.connect(w.sock);c.sendall(b"POST /trigger HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); c.recv(4096); c.close()
        if i%10==0: sigq(r.pid,13)
w.deed("trigger storm 30 x (HTTP + SIGUSR1) + own",storm,t=25,quiet=14)
open(w.conf,"a").write("\nnonsense = [\n"); w.p.send_signal(signal.SIGHUP); time.sleep(1); print(w.text().splitlines()[-3:])
w.set(tabs.replace('10ms','15ms'),'fold_within="24h"'); w.p.send_signal(signal.SIGHUP); w.wait("new settings are in force"); time.sleep(4)
m2=w.get(); open("m2.txt","w").write(m2)
def ctr(t): return {l.rsplit(" # ",1)[0].rsplit(" ",1)[0]:float(l.split(" # ")[0].rsplit(" ",1)[1]) for l in t.splitlines() if not l.startswith("#") and ("_total" in l or "_bucket" in l or "_count" in l or "_sum" in l)}
c1,c2=ctr(m1),ctr(m2); print("fell:",[k for k in c1 if c2.get(k,-1)<c1[k]][:10], "series",len(c2))
print("quiet minute:"); n=w.text().count(": incident "); time.sleep(45); print("incidents in 45 quiet s:",w.text().count(": incident ")-n)
w.deed("restart receiver 1",lambda:(r.kill(),r.wait()),t=1)
for i in range(3):
    r=sp("./deed",5120,stderr=open("b3deed.log","a")); w.wait("watching RTP",3+i); time.sleep(.5); 
    if i<2: r.kill(); r.wait()
# kill -9 while an incident is written
time.sleep(3); sigq(r.pid,13)
e=time.time()+8
while time.time()<e and not (os.path.isdir(w.d+"/k/staging") and os.listdir(w.d+"/k/staging")): time.sleep(.005)
w.p.kill(); w.p.wait(); print("staging at kill -9:",os.listdir(w.d+"/k/staging"), "incidents",len(os.listdir(w.d+"/k/incidents")))
k=w.text().count("watching RTP"); w.start(); w.wait("watching RTP",k+1); time.sleep(1); print("staging after:",os.listdir(w.d+"/k/staging"))
w.deed("after kill -9",lambda: sigq(r.pid,13),t=10,quiet=2)
print(w.get("/status"))
w.end(); r.kill(); s.kill()
print(subprocess.run([Q,"runs","--root",w.d+"/k/incidents"],capture_output=True,text=True).stdout)
print(open("b3deed.log").read())
