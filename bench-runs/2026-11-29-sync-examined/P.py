import threading,time,sys,queue,os,multiprocessing as mp
w=[0.0]*8; k=sys.argv[1]
def t(i,f):
    a=time.monotonic(); r=f(); w[i]+=time.monotonic()-a; return r
def ms(n): time.sleep(n/1e3)
if k=="gil":
    def spin():
        u=time.thread_time()+.1
        while time.thread_time()<u: pass
    th=[threading.Thread(target=spin) for _ in range(3)]; a=time.monotonic(); [x.start() for x in th]; [x.join() for x in th]; print("own wall %.3f"%((time.monotonic()-a)*1e3))
if k=="queue":
    q=queue.Queue(2)
    def p():
        for i in range(40): t(0,lambda:q.put(i))
    x=threading.Thread(target=p); x.start()
    for i in range(40): q.get(); ms(4)
    x.join(); print("own put %.3f"%(w[0]*1e3))
if k=="bar":
    b=threading.Barrier(2)
    def f(i):
        for r in range(40): ms(6 if i else 1); t(i,b.wait)
    th=[threading.Thread(target=f,args=(i,)) for i in (0,1)]; [x.start() for x in th]; [x.join() for x in th]; print("own w0 %.3f"%(w[0]*1e3)); print("own w1 %.3f"%(w[1]*1e3))
if k=="pool":
    with mp.Pool(2) as p: r=p.map(abs,range(50))
    print(sum(r))
if k=="lock":
    l=threading.Lock()
    def f(i):
        for r in range(30): t(i,l.acquire); ms(3); l.release(); ms(1)
    th=[threading.Thread(target=f,args=(i,),name=f"py{i}") for i in range(3)]; [x.start() for x in th]; [x.join() for x in th]; print("own w %.3f"%(sum(w)*1e3))
sys.exit(4)
