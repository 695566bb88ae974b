use super::*;
use quaver_study_analysis::{
    Arm, Cell as Measured, LayerFigures, PaperArm, PaperBeside, PaperReport, Possible, Role, SourceClass,
    StampTable, StudyFacts, paper_report, summarize,
};
use quaver_view::{plain, write_html, write_terminal};

const PERIOD_NS: f64 = 7_410.0;

/// ΔT of which every `one_in`-th packet comes late and the next one right after it.
fn deltas(one_in: usize, shift: i64) -> Vec<i64> {
    let of = |at: usize| match at % one_in {
        0 => 7_410 + 7_000,
        1 => 7_410 - 7_000,
        more => 7_410 + (more as i64 * 37 + shift) % 400 - 200,
    };
    (0..4_000).map(of).collect()
}

/// A study of three factors with a known effect each.
fn summary() -> StudySummary {
    let arm =
        |id: &str, words: &str, role| Arm { id: id.into(), words: words.into(), role, boot: Vec::new() };
    let of = ["throttled".to_owned(), "blocking".to_owned()];
    let arms = vec![
        arm("baseline", "receive poll", Role::Baseline),
        arm("control (A/A)", "the baseline again", Role::Control),
        arm("throttled", "NAPI deferred by 100us", Role::Factor { class: SourceClass::Hardware }),
        arm("blocking", "receive block", Role::Factor { class: SourceClass::NetworkStack }),
        arm("<b>neighbour", "busy neighbour on", Role::Factor { class: SourceClass::NetworkIndependent }),
        arm("throttled+blocking", "both", Role::Pair { of, chosen: false }),
    ];
    let rates = [100, 100, 4, 8, 99, 4];
    let facts = StudyFacts {
        arms,
        blocks: 7,
        further_blocks: 0,
        seed: 1,
        period_ns: PERIOD_NS,
        spike_ns: 50_000,
        rank_by: Metric::OffHalf,
        measured_ns: 1_000_000_000,
        warm_up_ns: 300_000_000,
    };
    let cell = |block: u32, at: usize| {
        let mut application = deltas(rates[at] + block as usize % 2, i64::from(block));
        let mut stack = deltas(1_000, i64::from(block));
        let layer = |layer, deltas: &mut Vec<i64>| LayerFigures::of(layer, deltas, PERIOD_NS, 50_000);
        let layers = [layer(StudyLayer::Stack, &mut stack), layer(StudyLayer::Application, &mut application)];
        Measured {
            block,
            position: (at as u32 + block) % 6,
            arm: facts.arms[at].id.clone(),
            discarded: (block == 6 && at == 4).then(|| "the sender was off its CPU".to_owned()),
            layers: layers.into_iter().flatten().collect(),
            sender: None,
            sent: 4_001,
            received: 4_001,
            slots_missed: 0,
            sink_involuntary: 1,
            source_involuntary: 2,
            tier: "user".to_owned(),
            boot: Vec::new(),
            notes: Vec::new(),
        }
    };
    let cells: Vec<Measured> =
        (0..7).flat_map(|block| (0..6).map(move |at| (block, at))).map(|(b, a)| cell(b, a)).collect();
    summarize(&facts, &cells)
}

/// Five experiments, one of them not possible.
fn report() -> PaperReport {
    let count = 5_000i64;
    let sent: Vec<i64> = (0..count).map(|at| 9_000 + at * 7_410 + at % 3 * 50).collect();
    let on = |extra: i64| sent.iter().map(|ns| ns + extra).collect::<Vec<i64>>();
    let held = |at: i64| if at % 50 == 7 { 9_000 } else { 0 };
    let table = StampTable {
        key: (0..count as u64).collect(),
        isr_ns: vec![0; count as usize],
        softirq_ns: on(300),
        stack_ns: on(400),
        queued_ns: on(500),
        application_ns: sent.iter().zip(0..).map(|(ns, at)| ns + 900 + held(at)).collect(),
        path: (0..count).map(|at| if held(at) > 0 { 4 } else { 0 }).collect(),
        sent_ns: sent,
    };
    let arm = |id: &str, arm: Option<&str>, possible| PaperArm {
        id: id.to_owned(),
        arm: arm.map(str::to_owned),
        possible,
    };
    let planned = [
        arm("generator", Some("baseline"), Possible::Measured),
        arm("dummy", None, Possible::Measured),
        arm("baseline", Some("baseline"), Possible::Measured),
        arm("blocking", Some("blocking"), Possible::Emulated("<i>a spinner".to_owned())),
        arm("intrl", None, Possible::NotHere("no such <b>NIC".to_owned())),
    ];
    let beside = PaperBeside { dummy: Some(&table), ..PaperBeside::default() };
    paper_report(&planned, 7_410.0, beside, |_| Some(table.clone()))
}

fn shown_of(summary: &StudySummary) -> Document {
    let run = RunFacts { name: "study-x".to_owned(), ..RunFacts::default() };
    Document { report_path: Some("r.html".to_owned()), ..document(&StudyInput { summary, run: &run }) }
}

fn html(document: &Document) -> String {
    let mut out = Vec::new();
    write_html(&mut out, document).unwrap();
    String::from_utf8(out).unwrap()
}

/// The same words wherever lines end.
fn flat(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_ranks_and_groups() {
    let summary = summary();
    let document = shown_of(&summary);
    let text = flat(&plain(&document));
    assert_eq!(summary.ranking[0].arm, "throttled");
    for wanted in [
        "Largest effect: throttled, +",
        "hardware: 1. throttled",
        "network stack: 2. blocking",
        "sub-additive: one masks the other",
        "7 blocks of 6 arms in random order (seed 1)",
        "42 cells measured, 42 planned",
        "control (A/A)",
        "r.html",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    for width in [80, 120] {
        let mut out = Vec::new();
        write_terminal(&mut out, &document, quaver_view::Style { width, ..quaver_view::Style::PLAIN })
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn the_papers_figures_stand_beside_ours_and_what_is_missing_has_its_reason() {
    let mut summary = summary();
    summary.paper = Some(Box::new(report()));
    summary.probe_cost = Some(ProbeCost { per_packet_ns: 741.0, interval_ns: (700.0, 800.0), blocks: 8 });
    let document = shown_of(&summary);
    let text = flat(&plain(&document));
    for wanted in [
        "ΔT at the stack",
        "3: the generator",
        "lt.5T 0 %, gt1.5T 0 %, p10 ",
        "sd (as in figure 3) 70.7 ns",
        "standard deviation 70.7 ns",
        "not possible here: no such <b>NIC",
        "emulated: <i>a spinner",
        "- around 7.46 µs",
        "timer interrupt on the sink's CPU",
        "Figure 9 of the paper",
        "Tracing adds +741 ns per packet",
        "10.0 % of the period",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    assert!(text.find("Generator") < text.find("Ranking"), "the generator is judged first");
    let page = html(&document);
    let drawn = summary.paper.as_ref().unwrap().figures.iter().filter(|one| one.here.is_some()).count();
    let charts = |words: &str| {
        document
            .sections
            .iter()
            .flat_map(|section| &section.blocks)
            .map(|block| match block {
                Block::Charts(group) => group
                    .charts
                    .iter()
                    .filter(|chart| chart.id.ends_with(words) && chart.id.starts_with("figure-"))
                    .count(),
                _ => 0,
            })
            .sum::<usize>()
    };
    assert_eq!((drawn, charts("-time"), charts("-histogram")), (5, 5, 5));
    assert!(page.contains("no such &lt;b&gt;NIC") && !page.contains("<i>a spinner"));
    assert!(page.contains("All paths") && page.contains("its captions call (a)"));
}

#[test]
fn every_arm_is_drawn_at_every_layer_and_names_are_escaped() {
    let page = html(&shown_of(&summary()));
    for wanted in [
        "id=\"application\"",
        "id=\"stack\"",
        "id=\"all\"",
        "id=\"senders\"",
        "Discarded cells",
        "&lt;b&gt;neighbour",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains("<b>neighbour") && page.len() < 1 << 21, "{}", page.len());
    for layer in ["stack", "application"] {
        let charts =
            shown_of(&summary()).sections.into_iter().find(|section| section.id == layer).unwrap().blocks;
        let Some(Block::Charts(group)) = charts.last() else { panic!("{layer}") };
        assert_eq!(group.charts.len(), 12, "two of each of six arms");
    }
}

#[test]
fn differences_have_signs_and_units() {
    assert_eq!(difference(Metric::OffHalf, 0.4567).to_string(), "+45.67 pp");
    assert_eq!(difference(Metric::P99, -1_234.0).to_string(), "-1.23 µs");
    assert_eq!([0.0039, 0.0001, 1.0].map(|p| p_value(p).to_string()), ["0.004", "< 0.001", "1.000"]);
}
