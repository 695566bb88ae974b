use super::*;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{NoiseOptions, analyze_noise};
use quaver_analysis::model::{Actor, Circumstances, NoiseLoop};
use quaver_analysis::paced;
use quaver_view::{Style, plain, write_terminal};

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

fn facts() -> RunFacts {
    RunFacts {
        name: "noise-20261120T165800Z-7f3a".into(),
        verb: "noise".into(),
        host: "Linux 6.18.5, 2 CPUs, virtual machine (KVM)".into(),
        stream: "tight loop".into(),
        ..RunFacts::default()
    }
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
        Self { measured, analysis, facts: facts(), stamps: None }
    }

    fn input(&self) -> NoiseInput<'_> {
        NoiseInput {
            analysis: &self.analysis,
            run: &self.facts,
            measured: &self.measured,
            stamps: self.stamps.as_ref(),
        }
    }

    fn page(&self) -> String {
        plain(&document(&self.input()))
    }

    fn html(&self) -> String {
        let mut out = Vec::new();
        quaver_view::write_html(&mut out, &document(&self.input())).unwrap();
        String::from_utf8(out).unwrap()
    }
}

#[test]
fn page_names_causes_with_their_times_and_counts_classes() {
    let page = Case::of(measured()).page();
    assert_eq!(page, GOLDEN);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 57, 80, 120, 200] {
        let style = Style { width, ..Style::PLAIN };
        let mut out = Vec::new();
        write_terminal(&mut out, &document(&Case::of(measured()).input()), style).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.lines().all(|line| line.chars().count() <= width), "{page}");
        assert!(!page.contains('\u{1b}'));
    }
}

#[test]
fn page_of_a_quiet_run_says_so() {
    let mut run = measured();
    run.gaps = GapTable::default();
    run.events.clear();
    let case = Case::of(run);
    let page = case.page();
    assert!(
        page.contains("  No gap of 1.00 µs or more.\n")
            && page.contains("  None: no gap of 1.00 µs or more.\n"),
        "{page}"
    );
    assert!(!page.contains("Activity on these CPUs"), "nothing was recorded, so nothing is counted: {page}");
    assert!(!case.html().contains("time-plot"));
}

#[test]
fn loops_that_never_ran_get_no_verdict() {
    let mut run = measured();
    run.gaps = GapTable::default();
    run.loops.iter_mut().for_each(|one| one.end_ns = one.start_ns);
    assert_eq!(document(&Case::of(run).input()).verdict, None);
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
    assert!(page.contains("2 of 2 stamps (100 %) were at least 1.00 µs late."), "{page}");
    let paper =
        page.lines().find(|line| line.trim_start().starts_with("paper ")).expect("a line for the paper");
    assert!(
        paper.contains("1,000,000") && paper.contains("4.00") && paper.contains("about 15.0 µs"),
        "{paper}"
    );
    assert!(page.contains("Causes of late stamps") && page.contains("min lateness"), "{page}");
    assert!(case.html().contains("Compared with the paper"));
}

#[test]
fn report_asks_for_nothing_and_hostile_names_stay_text() {
    let html = Case::of(measured()).html();
    assert!(html.contains("default-src 'none'") && !html.contains("src=\"http"));
    assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
    assert!(!html.contains("<b>x") && html.contains("&lt;b&gt;x"));
}

#[test]
fn drawings_hold_each_gap_under_its_cause_and_its_cpu() {
    let case = Case::of(measured());
    let document = document(&case.input());
    let plots: Vec<&quaver_view::Plot> = document
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .filter_map(|block| if let Block::Chart(chart) = block { Some(&chart.plot) } else { None })
        .collect();
    let [quaver_view::Plot::Xy(time), quaver_view::Plot::Distribution(lengths)] = plots[..] else {
        panic!("{plots:?}");
    };
    let names: Vec<&str> = time.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, [case.analysis.summary.causes[0].name.as_str(), "unexplained"]);
    let quaver_view::Data::Points { x, y } = &time.series[0].data else { panic!("{time:?}") };
    assert_eq!((x.to_vec(), y.to_vec()), (vec![250_000_000.0], vec![20_000.0]));
    assert_eq!(lengths.series[1].name, "CPU 3");
    assert_eq!((lengths.series[1].counts[0], lengths.series[1].counts.iter().sum::<f64>()), (1.0, 1.0));
}

const GOLDEN: &str = "\
quaver noise · noise-20261120T165800Z-7f3a
  host      Linux 6.18.5, 2 CPUs, virtual machine (KVM)
  loop      tight loop · CPUs 1, 3 · for 1.00 s
  tracing   bpf

  The loops did not run for < 0.01 % of the time. Largest cause: irq 41 </script>�[2J<b>x, 74.1 % of
  the noise.

Noise by CPU  time in which the loop did not run: iterations of at least 1.00 µs
  CPU  iterations  shortest iteration  gaps    noise     share  largest
    1  31,821,824               20 ns     1  20.0 µs  < 0.01 %  20.0 µs
    3  31,821,824               20 ns     1  7.00 µs  < 0.01 %  7.00 µs

Causes of noise  by share; each gap counts for its largest cause; example: time after the start
  Of the noise, 66.7 % is certain, 7.4 % inferred and 25.9 % unknown.
  #   share     time  gaps    worst     example  source
  1  74.1 %  20.0 µs     1  20.0 µs  0.250000 s  irq 41 </script>�[2J<b>x
       [dev-irq] once: 18.0 µs inside, 2.00 µs entry and exit
       now:  /proc/irq/<n>/smp_affinity_list away from <cpu>
       boot: irqaffinity=
  ?  25.9 %  7.00 µs     1  7.00 µs  0.500000 s  unexplained
       hypervisor or hardware, or work of the receiver itself

Activity on these CPUs  every entry, however short, as the osnoise tracer counts
  CPU  class                   entries  per second     time     mean  longest
    1  hypervisor or hardware        0           -        -        -        -
       NMI                           0           -        -        -        -
       interrupts                    1        1.00  18.0 µs  18.0 µs  18.0 µs
       softirqs                      0           -        -        -        -
       other threads                 0           -        -        -        -
    3  hypervisor or hardware        1        1.00  7.00 µs  7.00 µs  7.00 µs
       NMI                           0           -        -        -        -
       interrupts                    0           -        -        -        -
       softirqs                      0           -        -        -        -
       other threads                 0           -        -        -        -
  time is net: NMIs are subtracted from interrupts, these from softirqs, these from threads

Warnings
  ! </script>�[2J<b>x
";
