//! Area, what goes beyond the paper, what was injected, and the paper's contradictions.

use super::{Exhibit, called, microseconds, number, percent, spread, units};
use quaver_dvfs::power::AreaConfig;
use quaver_sim::cure::{BoostConfig, BoostRule};
use quaver_sim::paper::{Arm, DEADLINE_NS, PACKET_WORK_NS, PaperSummary, slips};
use quaver_view::{Block, Cell, Column, Section, Table, Text, text};

pub(super) fn exhibits(summary: &PaperSummary) -> Vec<Exhibit> {
    let whole = summary.only.is_empty();
    let mut all = Vec::new();
    if whole {
        all.extend([area(), predictive(summary), packets(summary)]);
    }
    all.push(injection(summary));
    if whole {
        all.push(contradictions());
    }
    let budget: Exhibit = (&["budget"], budget(summary));
    [budget].into_iter().chain(all.into_iter().map(|section| (&[][..], section))).collect()
}

fn area() -> Section {
    let area = AreaConfig::default().area();
    let mut table = Table::new(["what", "paper", "from its own numbers"]);
    let mut row = |what: &str, paper: Cell, value: f64, digits: u8| {
        table.row([what.into(), paper, Cell::Number { value, digits }]);
    };
    let paper = |value: f64, digits: u8| Cell::Number { value, digits };
    row("a unit at 32 nm, µm²", paper(8550.0, 0), area.unit_um2, 0);
    row("critical path of a unit, ps", paper(620.0, 0), area.unit_ps, 0);
    row("16 units, mm²", paper(0.136, 3), area.units_mm2, 4);
    row("16 OS caches, mm²", paper(3.9, 1), area.os_caches_mm2, 1);
    table.row(["all, share of the die".into(), percent(Some(1.0)), percent(Some(area.overhead_percent))]);
    Section::new("area", "Area (sections 6.4 and E.3)")
        .link("Area")
        .note(
            "From the paper's synthesis at 90 nm, by its own scaling: three generations, 43 % less area and 10 % less delay each; \
             the OS cache by its Cacti figure.",
        )
        .with(table)
}

fn predictive(summary: &PaperSummary) -> Section {
    let mut table =
        Table::new(["program", "no DVFS", "reactive", "predictive", "power, reactive", "power, predictive"]);
    for one in &summary.programs {
        let slow_downs = [Arm::Unified, Arm::UnifiedDvfs, Arm::UnifiedPredictive]
            .map(|arm| spread(one.arm(arm).and_then(|arm| arm.slow_down_percent)));
        let power = [Arm::UnifiedDvfs, Arm::UnifiedPredictive]
            .map(|arm| number(one.arm(arm).and_then(|arm| Some(arm.power_percent.first()?.mean))));
        table.row([called(one)].into_iter().chain(slow_downs).chain(power));
    }
    Section::new("learning", "Beyond the paper: predictive controller")
        .link("Predictive controller")
        .note("It also recovers the expected loss of the next subframe. Slow-down and additional power, percent.")
        .with(table)
}

/// Debt beside rules that know none, under one budget.
fn budget(summary: &PaperSummary) -> Section {
    const ARMS: [(Arm, [&str; 2]); 4] = [
        (Arm::BoostDebt, ["debt", "power, debt"]),
        (Arm::BoostSync, ["Booster's SYNC", "power, SYNC"]),
        (Arm::BoostStack, ["criticality stacks", "power, stacks"]),
        (Arm::BoostStalls, ["stalls", "power, stalls"]),
    ];
    let power = ARMS.map(|(_, [_, head])| Column::new(head).html_only());
    let heads = ["program", "no DVFS"].into_iter().chain(ARMS.map(|(_, [head, _])| head)).map(Column::from);
    let mut table = Table::new(heads.chain(power));
    for one in &summary.programs {
        let slow_down = |arm| spread(one.arm(arm).and_then(|arm| arm.slow_down_percent));
        let power = |arm| number(one.arm(arm).and_then(|arm| Some(arm.power_percent.first()?.mean)));
        let cells = ARMS.map(|(arm, _)| slow_down(arm)).into_iter().chain(ARMS.map(|(arm, _)| power(arm)));
        table.row([called(one), slow_down(Arm::Unified)].into_iter().chain(cells));
    }
    Section::new("budget", "Beyond the paper: one power budget")
        .link("Power budget")
        .note(text!(
            "Cores have two supplies, rest and 1.2 of it, and change without a PLL or a ramp. At most {} cores are on the upper one at \
             a time. Debt chooses threads that lost time. The others also run faster where nothing was lost: Booster's SYNC (HPCA \
             2012), criticality stacks (ISCA 2013), stalls since the last barrier (ISCA 2009). Slow-down over the run without jitter \
             and additional power, percent.",
            BoostConfig::new(BoostRule::Debt).cores
        ))
        .with(table)
}

fn packets(summary: &PaperSummary) -> Section {
    let mut table = Table::new([
        "losses of",
        "packets",
        "late: f0",
        "reactive",
        "predictive",
        "slack: f0",
        "reactive",
        "predictive",
    ]);
    for one in &summary.programs {
        let late = one.packets.map(|of| Cell::part(of.missed, of.packets));
        let slack = one.packets.map(|of| microseconds(Some(of.mean_slack_us)).only_if(of.packets > 0));
        let packets = Cell::Count(one.packets[0].packets);
        table.row([called(one), packets].into_iter().chain(late).chain(slack));
    }
    Section::new("packets", "Beyond the paper: packets with a deadline")
        .link("Deadlines")
        .note(text!(
            "The paper's example, WiMAX: a packet in {}. Packets of {} of work that lose in each subframe what the threads of \
             these runs lost: how many are late, and the mean slack.",
            Cell::Duration(DEADLINE_NS as i64),
            Cell::Duration(PACKET_WORK_NS as i64)
        ))
        .with(table)
}

fn injection(summary: &PaperSummary) -> Section {
    let page_only = |heading| Column::new(heading).html_only();
    let mut table = Table::new([
        "program".into(),
        "rounds".into(),
        "time".into(),
        page_only("million instructions"),
        page_only("waits per ms"),
        page_only("locks per ms"),
        "injection".into(),
        "p".into(),
        "together".into(),
        "from".into(),
        "mean beyond".into(),
        Column::from("σ"),
    ]);
    let mut traces = Table::new(["program", "threads", "runs", "trace"]).title("Traces");
    for one in &summary.programs {
        let (how, knobs) = (&one.how, &one.how.knobs);
        table.row([
            called(one),
            Cell::Count(how.rounds.into()),
            microseconds(Some(how.ideal_us)),
            Cell::Count(how.instructions / 1_000_000),
            number(Some(how.occasions.waits_per_ms)),
            number(Some(how.occasions.locks_per_ms)),
            if how.fitted { "fitted" } else { "predicted" }.into(),
            Cell::Number { value: knobs.probability, digits: 5 },
            Cell::Number { value: knobs.together, digits: 2 },
            microseconds(Some(knobs.over_us)),
            microseconds(Some(knobs.mean_us)),
            Cell::Figure(knobs.sigma),
        ]);
        let again = how.only_once.as_ref().map_or_else(|| "in rounds".into(), |why| text!("once: {why}"));
        traces.row([called(one), Cell::Count(how.threads as u64), again.into(), how.trace.as_str().into()]);
    }
    let mut section = Section::new("programs", "Programs and injected jitter")
        .link("Injection")
        .note(text!("Kernel activity: {}. Fits: {}.", summary.kernel, summary.calibration))
        .with(Block::List(HOW.map(Text::from).to_vec()))
        .with(table)
        .with(traces);
    if !summary.not_run.is_empty() {
        let mut table = Table::new(["program", "why"]).title("Not run");
        summary.not_run.iter().for_each(|(name, why)| {
            table.row([name.as_str(), why.as_str()]);
        });
        section.push(table);
    }
    section
}

/// How programs are run and jitter is injected.
const HOW: [&str; 4] = [
    "Simulated is the part that threads share, from the first creation to the last join, in rounds separated by a barrier.",
    "Programs whose threads draw work differ when traced again; --traces RUN/traces reproduces the figures.",
    "An ended wait finds the kernel busy with probability p (signals 0.15 p, broadcasts 0.5 p, locks and unlocks p / \
     1000^together).",
    "The delay is the paper's threshold plus a log-normal excess; at the share \"together\" of broadcasts all woken threads \
     get the same delay, or none.",
];

fn contradictions() -> Section {
    let mut table = Table::new(["what", "paper", "follows"]);
    for slip in slips() {
        let printed: Vec<String> =
            slip.printed.iter().map(|(place, says)| format!("{place}: {says}")).collect();
        let follows = slip.follows.map(|follows| Cell::from(units(&follows)));
        table.row([Cell::from(units(slip.what)), units(&printed.join("; ")).into(), follows.into()]);
    }
    Section::new("slips", "Contradictions in the paper")
        .link("Contradictions")
        .note("Both values, with what follows from its other numbers.")
        .with(table)
}
