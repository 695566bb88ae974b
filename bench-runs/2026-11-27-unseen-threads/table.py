"""A row a program: what it measured itself, beside the rows of its runs. usage: table.py DIRECTORY..."""
import json, sys
from pathlib import Path
KIND = {"lock": ("locks",), "locks": ("locks",), "cond": ("conditions",), "sem": ("words",), "word": ("words",), "once": ("words",), "guard": ("words",)}
places = [Path(word) for word in sys.argv[1:]]
print("program\tbuild\tstatus\toutput\town waits, ms\tlocks\tconditions\tsemaphores and words\towner unknown\tpatterns")
for path in sorted(places[0].glob("*.json")):
    for place in places:
        row = json.loads((place / path.name).read_text())
        c, ms = row["contention"], lambda ns: f"{ns / 1e6:.1f}"
        total = lambda kind: f"{sum(o['wait']['count'] for o in c[kind])} x {ms(sum(o['wait']['total_ns'] for o in c[kind]))}"
        own = ", ".join(f"{k} {n} x {ms(ns)}" for k, (n, ns) in row["recorded"]["own"].items())
        same = "same" if row["recorded"]["same_output"] else "differs"
        patterns = sorted({p for l in c["locks"] for p in l["patterns"]})
        print("\t".join([row["program"], place.name.removeprefix("results-"), f"{row['bare']['status']}/{row['recorded']['status']}", same, own, total("locks"), total("conditions"), total("words"), ms(sum(l["owner_unknown_ns"] for l in c["locks"])), ", ".join(patterns)]))
