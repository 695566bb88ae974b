"""Prints the unexplained shares of each run below a directory."""
import csv, glob, json, os, subprocess, sys

quaver = os.environ.get("QUAVER", "quaver")
for run in sorted(glob.glob(sys.argv[1] + "/chase-*")):
    summary = json.load(open(run + "/summary.json"))
    table = subprocess.run([quaver, "export", run, "--late-csv", "-o", "-"], capture_output=True, text=True, check=True).stdout
    here = {True: 0, False: 0}
    for row in csv.DictReader(table.splitlines()):
        if row["place"] == "receiver":
            here[row["source"] == ""] += int(row["end_ns"]) - int(row["start_ns"])
    print(json.dumps({
        "late_packets": summary["lateness"]["packets"], "received": summary["losses"]["received"],
        "late_ns": summary["lateness"]["time_ns"], "unexplained_share": round(summary["unexplained"]["share"], 4),
        "in_calls_share": round(summary["unexplained"].get("in_call_ns", 0) / summary["lateness"]["time_ns"], 4),
        "at_receiver_ns": sum(here.values()), "unexplained_at_receiver_share": round(here[True] / max(1, sum(here.values())), 4),
        "causes": [[c["source"], c["name"], round(c["share"], 4)] for c in summary["causes"][:5]],
    }))
