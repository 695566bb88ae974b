"""The part of a bench page on studies."""

import json

LABS = (("netns", "Between two network namespaces"), ("qemu", "In a guest of QEMU, in virtual time"))
LIMIT_OSNOISE = 0.05
VERDICTS = {
    "worse": "worse",
    "better": "better",
    "no-difference": "no difference found",
    "too-few-blocks": "too few blocks to tell",
    "sender": "not concluded: the sender is off by more",
}


def study(page, directory):
    page.add("## The paper's matrix: `quaver study paper`", "")
    for lab, title in LABS:
        place = directory / lab
        if (place / "summary.json").exists():
            one_lab(page, place, lab, title)
        elif (place / "failed.txt").exists():
            page.add(f"### {title}", "", (place / "failed.txt").read_text().strip(), "")
    if (directory / "no-qemu.txt").exists():
        page.add("There was no QEMU lab on this machine.", "")
    noise = directory / "osnoise.json"
    if noise.exists() and noise.stat().st_size:
        osnoise(page, json.loads(noise.read_text()))


def one_lab(page, directory, lab, title):
    found = json.loads((directory / "summary.json").read_text())
    seconds = (directory / "seconds.txt").read_text().strip() if (directory / "seconds.txt").exists() else "?"
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
    effects = {effect["arm"]: effect for effect in found["ranking"]}
    differences = {arm: effect["ranked"]["difference"] for arm, effect in effects.items()}
    control = found["controls"][0] if found["controls"] else None
    if control:
        null = control["verdict"] not in ("worse", "better")
        told = shown(control["ranked"]["metric"], control["ranked"]["difference"])
        page.target(f"{lab}: the baseline against itself comes out null", "no difference", told, null)
    leaders = [effect["arm"] for effect in found["ranking"]]
    throttled = [arm for arm in leaders if arm.startswith("itr")]
    if throttled:
        first = all(arm.startswith("itr") for arm in leaders[: len(throttled)])
        page.target(f"{lab}: interrupt throttling costs most (figure 11)", "first in the ranking", ", ".join(leaders), first)
    if {"itr", "itr-blocking"} <= differences.keys():
        off = abs(differences["itr"] - differences["itr-blocking"]) / max(differences["itr"], 1e-9)
        page.target(f"{lab}: with throttling, blocking changes nothing", "within 10 %", f"{100 * off:.1f} %", off <= 0.1)
    for figure in (found.get("paper") or {}).get("figures", []):
        if figure.get("beside") and figure["here"]:
            what, awake = figure["beside"]
            widths = [(one["p90_ns"] - one["p10_ns"]) / 1e3 for one in (figure["here"]["figures"], awake)]
            told = f"middle 80 % is {widths[0]:.2f} us wide; {what}: {widths[1]:.2f} us"
            page.target(f"{lab}: waking an idle core widens ΔT (figure {figure['figure']})", "wider than kept awake", told,
                        widths[0] > widths[1])
    blocking = effects.get("blocking-no-idle-poll")
    if blocking and lab == "netns":
        page.target(f"{lab}: blocking without idle=poll is worse than polling", "worse", VERDICTS[blocking["verdict"]],
                    blocking["verdict"] == "worse")


def osnoise(page, found):
    page.add("### Our attribution of noise beside the kernel's osnoise tracer", "",
             "A busy loop in a guest, watched by both at once; the kernel runs softirqs in threads, and so they are counted.", "")
    rows, worst = [], 0.0
    for one in found["loops"]:
        for name in ("irq", "thread"):
            ours, kernels = one["ours"][name], one["kernels"][name]
            for field in ("count", "net_ns"):
                if kernels["count"] > 20:
                    worst = max(worst, abs(ours[field] - kernels[field]) / kernels[field])
            rows.append((one["what"], name, ours["count"], kernels["count"], f"{ours['net_ns'] / 1e6:.3f}",
                         f"{kernels['net_ns'] / 1e6:.3f}"))
    page.table(("loop", "class", "ours", "osnoise", "our time (ms)", "osnoise's (ms)"), rows)
    page.target("Attribution agrees with osnoise, per class", "within 5 %", f"{100 * worst:.1f} % at most", worst <= LIMIT_OSNOISE)
