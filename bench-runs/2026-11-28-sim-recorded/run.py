"""Records bundled kernels, injects them in three ways, and prints what came of it. Run from the root of the repository, after
cargo build -p quaver -p quaver-sim-program -p quaver-preload and make -C kernels."""

import json
import os
import pathlib
import subprocess
import sys

QUAVER = pathlib.Path("target/debug/quaver").resolve()
PROGRAMS = {
    "lu": ["-p16", "-n96"],
    "water-spatial": ["-p16", "-n64"],
    "ocean": ["-p16", "-n16", "-bposix"],
}
SEEDS = 3
THRESHOLD_NS = 10_000


def quaver(*words):
    environment = {**os.environ, "QUAVER_LIBDIR": str(QUAVER.parent)}
    done = subprocess.run([QUAVER, *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{words}: status {done.returncode}")
    return done.stdout


def marginal(results, together):
    """The same lateness class by class, in bins, for every thread: what `recorded` injected before."""
    lines = [f"[injection]\nseed = 1\ntogether = {together}"]
    for one in results["classes"]:
        if one["late"]["count"] == 0:
            continue
        bins = ", ".join(
            f"{{ from_ns = {b['from_ns']:.6f}, to_ns = {b['to_ns']:.6f}, count = {b['count']} }}" for b in one["bins"]
        )
        lines.append(
            f"[injection.classes.{one['class']}]\nkind = 'recorded'\ntimed = {one['timed']['count']}\n"
            f"over_ns = {THRESHOLD_NS}\nbins = [{bins}]"
        )
    return "\n".join(lines) + "\n"


def main(place):
    place.mkdir(parents=True, exist_ok=True)
    rows = []
    for program, words in PROGRAMS.items():
        quaver("sync", "--no-kernel", "-q", "--json", "--output", str(place / program), "--", f"target/kernels/{program}", *words)
        run = next((place / program).iterdir()).resolve()
        details = run / "details.json"
        results = json.loads((details if details.is_file() else run / "summary.json").read_text())["results"]
        arms = {
            "recorded": f"recorded = '{run}'\n[injection]\nseed = 1\n",
            "alone": marginal(results, 0.0),
            "together": marginal(results, 1.0),
        }
        for arm, cure in arms.items():
            file = place / f"{program}-{arm}.toml"
            file.write_text(cure)
            trace = f"simulator/sim/traces/{program}.qtrace.txt"
            out = quaver("sim", "run", trace, "--cure", str(file), "--seeds", str(SEEDS), "--json", "-q",
                         "--output", str(place / "sim"))
            cure = json.loads(out)["cure"]
            added = [(seed["disturbed_fs"] - cure["ideal_fs"]) / 1e9 for seed in cure["seeds"]]
            keep = {key: cure[key] for key in ("classes", "ideal_fs")}
            rows.append({"program": program, "arm": arm, "added_us": added, **keep, "recorded": cure.get("recorded")})
            (pathlib.Path(__file__).parent / "raw" / "arms.json").write_text(json.dumps(rows, indent=1) + "\n")
            mean = sum(added) / len(added)
            print(f"{program} {arm}: {mean:.0f} us added ({min(added):.0f} to {max(added):.0f})", flush=True)


main(pathlib.Path(sys.argv[1]))
