//! Causes of an analysis as a document shows them.

use quaver_analysis::catalogue;
use quaver_analysis::summary::{CauseSummary, Remedy, SourceClass, ThreadTime, Unexplained};
use quaver_view::{self as view, Cause, Causes, Cell, Text, text};
use std::iter;

/// Causes below this share are counted together on the terminal, unless there are only a few.
const SHARE_SHOWN: f64 = 0.001;

/// Causes that the terminal shows one by one, whatever their share.
const LEAST_SHOWN: usize = 3;

/// Most causes that the terminal shows one by one.
const MOST_SHOWN: usize = 12;

/// Functions of a cause that are shown.
const FUNCTIONS_SHOWN: usize = 4;

/// Causes in rank order, each with its remedies, and the time that no event explains. `counted` names what a cause leads
/// (`late packets`); `example` shows one of these, given the rank from zero of its cause (none: unexplained) and its
/// number.
pub fn ranked(
    causes: &[CauseSummary],
    unexplained: &Unexplained,
    counted: &str,
    example: impl Fn(Option<usize>, u64) -> Cell,
) -> Causes {
    let above = causes.iter().take_while(|cause| cause.share >= SHARE_SHOWN).count();
    let first = above.clamp(LEAST_SHOWN, MOST_SHOWN).min(causes.len());
    let rows = causes.iter().enumerate();
    let mut rows: Vec<Cause> =
        rows.map(|(at, cause)| row(cause, example(Some(at), cause.example_seq))).collect();
    tell_shared_remedies(causes, &mut rows);
    Causes {
        columns: ["time", counted, "worst", "example"].map(Into::into).into(),
        causes: rows,
        terminal_first: Some(first),
        smaller: smaller(&causes[first..]),
        unexplained: Some(Cause {
            name: "unexplained".into(),
            share: unexplained.share,
            figures: figures(
                (unexplained.time_ns, unexplained.packets, unexplained.worst_ns),
                unexplained.example_seq.map_or(Cell::Empty, |number| example(None, number)),
            ),
            details: Some(&unexplained.note)
                .filter(|note| !note.is_empty())
                .map(Text::from)
                .into_iter()
                .collect(),
            ..Cause::default()
        }),
    }
}

/// `Of the late time, 81.2 % is certain, 5.2 % inferred and 13.6 % unknown.` None where there is no time.
pub fn certainty(whole: &str, causes: &[CauseSummary], unexplained: &Unexplained) -> Option<Text> {
    let explained_ns: i64 = causes.iter().map(|cause| cause.time_ns).sum();
    let inferred_ns: i64 = causes.iter().map(CauseSummary::inferred_in_all_ns).sum();
    let all_ns = explained_ns + unexplained.time_ns;
    let part = |time_ns: i64| Cell::Share(time_ns as f64 / all_ns as f64);
    let certain_ns = explained_ns - inferred_ns;
    (all_ns > 0).then(|| {
        text!(
            "Of the {whole}, {} is certain, {} inferred and {} unknown.",
            part(certain_ns),
            part(inferred_ns),
            part(unexplained.time_ns)
        )
    })
}

/// Puts the measured CPUs into the remedies: as words where the catalogue has them between words, else as a list.
pub fn name_cpus(causes: &mut [CauseSummary], cpus: &str) {
    let words = format!(" CPU{} {cpus}", if cpus.contains(',') { "s" } else { "" });
    for remedy in causes.iter_mut().map(|cause| &mut cause.remedy) {
        for text in [&mut remedy.setting, &mut remedy.boot].into_iter().flatten() {
            *text = text.replace(" <cpu>", &words).replace("<cpu>", cpus);
        }
    }
}

/// The same where the receiver is bound to no CPU: a setting of one CPU helps it once it is.
pub fn name_no_cpu(causes: &mut [CauseSummary]) {
    for remedy in causes.iter_mut().map(|cause| &mut cause.remedy) {
        if let Some(setting) = &mut remedy.setting {
            *setting = setting.replace("<cpu>", "a CPU that the receiver is bound to (taskset -cp)");
        }
        if let Some(boot) = remedy.boot.as_mut().filter(|boot| boot.contains("<cpu>")) {
            *boot = format!("{}, with the CPU that the receiver is bound to", boot.replace("<cpu>", "CPU"));
        }
    }
}

/// A sentence of the catalogue, which speaks of a receiver of packets, said of something else that a CPU runs (`loop`).
pub fn said_of(measured: &str, sentence: &str) -> String {
    sentence.replace("receiver", measured)
}

/// Puts what was measured into the names and remedies of causes, and into the note on unexplained time, as [`said_of`].
pub fn speak_of(measured: &str, causes: &mut [CauseSummary], unexplained: &mut Unexplained) {
    let remedies = causes.iter_mut().flat_map(|cause| [&mut cause.remedy.setting, &mut cause.remedy.boot]);
    for text in remedies.flatten().chain([&mut unexplained.note]) {
        *text = said_of(measured, text);
    }
    // Behind that a name has names of threads, which others gave.
    for name in causes.iter_mut().map(|cause| &mut cause.name) {
        if let Some(rest) = name.strip_prefix("receiver ") {
            *name = format!("{measured} {rest}");
        }
    }
}

fn figures((time_ns, led, worst_ns): (i64, u64, i64), example: Cell) -> Vec<Cell> {
    vec![Cell::Duration(time_ns), Cell::Count(led), Cell::Duration(worst_ns), example]
}

fn row(cause: &CauseSummary, example: Cell) -> Cause {
    let mechanism = catalogue::source(&cause.source).map(|source| source.mechanism.as_str());
    let class = class_name(cause.class);
    Cause {
        name: cause.name.clone(),
        share: cause.share,
        inferred: cause.share * cause.inferred_in_all_ns() as f64 / cause.time_ns.max(1) as f64,
        figures: figures((cause.time_ns, cause.packets, cause.worst_ns), example),
        details: iter::once(text!("[{}] {}", cause.source, parts(cause)))
            .chain(threads(cause))
            .chain(functions(cause))
            .collect(),
        html_details: vec![
            mechanism.map_or_else(|| class.into(), |mechanism| text!("{mechanism} · {class}")),
        ],
        remedies: remedies(&cause.remedy),
    }
}

/// `rustc 61.0 %, opt cgu (24 threads) 30.2 %, 12 more`: what the threads of a process have of its time.
fn threads(cause: &CauseSummary) -> Option<Text> {
    /// Names that are told one by one.
    const TOLD: usize = 5;
    let all: i64 = cause.threads.iter().map(|thread| thread.time_ns).sum();
    let name = |thread: &ThreadTime| match thread.threads {
        1 => format!("{} {}", thread.name, Cell::part(thread.time_ns as u64, all as u64)),
        many => format!("{} ({many} threads) {}", thread.name, Cell::part(thread.time_ns as u64, all as u64)),
    };
    let mut names: Vec<String> = cause.threads.iter().take(TOLD).map(name).collect();
    let more: u64 = cause.threads.iter().skip(TOLD).map(|thread| thread.threads).sum();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| names.join(", ").into())
}

/// Tells at the first of several causes with one remedy what it takes away from all of them.
fn tell_shared_remedies(causes: &[CauseSummary], rows: &mut [Cause]) {
    for (at, cause) in causes.iter().enumerate() {
        let same = |other: &&CauseSummary| {
            other.remedy.setting.is_some() && other.remedy.setting == cause.remedy.setting
        };
        let share: f64 = causes.iter().filter(same).map(|other| other.share).sum();
        let others = causes[at + 1..].iter().filter(same).count();
        if others == 0 || causes[..at].iter().any(|before| same(&before)) {
            continue;
        }
        let others = Cell::several(others as u64, "more cause");
        let words = text!("one remedy for this and {others}: {} of the time", Cell::Share(share));
        rows[at].details.push(words);
    }
}

fn smaller(rest: &[CauseSummary]) -> Option<Cause> {
    (!rest.is_empty()).then(|| Cause {
        name: format!("{} (see the report)", Cell::several(rest.len() as u64, "smaller cause")),
        share: rest.iter().map(|cause| cause.share).sum(),
        figures: figures(
            (
                rest.iter().map(|cause| cause.time_ns).sum(),
                rest.iter().map(|cause| cause.packets).sum(),
                rest.iter().map(|cause| cause.worst_ns).max().unwrap_or(0),
            ),
            Cell::Empty,
        ),
        ..Cause::default()
    })
}

fn class_name(class: SourceClass) -> &'static str {
    match class {
        SourceClass::Hardware => "hardware or hypervisor",
        SourceClass::NetworkStack => "network stack",
        SourceClass::NetworkIndependent => "network-independent",
        SourceClass::Stream => "the sender",
        SourceClass::Tool => "this tool",
    }
}

/// `in samples: gc_collect_main 68 %, visit_decref 31 %; 1.20 ms inferred: no sample or record shows it`.
fn functions(cause: &CauseSummary) -> Option<Text> {
    let shown = cause.functions.iter().take(FUNCTIONS_SHOWN);
    let named: Vec<String> = shown.map(|one| format!("{} {}", one.name, Cell::Share(one.share))).collect();
    let inferred = format!("{} inferred: no sample or record shows it", Cell::Duration(cause.inferred_ns));
    match (named.as_slice(), cause.inferred_ns) {
        ([], 0) => None,
        ([], _) => Some(inferred.into()),
        (named, 0) => Some(text!("in samples: {}", named.join(", "))),
        (named, _) => Some(text!("in samples: {}; {inferred}", named.join(", "))),
    }
}

/// `12 times: 3.10 ms inside, 200 µs entry and exit, 1.10 ms catching up`.
fn parts(cause: &CauseSummary) -> String {
    let inside_ns = cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns;
    let mut parts = vec![format!("{} inside", Cell::Duration(inside_ns))];
    for (ns, name) in [(cause.entry_exit_ns, "entry and exit"), (cause.catch_up_ns, "catching up")] {
        if ns > 0 {
            parts.push(format!("{} {name}", Cell::Duration(ns)));
        }
    }
    let times = match cause.intervals {
        1 => "once".to_owned(),
        intervals => format!("{} times", Cell::Count(intervals)),
    };
    format!("{times}: {}", parts.join(", "))
}

fn remedies(remedy: &Remedy) -> Vec<view::Remedy> {
    let all = [("now", &remedy.setting), ("boot", &remedy.boot), ("known", &remedy.known)];
    all.into_iter().filter_map(|(when, what)| Some(view::Remedy::new(when, what.as_ref()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::summary::FunctionShare;
    use quaver_view::{Document, Section, plain};

    fn cause(name: &str, share: f64) -> CauseSummary {
        CauseSummary {
            source: "cfs-preempt".into(),
            name: name.into(),
            class: SourceClass::NetworkIndependent,
            time_ns: (share * 1e9) as i64,
            entry_exit_ns: 200,
            catch_up_ns: 0,
            share,
            packets: 2,
            intervals: 3,
            worst_ns: 900,
            example_seq: 7,
            remedy: Remedy { setting: Some("SCHED_FIFO".into()), ..Remedy::default() },
            threads: Vec::new(),
            functions: Vec::new(),
            inferred_ns: 0,
            stable_name: None,
        }
    }

    #[test]
    fn a_remedy_for_a_cpu_names_it_or_says_what_has_to_come_first() {
        let remedies = |name: fn(&mut [CauseSummary])| {
            let setting = Some("an isolated partition for <cpu>".to_owned());
            let boot = Some("isolcpus=domain,<cpu>".to_owned());
            let remedy = Remedy { setting, boot, ..Remedy::default() };
            let mut causes = [CauseSummary { remedy, ..cause("a", 0.5) }];
            name(&mut causes);
            let [one] = causes;
            (one.remedy.setting.unwrap(), one.remedy.boot.unwrap())
        };
        let (setting, boot) = remedies(|causes| name_cpus(causes, "1"));
        assert_eq!((&*setting, &*boot), ("an isolated partition for CPU 1", "isolcpus=domain,1"));
        let (setting, boot) = remedies(name_no_cpu);
        assert_eq!(setting, "an isolated partition for a CPU that the receiver is bound to (taskset -cp)");
        assert_eq!(boot, "isolcpus=domain,CPU, with the CPU that the receiver is bound to");
    }

    fn rest() -> Unexplained {
        Unexplained { share: 0.25, time_ns: 250_000_000, note: "hypervisor".into(), ..Unexplained::default() }
    }

    #[test]
    fn terminal_shows_rank_parts_remedy_and_the_unexplained() {
        let mut last = cause("thread cc", 0.15);
        last.intervals = 1;
        last.catch_up_ns = 1_000;
        last.remedy =
            Remedy { boot: Some("isolcpus=1".into()), known: Some("no".into()), ..Remedy::default() };
        let causes = [cause("thread rustc", 0.6), last];
        let built = ranked(&causes, &rest(), "gaps", |rank, number| text!("{rank:?}/{number}").into());
        let mut document = Document::new("quaver noise", "run");
        document.section(Section::new("causes", "Causes").with(built));
        let expected = "\
quaver noise · run

Causes
  #   share    time  gaps   worst    example  source
  1  60.0 %  600 ms     2  900 ns  Some(0)/7  thread rustc
       [cfs-preempt] 3 times: 600 ms inside, 200 ns entry and exit
       now:  SCHED_FIFO
  2  15.0 %  150 ms     2  900 ns  Some(1)/7  thread cc
       [cfs-preempt] once: 150 ms inside, 200 ns entry and exit, 1.00 µs catching up
       boot: isolcpus=1
       known: no
  ?  25.0 %  250 ms     0    0 ns             unexplained
       hypervisor
";
        assert_eq!(plain(&document), expected);
    }

    #[test]
    fn functions_are_shown_with_what_is_inferred() {
        let share = |name: &str, share| FunctionShare { name: name.into(), share, itself: 0.1, samples: 40 };
        let functions = vec![share("gc_collect_main", 0.68), share("visit_decref", 0.31)];
        let own = CauseSummary { functions, inferred_ns: 1_200_000, ..cause("code of the receiver", 0.6) };
        let details = |cause: CauseSummary| row(&cause, Cell::Empty).details[1..].to_vec();
        let words = "in samples: gc_collect_main 68.0 %, visit_decref 31.0 %";
        let inferred = "1.20 ms inferred: no sample or record shows it";
        assert_eq!(details(CauseSummary { inferred_ns: 0, ..own.clone() }), [Text::from(words)]);
        assert_eq!(details(own.clone()), [text!("{words}; {inferred}")]);
        assert_eq!(details(CauseSummary { functions: Vec::new(), ..own }), [Text::from(inferred)]);
        assert_eq!(details(cause("thread cc", 0.1)), Vec::<Text>::new());
    }

    #[test]
    fn page_adds_mechanism_and_class() {
        let built = ranked(&[cause("x", 1.0)], &rest(), "gaps", |_, _| Cell::Empty);
        let mechanism = &catalogue::source("cfs-preempt").unwrap().mechanism;
        assert_eq!(built.causes[0].html_details, [text!("{mechanism} · network-independent")]);
    }

    #[test]
    fn causes_below_a_thousandth_are_one_row_unless_few() {
        let causes = |shares: &[f64]| -> Causes {
            let causes: Vec<_> = shares.iter().map(|share| cause("x", *share)).collect();
            ranked(&causes, &rest(), "gaps", |_, _| Cell::Empty)
        };
        let small = 0.000_9;
        assert_eq!(causes(&[]).terminal_first, Some(0));
        assert_eq!(causes(&[0.5, small, small]).smaller, None, "three are few");
        let five = causes(&[0.5, 0.001, 0.001, 0.001, small]);
        assert_eq!(five.terminal_first, Some(4));
        let smaller = five.smaller.unwrap();
        assert_eq!(smaller.name, "1 smaller cause (see the report)");
        let figures = [Cell::Duration(900_000), Cell::Count(2), Cell::Duration(900), Cell::Empty];
        assert_eq!((smaller.share, smaller.figures), (small, figures.into()));
        let many = causes(&[0.05; 14]);
        assert_eq!(
            (many.terminal_first, many.smaller.unwrap().figures[1].clone()),
            (Some(12), Cell::Count(4))
        );
    }
}
