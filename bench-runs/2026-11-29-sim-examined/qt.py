"""Independent writer of QTRACE files (docs/formats.md)."""
import ctypes, struct, base64, json
Z=ctypes.CDLL("libzstd.so.1")
Z.ZSTD_compressBound.restype=ctypes.c_size_t; Z.ZSTD_compressBound.argtypes=[ctypes.c_size_t]
Z.ZSTD_createCCtx.restype=ctypes.c_void_p
Z.ZSTD_CCtx_setParameter.argtypes=[ctypes.c_void_p,ctypes.c_int,ctypes.c_int]
Z.ZSTD_compress2.argtypes=[ctypes.c_void_p,ctypes.c_char_p,ctypes.c_size_t,ctypes.c_char_p,ctypes.c_size_t]; Z.ZSTD_compress2.restype=ctypes.c_size_t
C=Z.ZSTD_createCCtx(); Z.ZSTD_CCtx_setParameter(C,201,1)
def pack(raw):
    n=Z.ZSTD_compressBound(len(raw)); buf=ctypes.create_string_buffer(n)
    k=Z.ZSTD_compress2(C,buf,n,raw,len(raw)); return buf.raw[:k]
M=(1<<64)-1
def uv(n):
    out=bytearray()
    while True:
        b=n&0x7f; n>>=7
        if n: out.append(b|0x80)
        else: out.append(b); return bytes(out)
def sg(n):
    n&=M
    return n-(1<<64) if n>>63 else n
def zz(n):
    n=sg(n); return uv(((n<<1)^(n>>63))&M)
INT,MUL,DIV,FLT,FMUL,FDIV,BR,SER=range(8)
class I:
    def __init__(s,cls=INT,load=False,store=False,reads=(),writes=(),octets=4):
        s.cls,s.load,s.store,s.octets=cls,load,store,octets
        s.reads=sum(1<<r for r in reads); s.writes=sum(1<<r for r in writes)
class Site:
    def __init__(s): s.last=s.step=s.last_step=s.gap=0; s.trust=0; s.seen=False
    def exp(s,lt):
        if not s.seen: return lt
        return (lt+s.gap)&M if s.trust<0 else (s.last+s.step)&M
    def saw(s,a,lt):
        step=(a-s.last)&M; gap=(a-lt)&M
        if s.seen:
            e=(step==s.step,gap==s.gap)
            if e==(True,False): s.trust=min(s.trust+1,3)
            elif e==(False,True): s.trust=max(s.trust-1,-4)
            if step==s.last_step: s.step=step
            s.last_step=step
        s.gap=gap; s.last=a; s.seen=True
class Thread:
    def __init__(s): s.ctl=bytearray(); s.dif=bytearray(); s.known={}; s.lastaddr=0; s.steps=0; s.list=[]; s.frames=[]
    def b(s,num,acc=()):            # acc: (instr,address,octets,write)
        s.list.append(('b',num,tuple(acc)))
        s.steps+=1
        sites,shape=s.known.setdefault(num,[[],None])
        sh=[(i,o,w) for i,a,o,w in acc]
        if shape is None and not sh: s.known[num][1]=sh
        elif shape!=sh:
            while len(sites)<len(sh): sites.append(Site())
            s.known[num][1]=sh
            s.ctl.append(0x81); s.ctl+=uv(len(sh))
            for i,o,w in sh: s.ctl+=uv(i); s.ctl.append(o|(0x80 if w else 0))
        s.ctl.append(0x80); s.ctl+=uv(num)
        lt=s.lastaddr
        for st,(i,a,o,w) in zip(sites,acc):
            s.dif+=zz(a-st.exp(lt)); st.saw(a,lt); lt=a
        s.lastaddr=lt
        if len(s.ctl)+len(s.dif)>(1<<20): s.flush()
        return s
    def flush(s):
        if s.steps: s.frames.append((s.steps,uv(len(s.ctl))+bytes(s.ctl)+bytes(s.dif)))
        s.ctl=bytearray(); s.dif=bytearray(); s.known={}; s.lastaddr=0; s.steps=0
    def _s(s,k,*f):
        s.list.append(('s',k,f)); s.steps+=1
        s.ctl.append(0x90+k)
        for x in f: s.ctl+=uv(x)
        return s
    def create(s,t): return s._s(0,t)
    def join(s,t): return s._s(1,t)
    def lock(s,o): return s._s(2,o)
    def unlock(s,o): return s._s(3,o)
    def rlock(s,o): return s._s(4,o)
    def runlock(s,o): return s._s(5,o)
    def signal(s,o,w): return s._s(6,o,w)
    def bcast(s,o,w): return s._s(7,o,w)
    def wait(s,o,m,w=None): return s._s(8,o,m,w) if w is not None else s._s(9,o,m)
    def barrier(s,o,n): return s._s(10,o,n)
    def end(s): s.list.append(('e',)); s.steps+=1; s.ctl.append(0xff); return s
def frame(kind,thread,steps,raw):
    st=pack(raw); return struct.pack('<IIQII',kind,thread,steps,len(raw),len(st)),st
def trace(path,blocks,threads,program=('made',),tool='qt.py',text=True,auto_end=True,cut=None):
    out=bytearray(b'QTRACE\r\n'+struct.pack('<II',1,0)); index=bytearray()
    def add(kind,thread,steps,raw):
        nonlocal out,index
        h,st=frame(kind,thread,steps,raw); index+=struct.pack('<Q',len(out))+h; out+=h+st
    add(1,0,0,json.dumps(dict(program=list(program),tool=tool,architecture='x86-64')).encode())
    raw=bytearray(); endp=0
    for pc,ins in blocks:
        raw+=zz(pc-endp)+uv(len(ins))
        for i in ins: raw.append(i.octets); raw.append(i.cls|(0x10 if i.load else 0)|(0x20 if i.store else 0)); raw+=uv(i.reads)+uv(i.writes)
        endp=pc+sum(i.octets for i in ins)
    add(2,0,len(blocks),bytes(raw))
    items=threads.items() if isinstance(threads,dict) else enumerate(threads)
    for n,t in items:
        if auto_end and (not t.list or t.list[-1][0]!='e'): t.end()
        t.flush()
        for steps,body in t.frames: add(3,n,steps,body)
    off=len(out); h,st=frame(4,0,0,bytes(index)); out+=h+st+struct.pack('<Q',off)+b'QTRCEND\n'
    data=bytes(out)
    if cut is not None: data=data[:cut]
    if text:
        s=base64.b64encode(data).decode()
        data=('quaver trace in base64 (RFC 4648)\n'+''.join(s[i:i+76]+'\n' for i in range(0,len(s),76))).encode()
    open(path,'wb').write(data)
    return path
CODE=0x400000
# blocks: 0 = 1 instr; 1 = load; 2 = store; 3 = 64 plain instrs (32 cycles); 4 = 600 instrs
BL=[(CODE,[I()]),
    (CODE+0x40,[I(load=True,reads=(0,),writes=(0,),octets=1)]),
    (CODE+0x80,[I(store=True,reads=(1,),octets=1)]),
    (CODE+0x1000,[I(octets=1)]*64),
    (CODE+0x2000,[I(octets=1)]*600)]
def work(t,cycles):
    """cycles of work in blocks of 300/32 cycles"""
    while cycles>=300: t.b(4); cycles-=300
    while cycles>=32: t.b(3); cycles-=32
    while cycles>=1: t.b(0); t.b(0); cycles-=1
    return t
