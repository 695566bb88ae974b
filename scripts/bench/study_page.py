"""The part of a bench page on studies."""

from targets import result, text, without

LABS = (("netns", "Between two network namespaces"), ("qemu", "In a guest of QEMU, in virtual time"))
LIMIT_OSNOISE = 0.05
VERDICTS = {
    "worse": "worse",
    "better": "better",
    "no-difference": "no difference found",
    "too-few-blocks": "too few blocks to tell",
    "sender": "not concluded: the sender is off by more",
}


# What `quaver study paper` compares with the baseline in each lab.
ARMS = {
    "netns": ("blocking", "blocking-no-idle-poll", "itr", "itr-blocking", "itr-no-idle-poll"),
    "qemu": ("rerouted-idle", "rerouted-busy", "blocking-no-idle-poll", "itr", "itr-blocking"),
}
# The figure that is shown beside a core that is kept awake: between namespaces alone, for a guest's core is not idle.
WOKEN = "8"
# Loops of `quaver lab osnoise`, and the classes of which each has more than FEW in any run. Fewer are not compared.
QUIET, WOKEN_LOOP, USUAL = "booted for quiet", "the same, with a thread that wakes each millisecond and works for 50 us", "booted as usual"
LOOPS = {QUIET: (), WOKEN_LOOP: ("irq", "thread"), USUAL: ("irq",)}
FEW = 20
OSNOISE = "Attribution agrees with osnoise, per class"


def null(lab):
    return f"{lab}: the baseline against itself comes out null"


def throttled(lab):
    return f"{lab}: interrupt throttling costs most (figure 11)"


def blocked(lab):
    return f"{lab}: with throttling, blocking changes nothing"


WAKING = f"netns: waking an idle core widens ΔT (figure {WOKEN})"
BLOCKING = "netns: blocking without idle=poll is worse than polling"
STUDY_TARGETS = {
    **{null(lab): "no difference" for lab in ARMS},
    **{throttled(lab): "first in the ranking" for lab in ARMS},
    **{blocked(lab): "within 10 %" for lab in ARMS},
    WAKING: "wider than kept awake",
    BLOCKING: "worse",
    OSNOISE: "within 5 %",
}


def study(page, directory):
    page.expect(STUDY_TARGETS)
    page.add("## The paper's matrix: `quaver study paper`", "")
    for lab, title in LABS:
        place = directory / lab
        found = result(place / "summary.json")
        if found:
            one_lab(page, place, found, lab, title)
        elif (place / "failed.txt").exists():
            page.add(f"### {title}", "", (place / "failed.txt").read_text().strip(), "")
    if (directory / "no-qemu.txt").exists():
        page.add("There was no QEMU lab on this machine.", "")
    noise = result(directory / "osnoise.json")
    if noise:
        osnoise(page, noise)


def one_lab(page, directory, found, lab, title):
    seconds = text(directory / "seconds.txt").strip() or "?"
    facts = found["facts"]
    samples = round(facts["measured_ns"] / facts["period_ns"])
    page.add(f"### {title}", "")
    page.add(f"{facts['blocks']} blocks of {len(facts['arms'])} arms in random order, {samples} packets each, "
             f"{facts['period_ns'] / 1e3:g} us apart; {found['cells']} cells, {len(found['discarded'])} of them do not count; "
             f"{seconds} s in all. Data: `study/{lab}/cells.csv`, `summary.json`, and the page as printed, `page.txt`.", "")
    generator = (found.get("paper") or {}).get("generator")
    if generator:
        when = "judged before all else" if generator["first"] else "judged by a baseline's stream"
        page.add(f"Generator ({when}): standard deviation {generator['sd_ns'] / 1e3:.2f} us, the paper's "
                 f"{generator['paper_sd_ns'] / 1e3:g} us; {100 * generator['within_1_us']:.2f} % of ΔT within 1 us of the period.", "")
    ranking(page, found)
    figures(page, found)
    targets(page, found, lab)
    for warning in found["warnings"]:
        page.add(f"- {warning}")
    page.add("")


def shown(metric, value):
    shares = ("off.5T", "lt.5T", "gt1.5T", "spikes")
    return f"{100 * value:.2f} %" if metric in shares else f"{value / 1e3:.2f} us"


def ranking(page, found):
    rows = []
    for place, effect in [*enumerate(found["ranking"], 1), *(("A/A", one) for one in found["controls"])]:
        ranked = effect["ranked"]
        interval, metric = ranked["interval"], ranked["metric"]
        told = f"{shown(metric, interval['low'])} to {shown(metric, interval['high'])}" if interval else "-"
        rows.append((place, effect["arm"], effect["class"] or "-", shown(metric, ranked["baseline"]),
                     shown(metric, ranked["arm"]), told, f"{effect['p_corrected']:.3f}", VERDICTS[effect["verdict"]]))
    metric = found["facts"]["rank_by"]
    page.table(("", "factor", "class", f"{metric} of the baseline", "with it", "difference, 95 %", "p, corrected", "verdict"), rows)


def figures(page, found):
    rows = []
    for figure in (found.get("paper") or {}).get("figures", []):
        here = figure["here"]
        if not here:
            rows.append((figure["figure"], figure["title"], "not possible: " + figure.get("reason", ""), *["-"] * 6, figure["saw"]))
            continue
        of, spikes = here["figures"], here["spikes_per_million"]
        own = figure.get("sender_spikes_per_million") or 0
        told = "-" if spikes is None else f"{spikes:.0f}" + (" (the sender's own)" if own and own * 2 > spikes else "")
        us = [f"{of[key] / 1e3:.2f}" for key in ("p10_ns", "p90_ns", "p99_ns")]
        rows.append((figure["figure"], figure["title"], f"{figure['status']}, {figure['layer']}",
                     f"{100 * of['below_half']:.1f} %", f"{100 * of['above_half']:.1f} %", *us, told, figure["saw"]))
    page.add("The paper's figures: ΔT of one cell each; spikes in a million that are as far above the period as the paper's.", "")
    page.table(("figure", "experiment", "here", "lt.5T", "gt1.5T", "p10 (us)", "p90 (us)", "p99 (us)", "spikes", "the paper saw"), rows)


def targets(page, found, lab):
    for control in found["controls"][:1]:
        told = shown(control["ranked"]["metric"], control["ranked"]["difference"])
        page.judge(null(lab), told, control["verdict"] not in ("worse", "better"))
    effects = {effect["arm"]: effect for effect in found["ranking"]}
    absent = [arm for arm in ARMS[lab] if arm not in effects]
    if absent:
        page.judge(throttled(lab), without(absent), None)
    else:
        leaders = [effect["arm"] for effect in found["ranking"]]
        itr = [arm for arm in leaders if arm.startswith("itr")]
        page.judge(throttled(lab), ", ".join(leaders), all(arm.startswith("itr") for arm in leaders[: len(itr)]))
    if {"itr", "itr-blocking"} <= effects.keys():
        polling, blocking = (effects[arm]["ranked"]["difference"] for arm in ("itr", "itr-blocking"))
        off = abs(polling - blocking) / max(polling, 1e-9)
        page.judge(blocked(lab), f"{100 * off:.1f} %", off <= 0.1)
    if lab == "netns":
        between_namespaces(page, found, effects)


def between_namespaces(page, found, effects):
    for figure in (found.get("paper") or {}).get("figures", []):
        if figure["figure"] == WOKEN and figure.get("beside") and figure["here"]:
            what, awake = figure["beside"]
            widths = [(one["p90_ns"] - one["p10_ns"]) / 1e3 for one in (figure["here"]["figures"], awake)]
            told = f"middle 80 % is {widths[0]:.2f} us wide; {what}: {widths[1]:.2f} us"
            page.judge(WAKING, told, widths[0] > widths[1])
    blocking = effects.get("blocking-no-idle-poll")
    if blocking:
        page.judge(BLOCKING, VERDICTS[blocking["verdict"]], blocking["verdict"] == "worse")


def osnoise(page, found):
    page.add("### Our attribution of noise beside the kernel's osnoise tracer", "",
             "A busy loop in a guest, watched by both at once; the kernel runs softirqs in threads, and so they are counted.", "")
    rows, off = [], []
    loops = {one["what"]: one for one in found["loops"]}
    absent = [what for what in LOOPS if what not in loops]
    for what, one in loops.items():
        for name in ("irq", "thread"):
            ours, kernels = one["ours"][name], one["kernels"][name]
            if max(ours["count"], kernels["count"]) > FEW:
                off += [abs(ours[field] - kernels[field]) / max(kernels[field], 1) for field in ("count", "net_ns")]
            elif name in LOOPS.get(what, ()):
                absent.append(f"{name} of the loop {what}")
            rows.append((what, name, ours["count"], kernels["count"], f"{ours['net_ns'] / 1e6:.3f}",
                         f"{kernels['net_ns'] / 1e6:.3f}"))
    page.table(("loop", "class", "ours", "osnoise", "our time (ms)", "osnoise's (ms)"), rows)
    if absent:
        page.judge(OSNOISE, without(absent), None)
    else:
        page.judge(OSNOISE, f"{100 * max(off):.1f} % at most", max(off) <= LIMIT_OSNOISE)
