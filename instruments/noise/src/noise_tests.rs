use super::*;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{NoiseOptions, analyze_noise};
use quaver_analysis::model::{Actor, Circumstances, NoiseLoop};
use quaver_analysis::paced;
use quaver_page::console::WIDTH;
use quaver_page::fixture;
use quaver_page::table::width;

const HOSTILE: &str = "</script>\u{1b}[2J<b>x";

/// A second on two CPUs: an interrupt's gap on one, one that nothing explains on the other.
fn measured() -> NoiseRun {
    let one = |cpu: u16, thread: u32| NoiseLoop {
        cpu,
        actor: Actor { threads: vec![thread], cpu: Some(cpu), ..Actor::default() },
        start_ns: 1_000,
        end_ns: 1_000_001_000,
        turns: 31_821_824,
        shortest_ns: Some(20),
    };
    let mut run = NoiseRun {
        threshold_ns: 1_000,
        loops: vec![one(1, 7), one(3, 8)],
        gaps: GapTable {
            index: vec![10, 10],
            before_ns: vec![250_001_000, 500_001_000],
            after_ns: vec![250_021_000, 500_008_000],
            cpu: vec![1, 3],
        },
        events: vec![EventRecord {
            start_ns: 250_002_000,
            end_ns: 250_020_000,
            id: 41,
            cpu: 1,
            kind: EventKind::Irq as u8,
            ..EventRecord::default()
        }],
        circumstances: Circumstances {
            virtual_machine: true,
            traced_cpus: vec![1, 3],
            ..Circumstances::default()
        },
        ..NoiseRun::default()
    };
    run.names.irq = [(41, HOSTILE.to_owned())].into();
    run
}

struct Case {
    measured: NoiseRun,
    analysis: NoiseAnalysis,
    facts: RunFacts,
    stamps: Option<GapTable>,
}

impl Case {
    fn of(measured: NoiseRun) -> Self {
        let mut analysis = analyze_noise(&measured, &NoiseOptions::default());
        analysis.summary.tier = "bpf".into();
        analysis.summary.warnings.push(HOSTILE.into());
        Self { measured, analysis, facts: fixture::facts(), stamps: None }
    }

    fn input(&self) -> NoiseInput<'_> {
        NoiseInput {
            analysis: &self.analysis,
            run: &self.facts,
            measured: &self.measured,
            stamps: self.stamps.as_ref(),
            report_path: Some("runs/noise-x/report.html"),
        }
    }

    fn page(&self) -> String {
        page(&self.input(), Style::PLAIN)
    }

    fn html(&self) -> String {
        let mut out = Vec::new();
        crate::html::write_html(&mut out, &self.input()).unwrap();
        String::from_utf8(out).unwrap()
    }
}

#[test]
fn page_names_causes_with_their_times_and_counts_classes() {
    let page = Case::of(measured()).page();
    for line in page.lines() {
        assert!(width(line) <= WIDTH, "{} wide: {line}", width(line));
    }
    assert!(!page.contains('\u{1b}'));
    let has = |words: &[&str]| page.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["1", "irq 41", "0.250000 s"]), "{page}");
    assert!(has(&["?", "unexplained", "0.500000 s"]), "turn 10 is that of CPU 3 here: {page}");
    assert!(has(&["3", "hypervisor or hardware", "1", "7.00 us"]), "{page}");
    assert!(has(&["1", "31,821,824", "20 ns", "1.00", "20.0 us"]), "{page}");
}

#[test]
fn page_of_a_quiet_run_says_so() {
    let mut run = measured();
    run.gaps = GapTable::default();
    run.events.clear();
    let case = Case::of(run);
    let page = case.page();
    assert!(page.contains("Nothing: nobody kept the loops from running for 1.00 us or more."), "{page}");
    assert!(!page.contains("What ran on these CPUs"), "nothing was recorded, so nothing is counted: {page}");
    assert!(!case.html().contains("id=\"time-plot\""));
}

#[test]
fn dummy_program_is_shown_beside_the_paper() {
    let mut run = measured();
    let stamps = std::mem::take(&mut run.gaps);
    run.period_ns = Some(7_410.0);
    let dummy = paced::summarize(&stamps, 7_410.0, 1_000);
    run.gaps = paced::stops(&stamps, 1_000);
    let mut case = Case::of(run);
    case.analysis.summary.dummy = Some(dummy);
    case.stamps = Some(stamps);
    let page = case.page();
    assert!(page.contains("2 of 2 stamps (100 %) came 1.00 us or more after their deadline."), "{page}");
    let paper = page.lines().find(|line| line.contains("in the paper")).expect("a line for the paper");
    assert!(paper.contains("1,000,000") && paper.contains("4.00") && paper.contains("15.0 us"), "{paper}");
    assert!(case.html().contains("Beside the paper"));
}

#[test]
fn report_asks_for_nothing_and_hostile_names_stay_text() {
    let html = Case::of(measured()).html();
    assert!(html.contains("default-src 'none'") && !html.contains("src=\"http"));
    assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
    assert!(!html.contains("<b>x") && html.contains("&lt;b&gt;x"));
    let from = html.find("id=\"data\">").expect("the page has data") + 10;
    let to = from + html[from..].find("</script>").expect("the data ends");
    let data: serde_json::Value = serde_json::from_str(&html[from..to]).unwrap();
    assert_eq!((&data["late"], &data["layers"][1]["name"]), (&2.into(), &"CPU 3".into()));
    assert_eq!(data["layers"][0]["bins"][0][1], 1);
}
