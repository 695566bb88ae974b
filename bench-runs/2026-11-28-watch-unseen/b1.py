from rig import *
import fcntl
r=sp("./deed",5100,stderr=open("deed.log","w")); s=sp("./send",5100,2000)
w=Watch("b1",'[[receiver]]\nname="d"\ncomm="deed"\nlate="10ms"\n','fold_within="1ms"')
w.wait("watching"); time.sleep(4)
print(w.get("/status"))
for n,l in [(1,"page faults after MADV_DONTNEED"),(2,"lock held across write+fsync"),(4,"fork and copy on write"),(6,"cold file read"),(7,"popen sleep"),(8,"own loop 40ms"),(10,"urandom reads"),(11,"munmap+populate"),(13,"own sleep 40ms")]:
    w.deed(l,lambda: sigq(r.pid,n))
f=open("lockfile","w"); fcntl.flock(f,fcntl.LOCK_EX); threading.Timer(0.3,lambda: fcntl.flock(f,fcntl.LOCK_UN)).start()
w.deed("flock held by another process",lambda: sigq(r.pid,5))
os.path.exists("out.fifo") or os.mkfifo("out.fifo")
fd=os.open("out.fifo",os.O_RDONLY|os.O_NONBLOCK)
def drain():
    time.sleep(0.2); os.set_blocking(fd,True)
    n=0
    while n<160*1024: n+=len(os.read(fd,65536))
threading.Thread(target=drain).start()
w.deed("write to a full pipe",lambda: sigq(r.pid,12))
w.deed("gdb attach",lambda: subprocess.run(["gdb","-p",str(r.pid),"-batch","-ex","shell sleep 0.3"],capture_output=True),t=12,quiet=3)
w.deed("strace for 1 s",lambda: subprocess.run(["timeout","1","strace","-f","-o","/dev/null","-p",str(r.pid)],capture_output=True),quiet=2)
w.deed("changes its port",lambda: (sigq(r.pid,3),time.sleep(.5),s.kill()),t=4)
s=sp("./send",5101,2000); time.sleep(8); print("after port change:",w.get("/status")); 
w.deed("sleep on new port",lambda: sigq(r.pid,13))
w.end(); print(open("deed.log").read()); s.kill(); r.kill()
