from rig import *
r=sp("./deed",5150,200,stderr=open("b5deed.log","w")); s=sp("./send",5150,2000)
T='[[receiver]]\nname="d"\ncomm="deed"\nlate="25ms"\nlosses=5\n'
w=Watch("b5",T,'fold_within="1ms"')
w.wait("watching RTP"); time.sleep(3)
print(w.get("/status"))
def loss():
    subprocess.run("nft add table inet qa; nft add chain inet qa i '{ type filter hook input priority 0; }'; nft add rule inet qa i udp dport 5150 drop; sleep 0.04; nft delete table inet qa",shell=True)
w.deed("netfilter drops for 40 ms",loss,t=10,quiet=2)
def quota():
    g="/sys/fs/cgroup/cpu/qa"; os.path.isdir(g) or os.mkdir(g)
    open(g+"/cpu.cfs_period_us","w").write("100000"); open(g+"/cpu.cfs_quota_us","w").write("10000"); open(g+"/cgroup.procs","w").write(str(r.pid)); time.sleep(.3); sigq(r.pid,8); time.sleep(2); open("/sys/fs/cgroup/cpu/cgroup.procs","w").write(str(r.pid)); os.rmdir(g)
w.deed("cgroup quota 10 % and own work 40 ms",quota,t=12,quiet=4)
w.deed("two glitches",lambda:(sigq(r.pid,1),time.sleep(1.5),sigq(r.pid,13)),t=14,quiet=5)
w.deed("restart: no incident by losses",lambda:(r.kill(),r.wait()),t=3)
w.end(); s.kill()
print(open("b5deed.log").read())
r=sp("./deed",5151,200,stderr=subprocess.DEVNULL); s=sp("./send",5151,2000); time.sleep(1)
o=subprocess.run([Q,"chase","--pid",str(r.pid),"--for","2s"],capture_output=True,text=True,cwd="run-b5"); print("chase of 202 threads:",o.returncode,o.stderr[-300:],[l for l in o.stdout.splitlines() if "thread" in l][:3])
r.kill(); s.kill()
