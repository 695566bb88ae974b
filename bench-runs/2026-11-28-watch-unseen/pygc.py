import socket,gc,sys,threading,time
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.bind(("127.0.0.1",int(sys.argv[1])))
keep=[[i] for i in range(1500000)]
def t():
    for l in sys.stdin:
        n=time.time();gc.collect();print("gc",(time.time()-n)*1e3,file=sys.stderr,flush=True)
threading.Thread(target=t,daemon=True).start()
while 1: s.recv(2048)
