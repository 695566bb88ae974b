# A relay with faults by a plan: (second, way, what, amount). way: there/back
import socket,select,time,heapq,sys
inp=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); inp.bind(('127.0.0.1',8620))
out=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); out.connect(('127.0.0.1',8621))
plan=[(6,'there','drop',0.35),(16,'back','drop',0.35),(26,'there','hold',0.03),(36,'back','hold',0.03),(46,'both','drop',0.35)]
t0=time.monotonic(); client=None; q=[]; n=0
def fate(way):
    t=time.monotonic()-t0
    for s,w,what,a in plan:
        if w in (way,'both') and s<=t<s+(a if what=='drop' else 0.1):
            return what,a
    return None,0
while time.monotonic()-t0<60:
    r,_,_=select.select([inp,out],[],[],max(0,min(0.01,(q[0][0]-time.monotonic()) if q else 0.01)))
    now=time.monotonic()
    for s in r:
        if s is inp:
            d,client=inp.recvfrom(2000); way='there'
        else:
            try: d=out.recv(2000)
            except OSError: continue
            way='back'
        what,a=fate(way)
        if what=='drop': continue
        n+=1; heapq.heappush(q,(now+(a if what=='hold' else 0),n,way,d))
    while q and q[0][0]<=time.monotonic():
        _,_,way,d=heapq.heappop(q)
        try: (out.send(d) if way=='there' else inp.sendto(d,client))
        except OSError: pass
