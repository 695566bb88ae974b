import subprocess,os,time,signal,sys,json,ctypes,glob,shutil,threading
Q="quaver"; W="."
libc=ctypes.CDLL(None,use_errno=True)
class SV(ctypes.Union): _fields_=[("i",ctypes.c_int),("p",ctypes.c_void_p)]
def sigq(pid,n): libc.sigqueue(pid,signal.SIGUSR2,SV(i=n))
class Watch:
    def __init__(s,name,tables,extra="",top=""):
        s.d=f"{W}/run-{name}"; shutil.rmtree(s.d,ignore_errors=True); os.makedirs(s.d)
        s.conf=f"{s.d}/w.toml"; s.sock=f"{s.d}/w.sock"; s.top=top
        s.set(tables,extra); s.log=open(f"{s.d}/log","ab"); s.start()
    def set(s,tables,extra=""):
        open(s.conf,"w").write(f'directory="{s.d}/k"\nsocket="{s.sock}"\n{s.top}\n[window]\nbefore="2s"\nafter="500ms"\n[limits]\nincidents_an_hour=500\n{extra}\n{tables}')
    def start(s):
        s.p=subprocess.Popen([Q,"watch","--config",s.conf],stdout=s.log,stderr=s.log)
        threading.Thread(target=s.stampit,daemon=True).start()
    def stampit(s): pass
    def text(s): return open(f"{s.d}/log").read()
    def wait(s,word,n=1,t=15):
        e=time.time()+t
        while time.time()<e:
            if s.text().count(word)>=n: return True
            if s.p.poll() is not None: print("watch ended",s.p.returncode); return False
            time.sleep(0.02)
        print("! no",n,"x",word,"in",t,"s"); return False
    def deed(s,label,do,t=8,quiet=1.0):
        a=len(s.text()); t0=time.time(); do(); first=None; e=t0+t
        while time.time()<e:
            new=s.text()[a:]
            if first is None and ": incident " in new: first=time.time()-t0; e=min(e,time.time()+quiet)
            time.sleep(0.02)
        print(f"--- {label}: first incident after {first and round(first,2)} s"); print("   ",s.text()[a:].strip().replace("\n","\n    ").replace("quaver watch: ","").replace(s.d+"/k/incidents/",""),flush=True)
    def get(s,path="/metrics"):
        import socket
        c=socket.socket(socket.AF_UNIX);c.connect(s.sock);c.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode());b=b""
        while True:
            x=c.recv(65536)
            if not x: break
            b+=x
        return b.split(b"\r\n\r\n",1)[1].decode()
    def end(s):
        s.p.send_signal(signal.SIGTERM); r=s.p.wait(70); print("ended",r)
def sp(*a,**k): return subprocess.Popen(list(map(str,a)),**k)
