"""Runs each program bare and under `quaver sync`, and prints what it measured itself beside what the run says.

usage: QUAVER=PATH judge.py DIRECTORY [NAME...] (rows go to DIRECTORY/NAME.json)
"""
import json, os, subprocess, sys, time
from pathlib import Path

QUAVER = os.environ["QUAVER"]
HERE = Path(__file__).resolve().parent
EXTRA = os.environ.get("SYNC_OPTIONS", "").split()
COMMANDS = {"node": ["node", str(HERE / "atomics.js")], "perl": ["perl", str(HERE / "threads.pl")], "java": ["java", "-cp", str(HERE / "build"), "Locks"], "python": ["python3", str(HERE / "mixed.py")]}
ALL = ("c11 writers timed robustpi ceiling spin barrier semfork shmcond once events signals dl execs cancel short300 unmap smallstack "
       "deadlock many jail atfork chan static cpp20 omp-gomp conds rust java python node perl hang forkheld").split()

def run(words, own, directory, **more):
    own.unlink(missing_ok=True)
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, cwd=directory, env={**os.environ, "OWN": str(own)}, **more)
    took = time.monotonic() - began
    lines = own.read_text().splitlines() if own.exists() else []
    figures = {}
    for line in lines:
        name, n, ns = line.split()
        before = figures.get(name, [0, 0])
        figures[name] = [before[0] + int(n), before[1] + int(ns)]
    return done, took, figures

def ms(ns):
    return f"{ns / 1e6:.2f}"

def total(one):
    return f"{one['count']} x {ms(one['total_ns'])} ms"

def tell(summary):
    c, r = summary["contention"], summary["results"]
    names = {t["thread"]: t["name"] for t in c["threads"]}
    for l in c["locks"][:8]:
        print(f"    lock {l['name']}: contended {l['contended']} free {l['free']} wait {total(l['wait'])} tried {total(l['tried'])} hold {total(l['hold'])} unknown {ms(l['owner_unknown_ns'])} over {ms(l['handed_over_ns'])} {l['patterns']}")
        for key in ("owner_functions", "owner_calls", "waiter_functions", "owner_chains", "slept_in", "roots"):
            print(f"        {key}: " + "; ".join(f"{o.get('name', o.get('call', (names.get(o.get('thread')), o.get('activity'))))} {ms(o['total_ns'])}" for o in l[key][:3]))
        print("        pairs: " + "; ".join(f"{names.get(p['waiter'])}<-{names.get(p['owner'])} {ms(p['total_ns'])}" for p in l["pairs"][:4]))
    for l in c["conditions"][:6]:
        print(f"    cond {l['name']}: wait {total(l['wait'])} timed_out {total(l['timed_out'])} again {l['again']} unheard {l['unheard']} woken {l['woken']} unknown {l['waker_unknown']} {[f['name'] for f in l['waiter_functions'][:2]]}")
    for l in c["words"][:12]:
        print(f"    {l['kind']} {l['name']}: wait {total(l['wait'])} woken {l['woken']} changed {l['changed']} given_up {l['given_up']} like {l['used_like']} ({l['used_like_from']}, {l['runtime']}) unknown {l['waker_unknown']} {[f['name'] for f in l['waiter_functions'][:2]]}")
    sums = {k: sum(t.get(k) or 0 for t in c["threads"]) for k in c["threads"][0] if k.endswith("_ns") and k not in ("first_ns", "last_ns") and isinstance(c["threads"][0][k], int)} if c["threads"] else {}
    print("    threads", len(c["threads"]), {k: ms(v) for k, v in sums.items() if v})
    print("    classes", {o["class"]: total(o["timed"]) for o in r["classes"]}, "coverage", r["coverage"])
    print("    counts", {k: v for k, v in r["counts"].items() if v and k not in ("kernel_events",)}, "replay", c["replay"]["reason"], c["replay"]["complete"])
    print("    advice", [a["change"] for a in summary["advice"]])
    for w in summary["warnings"]: print("    warning", w)
    print("    facts", summary["facts"]["obstacles"], summary["facts"]["status"], "free", sum(p["uncontended"]["free_locks"] for p in summary["processes"]), "processes", len(summary["processes"]))

def main():
    place = Path(sys.argv[1]).resolve(); place.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ALL:
        command = COMMANDS.get(name, [str(HERE / "build" / name)])
        runs = place / "runs" / name
        subprocess.run(["rm", "-rf", str(runs)]); runs.mkdir(parents=True)
        bare, bare_s, bare_own = run(command, place / "own-bare", place)
        recorded, took, own = run([QUAVER, "sync", *EXTRA, "--quiet", "-o", str(runs), "--", *command], place / "own", place)
        recorded_errors = recorded.stderr.decode(errors="replace")
        print(f"== {name}: status {bare.returncode}/{recorded.returncode} output {'same' if bare.stdout == recorded.stdout else 'DIFFERS ' + repr(bare.stdout[:200]) + repr(recorded.stdout[:200])} {bare_s:.2f}/{took:.2f} s")
        for key in own: print(f"    own {key}: {own[key][0]} calls {ms(own[key][1])} ms (bare {bare_own.get(key, [0])[0]}, {ms(bare_own.get(key, [0, 0])[1])})")
        found = sorted(runs.glob("*/summary.json"))
        (place / f"{name}.page").write_text(recorded_errors)
        row = {"program": name, "bare": {"status": bare.returncode, "seconds": bare_s, "own": bare_own}, "recorded": {"status": recorded.returncode, "seconds": took, "own": own, "same_output": bare.stdout == recorded.stdout}}
        if found:
            summary = json.loads(found[-1].read_text()); row["contention"] = summary["contention"]; row["counts"] = summary["results"]["counts"]; row["warnings"] = summary["warnings"]
            tell(summary)
        else:
            print("    no summary", recorded_errors[-400:])
        (place / f"{name}.json").write_text(json.dumps(row))
        sys.stdout.flush()

main()
