//! Area, what goes beyond the paper, what was injected, and the paper's own slips.

use super::disturbed::called;
use super::{Rows, Section, number, spread};
use quaver_dvfs::power::AreaConfig;
use quaver_page::units::{count, percent};
use quaver_sim::paper::{Arm, DEADLINE_NS, PACKET_WORK_NS, PaperSummary, ProgramSummary, slips};

pub(super) fn sections(summary: &PaperSummary) -> Vec<Section> {
    let whole = summary.only.is_empty();
    let mut all = Vec::new();
    if whole {
        all.extend([area(), learning(summary), packets(summary)]);
    }
    all.push(injection(summary));
    if whole {
        all.push(paper_slips());
    }
    all
}

fn area() -> Section {
    let area = AreaConfig::default().area();
    let row = |what: &str, paper: &str, ours: String| vec![what.to_owned(), paper.to_owned(), ours];
    Section {
        id: "area",
        shows: &[],
        title: "Area (sections 6.4 and E.3)",
        lead: "From the paper's synthesis at 90 nm, by its own scaling: three generations, 43 % less area and 10 % less delay each; \
               the OS cache by its Cacti figure."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["what", "paper", "by its own numbers"],
            rows: vec![
                row("a unit at 32 nm, um2", "8550", format!("{:.0}", area.unit_um2)),
                row("its longest path, ps", "620", format!("{:.0}", area.unit_ps)),
                row("16 units, mm2", "0.136", format!("{:.4}", area.units_mm2)),
                row("16 OS caches, mm2", "3.9", format!("{:.1}", area.os_caches_mm2)),
                row("all of it, part of the die", "1 %", format!("{:.2} %", area.overhead_percent)),
            ],
        }],
    }
}

fn learning(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let cells = [Arm::Unified, Arm::UnifiedDvfs, Arm::UnifiedPredictive]
            .map(|arm| spread(one.arm(arm).and_then(|arm| arm.slow_down_percent)));
        let power = |arm: Arm| number(one.arm(arm).and_then(|arm| Some(arm.power_percent.first()?.mean)));
        let mut row = vec![called(one)];
        row.extend(cells);
        row.extend([power(Arm::UnifiedDvfs), power(Arm::UnifiedPredictive)]);
        row
    };
    Section {
        id: "learning",
        shows: &[],
        title: "Beyond the paper: a controller that learns",
        lead: "It gives back, besides what was lost, what the next subframe is expected to lose. Slow-down and power in percent."
            .to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["program", "no DVFS", "reacts", "learns", "power, reacts", "power, learns"],
            rows: summary.programs.iter().map(row).collect(),
        }],
    }
}

fn packets(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let mut row = vec![called(one), count(one.packets[0].packets)];
        for packets in one.packets {
            let missed = match packets.packets {
                0 => "-".to_owned(),
                all => percent(packets.missed as f64 / all as f64),
            };
            row.push(missed);
        }
        for packets in one.packets {
            row.push(if packets.packets > 0 { number(Some(packets.mean_slack_us)) } else { "-".to_owned() });
        }
        row
    };
    Section {
        id: "packets",
        shows: &[],
        title: "Beyond the paper: packets with a deadline",
        lead: format!(
            "The paper's example, WiMax: a packet in {} ms. Packets of {} ms of work that lose in each subframe what the threads \
             of these runs lost: how many are late, and what time is left on average (us).",
            DEADLINE_NS as f64 / 1e6,
            PACKET_WORK_NS as f64 / 1e6
        ),
        tables: vec![Rows {
            title: String::new(),
            columns: vec![
                "losses of",
                "packets",
                "late, at rest",
                "late, reacts",
                "late, learns",
                "left, at rest",
                "left, reacts",
                "left, learns",
            ],
            rows: summary.programs.iter().map(row).collect(),
        }],
    }
}

fn injection(summary: &PaperSummary) -> Section {
    let row = |one: &ProgramSummary| {
        let (how, knobs) = (&one.how, &one.how.knobs);
        vec![
            called(one),
            how.rounds.to_string(),
            format!("{:.2}", how.ideal_us / 1e3),
            count(how.instructions / 1_000_000),
            number(Some(how.occasions.waits_per_ms)),
            number(Some(how.occasions.locks_per_ms)),
            if how.fitted { "fitted" } else { "predicted" }.to_owned(),
            format!("{:.5}", knobs.probability),
            format!("{:.2}", knobs.together),
            number(Some(knobs.over_us)),
            number(Some(knobs.mean_us)),
            format!("{}", knobs.sigma),
        ]
    };
    let mut tables = vec![Rows {
        title: String::new(),
        columns: vec![
            "program",
            "rounds",
            "ms",
            "million instructions",
            "waits/ms",
            "locks/ms",
            "injection",
            "p",
            "together",
            "from us",
            "mean beyond us",
            "σ",
        ],
        rows: summary.programs.iter().map(row).collect(),
    }];
    let traced = |one: &ProgramSummary| {
        let how = &one.how;
        let again =
            how.only_once.as_ref().map_or_else(|| "in rounds".to_owned(), |why| format!("once: {why}"));
        vec![called(one), how.threads.to_string(), again, how.trace.clone()]
    };
    tables.push(Rows {
        title: "Traces".to_owned(),
        columns: vec!["program", "threads", "done", "trace"],
        rows: summary.programs.iter().map(traced).collect(),
    });
    if !summary.not_run.is_empty() {
        tables.push(Rows {
            title: "Not run".to_owned(),
            columns: vec!["program", "follows"],
            rows: summary.not_run.iter().map(|(name, why)| vec![name.clone(), why.clone()]).collect(),
        });
    }
    Section {
        id: "programs",
        shows: &[],
        title: "Programs, and what was injected",
        lead: format!(
            "What threads do together, from the first creation to the last join; what the first does alone before and after is left \
             out. That is done in so many rounds, with a barrier of all threads between two of them. Threads that draw work meet in \
             another order each time they are traced: the same figures come out again with the same traces (--traces RUN/traces). An \
             wait that somebody ends finds the kernel busy with probability p (signals 0.15 p, broadcasts 0.5 p, locks and unlocks p \
             over 1000 to the power of \"together\"); that takes at least the paper's threshold, and log-normally more. At this part \
             of the broadcasts it holds up all that are woken for the same time, or none. Kernel activity: {}. Fits: {}.",
            summary.kernel, summary.calibration
        ),
        tables,
    }
}

fn paper_slips() -> Section {
    let row = |slip: quaver_sim::paper::Slip| {
        let printed: Vec<String> =
            slip.printed.iter().map(|(place, says)| format!("{place}: {says}")).collect();
        vec![slip.what.to_owned(), printed.join("; "), slip.follows.unwrap_or_else(|| "-".to_owned())]
    };
    Section {
        id: "slips",
        shows: &[],
        title: "Where the paper says two things",
        lead: "Both are printed; what follows from its other numbers stands beside.".to_owned(),
        tables: vec![Rows {
            title: String::new(),
            columns: vec!["what", "the paper", "follows"],
            rows: slips().into_iter().map(row).collect(),
        }],
    }
}
