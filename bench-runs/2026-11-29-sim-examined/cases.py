"""Cases of this page: python3 cases.py PLACE, with QUAVER as the program. Prints each figure beside the one expected."""
import json, math, os, random, subprocess, sys
from collections import OrderedDict
from qt import BL, CODE, Thread, trace, work

PLACE = sys.argv[1]
QUAVER = os.environ.get("QUAVER", "quaver")
CYCLE_FS = 333_334


def sim(name, threads, *settings, cure=None):
    path = trace(f"{PLACE}/{name}.qtrace.txt", BL, threads)
    words = [QUAVER, "sim", "run", path, "-q", "--json", "-o", f"{PLACE}/runs"]
    for setting in settings or ["machine=paper"]:
        words += ["--set", setting]
    if cure is not None:
        open(f"{PLACE}/cure.toml", "w").write(cure)
        words += ["--cure", f"{PLACE}/cure.toml"]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout:
        print(name, "status", done.returncode, done.stderr.strip())
        return None
    summary = json.loads(done.stdout)
    for wrong in sums(summary):
        print(name, "DOES NOT ADD UP:", wrong)
    return summary


def sums(j):
    """What must add up in every summary, exactly."""
    duration = j["chip"]["duration_fs"]
    for core in j["cores"]:
        if sum(core["parts_fs"]) != duration:
            yield f"core {core['core']}"
    for number, part in enumerate(j["time"]):
        if part["time_fs"] != sum(core["parts_fs"][number] for core in j["cores"]):
            yield part["part"]
    path = j["critical_path"]
    if not sum(part["time_fs"] for part in path["parts"]) == path["length_fs"] == duration:
        yield "critical path"
    if sum(t["instructions"] for t in j["threads"]) != j["chip"]["instructions"]:
        yield "instructions of threads"
    level = {one["level"]: one for one in j["levels"]}
    first = sum(level[name]["misses"] for name in level if name != "L2")
    if level["L2"]["looks"] != first:
        yield "lookups of the L2"


def fork_join(count, body):
    threads = [Thread() for _ in range(count)]
    for number in range(1, count):
        threads[0].create(number)
    body(threads)
    for number in range(1, count):
        threads[0].join(number)
    return threads


def barriers(count, rounds, cycles):
    def body(threads):
        for turn in range(rounds):
            for number, thread in enumerate(threads):
                work(thread, cycles(number, turn))
                thread.barrier(0x9000, count)
    return fork_join(count, body)


class Cache:
    def __init__(self, kib, ways, line):
        self.line, self.ways, self.sets = line, ways, [OrderedDict() for _ in range(kib * 1024 // line // ways)]

    def place(self, line):
        return self.sets[line % len(self.sets)]

    def has(self, address):
        line = address // self.line
        if line in self.place(line):
            self.place(line).move_to_end(line)
            return True
        return False

    def fill(self, address):
        line, victim = address // self.line, None
        if len(self.place(line)) == self.ways:
            victim, _ = self.place(line).popitem(last=False)
        self.place(line)[line] = True
        return victim


def caches(seed, loads, span, l2_kib):
    """LRU, inclusion, 2, 12 and 312 cycles: each load needs the one before it."""
    chance, thread, count = random.Random(seed), Thread(), dict(fetch=0, load=0, second=0)
    code, data, second, cycles = Cache(32, 2, 32), Cache(32, 2, 32), Cache(l2_kib, 4, 64), 0

    def access(first, address, kind):
        if first.has(address):
            return 2
        count[kind] += 1
        took = 12
        if not second.has(address):
            count["second"] += 1
            victim, took = second.fill(address), 312
            if victim is not None:
                for own in (code, data):
                    for line in (2 * victim, 2 * victim + 1):
                        own.place(line).pop(line, None)
        first.fill(address)
        return took

    for _ in range(loads):
        address = 0x10000000 + (chance.randrange(span) if chance.random() < 0.5 else chance.randrange(span // 16)) & ~7
        thread.b(1, [(0, address, 8, False)])
        fetched = access(code, CODE + 0x40, "fetch")
        cycles += (fetched if fetched > 2 else 0) + access(data, address, "load")
    j = sim(f"cache{seed}", [thread], "machine=paper", f"l2.kib={l2_kib}")
    level = {one["level"]: one["misses"] for one in j["levels"]}
    seen = dict(fetch=level["L1 instructions"], load=level["L1 data, reads"], second=level["L2"])
    print(f"cache {seed}: misses {seen}, expected {count}; cycles {j['chip']['duration_fs'] / CYCLE_FS:.1f}, "
          f"expected {cycles} and 12 to end, less what overlaps")


def injection(probability, sigma, seed=1, dvfs=""):
    return f"""threshold_ns = 10000
[injection]
seed = {seed}
[injection.classes.broadcast-wait]
kind = "exceedance"
probability = {probability}
over_ns = 10000
mean_ns = 30000
sigma = {sigma}
[frames]
warm_up_subframes = 0
{dvfs}
"""


def main():
    os.makedirs(PLACE, exist_ok=True)
    for seed, loads, span, kib in [(1, 2000, 16, 256), (2, 4000, 128, 256), (3, 8000, 512, 256), (4, 8000, 2048, 256),
                                   (5, 8000, 512, 128)]:
        caches(seed, loads, span << 10, kib)
    for name, count, cycles in [("equal", 2, lambda own, turn: 3000), ("last", 2, lambda own, turn: 3000 + 3000 * own),
                                ("turns", 3, lambda own, turn: 3000 + 3000 * (own == turn % 3)),
                                ("many", 16, lambda own, turn: 3000 + 3000 * (own == turn % 16))]:
        j = sim(name, barriers(count, 10, cycles))
        print(name, "in threads and on the way, cycles:",
              [round(part["time_fs"] / CYCLE_FS) for part in j["critical_path"]["parts"]])
    # Each barrier is held up once by 40 us.
    j = sim("held", barriers(2, 10, lambda own, turn: 30000), cure=injection(1, 0.0))["cure"]
    extra = j["seeds"][0]["disturbed_fs"] - j["ideal_fs"]
    print("held up for", extra, "fs, expected", 10 * 40_000_000_000)
    injected = drawn = time = 0
    for seed in range(1, 13):
        j = sim("chance", barriers(4, 100, lambda own, turn: 3000), cure=injection(0.3, 0.8, seed))["cure"]
        one = next(one for one in j["classes"] if one["class"] == "broadcast-wait")
        drawn, injected, time = drawn + one["drawn"], injected + one["injected"], time + one["injected_fs"]
    print(f"injected {injected} of {drawn}, expected {0.3 * drawn:.0f} ± {math.sqrt(0.21 * drawn):.0f}; "
          f"mean {time / injected / 1e9:.1f} us, expected 40 ± {30 * math.sqrt(math.exp(0.64) - 1) / math.sqrt(injected):.1f}")
    for rule in ("max", "slack", "join"):
        cure = injection(0, 0.0, dvfs=f'[dvfs]\ncritical_path = "{rule}"')
        work_of = lambda own, turn: 3000 + 100 * ((own * 7 + turn * 3) % 11)
        j = sim("quiet", barriers(7, 40, work_of), "machine=paper", "chip.cores=3", cure=cure)["cure"]
        print("nothing injected,", rule, j["slow_down"]["mean"], j["owed_fs"], "expected 0")
    # Threads 0 and 65,535.
    sim("far", {0: Thread().b(0), 65_535: Thread().b(0)})


main()
