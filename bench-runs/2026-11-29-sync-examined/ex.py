#!/usr/bin/env python3
"""Runs a program bare and under `quaver sync`; prints its own account beside the run's rows and checks all sums."""
import json, os, signal, subprocess, sys, tempfile, time
Q=os.environ.get("QUAVER","quaver")
RUNS=tempfile.mkdtemp()
def ms(ns): return round(ns/1e6,2)
def main():
    words=sys.argv[1:]; interrupt=None; bare=True; opts=[]
    env=dict(os.environ,QUAVER_RUNS=f"{RUNS}/r{os.getpid()}",NO_COLOR="1")
    while words[0].startswith("--"):
        if words[0]=="--int": interrupt=float(words[1]); words=words[2:]
        elif words[0]=="--env": env.update([words[1].split("=",1)]); words=words[2:]
        elif words[0]=="--nobare": bare=False; words=words[1:]
        elif words[0]=="--opt": opts.append(words[1]); words=words[2:]
    def clean(s): return [l for l in s.splitlines() if not l.startswith("own")]
    b=subprocess.run(words,capture_output=True,text=True,env=env) if bare and not interrupt else None
    name=f"r{os.getpid()}"
    t=time.time()
    p=subprocess.Popen([Q,"sync",*opts,"--",*words],stdout=subprocess.PIPE,stderr=subprocess.PIPE,text=True,env=env)
    if interrupt:
        time.sleep(interrupt)
        for pid in subprocess.run(["ps","-o","pid=","--ppid",str(p.pid)],capture_output=True,text=True).stdout.split(): os.kill(int(pid),signal.SIGINT)
    out,err=p.communicate()
    print("=== "," ".join(words), f"[{time.time()-t:.1f}s] run {name}")
    for l in out.splitlines():
        if l.startswith("own"): print("   ",l)
    if b is not None:
        if clean(b.stdout)!=clean(out) : print("  !! output differs", clean(b.stdout)[:5], clean(out)[:5])
        if b.returncode!=p.returncode: print("  !! status", b.returncode, p.returncode)
        else: print("    status",p.returncode)
    import glob
    open(f"{RUNS}/{name}.page","w").write(err)
    try: s=json.load(open(glob.glob(f"{RUNS}/{name}/*/summary.json")[0]))
    except Exception as e: print("  !! no summary",e, err[-600:]); return
    if "panicked" in err: print("  !! PANIC",err)
    f=s["contention"]
    for kind in ("locks","conditions","semaphores","barriers","words"):
        for o in f.get(kind,[])[:6]:
            wa=o["wait"]; bits=[o["name"],f'{wa["count"]}x {ms(wa["total_ns"])}ms']
            if kind=="locks":
                bits.append(f'acq {o.get("acquisitions")} held {ms(o["held_ns"])} hand {ms(o["handed_over_ns"])} unk {ms(o.get("unknown_ns",0))}')
                if o["held_ns"]+o["handed_over_ns"]+o.get("unknown_ns",0)!=wa["total_ns"]: bits.append("!!SUM")
                bits.append("pairs "+str([(q["waiter"],q["owner"],ms(q["total_ns"])) for q in o.get("pairs",[])[:4]]))
                bits.append("pat "+str(o.get("patterns")))
                bits.append("gain "+str(o.get("gain")))
            elif kind=="barriers": bits.append(f'rounds {o["rounds"]} last '+str([(l["thread"],l["rounds"],ms(l["behind_ns"]),ms(l["total_ns"])) for l in o["last"]][:4]))
            elif kind=="conditions": bits.append(str({k:o.get(k) for k in("signals","broadcasts","woken","again","unheard","timed_out")}))
            elif kind=="words": bits.append(f'{o["used_like"]} woken {o["woken"]} unk {o["waker_unknown"]}')
            print("   ",kind[:-1]," | ".join(map(str,bits)))
    for th in f["threads"][:8]:
        tot=sum(v for k,v in th.items() if k.endswith("_ns") and k not in("first_ns","last_ns","unsampled_ns"))
        if tot!=th["last_ns"]-th["first_ns"]: print("  !!THREAD SUM",th)
        print("    thread",th.get("name"),th.get("thread"),{k[:-3]:ms(v) for k,v in th.items() if k.endswith("_ns") and v>200000 and k not in("first_ns","last_ns")}, "life",ms(th["last_ns"]-th["first_ns"]))
    for u in f.get("unended",[]): print("    unended",u["name"],ms(u["total_ns"]),u.get("thread"),u.get("after_unheard"))
    for u in f.get("standstills",[]): print("    standstill",u["threads"],ms(u["total_ns"]))
    c=s["results"]["coverage"]; print("    cov",c["matched"],c["wake_ups"],"late",ms(s["results"]["late"]["total_ns"]))
    for a in s["advice"]: print("    advice",a["kind"],a["gain"],"at most" if a["at_most"] else "",a["change"],a["evidence"][:2])
    for wn in s.get("warnings",[]): print("    warn",wn if isinstance(wn,str) else json.dumps(wn)[:200])
    print("    page:",next((l for l in err.splitlines() if "ynchroniz" in l or "waited" in l),"")[:220])
main()
