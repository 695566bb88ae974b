//! Remedies of single threads, which no row of the catalogue has: it knows the host alone. The receiver of somebody else gets
//! another class, and who ran instead of it other CPUs.

use super::choice::{Candidate, Choice};
use crate::args::{Allow, CureArgs};
use crate::summary::{NotTried, Remedy};
use crate::view::listed;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_chase::digest::ChaseDigest;
use quaver_host::root::{HostRoot, parse_cpu_list};
use quaver_host::settings::class::ThreadClass;
use quaver_host::settings::contact::{Contact, read};
use quaver_host::settings::kernel_threads::is_of_kernel;
use quaver_host::settings::knob::{Change, Knob, cpu_list};
use quaver_host::stat::Stat;
use quaver_tune::survey::Target;
use std::collections::BTreeMap;

/// The receiver's threads come before all ordinary ones.
pub(super) const RECEIVER_CLASS: &str = "receiver-class";
/// Who ran instead of the receiver gets other CPUs.
pub(super) const OTHERS_ELSEWHERE: &str = "others-elsewhere";
/// The source that either removes.
const BESIDE_OTHERS: &str = "cfs-preempt";
/// Sources that are threads of programs on the receiver's CPU.
const THREADS: [&str; 2] = [BESIDE_OTHERS, "rt-thread"];
/// Before all ordinary threads, and behind all other real-time ones.
pub(super) const FIRST_REALTIME: &str = "fifo:1";
/// Part of the late time from which on a thread is worth moving.
pub(super) const WORTH: f64 = 0.02;

/// Threads that matter to a receiver.
#[derive(Debug, Default)]
pub(super) struct Involved {
    /// Those of a receiver of somebody else.
    pub(super) receiver: Vec<u32>,
    /// Part of the late time in which ordinary threads ran instead.
    pub(super) ordinary_share: Option<f64>,
    /// Who ran instead, each with its part of the late time, the largest first.
    pub(super) instead: Vec<(u32, f64)>,
}

impl Involved {
    pub(super) fn of(found: &ChaseDigest, is_foreign: bool) -> Self {
        let receiver = found.manifest.analysis.as_ref().map(|facts| facts.receiver.threads.clone());
        let summary = &found.analysis.summary;
        let late_ns = summary.lateness.time_ns.max(1) as f64;
        let ordinary: f64 = summary
            .causes
            .iter()
            .filter(|cause| cause.source == BESIDE_OTHERS)
            .map(|cause| cause.share)
            .sum();
        let mut instead: Vec<(u32, f64)> =
            ran_instead(found).into_iter().map(|(thread, ns)| (thread, ns as f64 / late_ns)).collect();
        instead.retain(|(_, share)| *share >= WORTH);
        instead.sort_by(|one, other| other.1.total_cmp(&one.1));
        Self {
            receiver: receiver.filter(|_| is_foreign).unwrap_or_default(),
            ordinary_share: Some(ordinary).filter(|share| *share > 0.0),
            instead,
        }
    }
}

/// Time that each thread of [`THREADS`] held the CPU in late windows, nanoseconds.
fn ran_instead(found: &ChaseDigest) -> BTreeMap<u32, i64> {
    let causes = &found.analysis.summary.causes;
    let mut runs: BTreeMap<u16, Vec<&EventRecord>> = BTreeMap::new();
    for event in found.run.events.iter().filter(|event| event.kind == EventKind::Thread as u8) {
        runs.entry(event.cpu).or_default().push(event);
    }
    runs.values_mut().for_each(|runs| runs.sort_by_key(|run| run.end_ns));
    let mut times = BTreeMap::new();
    for piece in &found.analysis.pieces {
        let source =
            piece.cause.and_then(|cause| causes.get(cause as usize)).map(|cause| cause.source.as_str());
        let Some(runs) = source.filter(|source| THREADS.contains(source)).and_then(|_| runs.get(&piece.cpu))
        else {
            continue;
        };
        let (from, to) = (piece.start_ns, piece.end_ns);
        let first = runs.partition_point(|run| run.end_ns.cast_signed() <= from);
        // The runs of one CPU follow one another.
        for run in runs[first..].iter().take_while(|run| run.start_ns.cast_signed() < to) {
            let held = to.min(run.end_ns.cast_signed()) - from.max(run.start_ns.cast_signed());
            *times.entry(run.id).or_default() += held.max(0);
        }
    }
    times
}

/// Adds what can be tried of these threads, each where its share of the late time puts it.
pub(super) fn add(
    args: &CureArgs,
    contact: &dyn Contact,
    target: &Target,
    involved: &Involved,
    choice: &mut Choice,
) {
    let asked = |id: &str| {
        let named = args.only.iter().any(|only| only == id);
        (named || args.only.is_empty()) && !args.except.iter().any(|except| except == id)
    };
    let before = choice.candidates.len();
    if asked(RECEIVER_CLASS) {
        class_of_receiver(contact.root(), involved, choice);
    }
    if asked(OTHERS_ELSEWHERE) {
        others_elsewhere(args, contact, target, involved, choice);
    }
    if choice.candidates.len() > before {
        choice.not_tried.retain(|one| one.id != BESIDE_OTHERS);
    }
    let share = |one: &Candidate| std::cmp::Reverse(one.remedy.cause_share.map(f64::to_bits));
    choice.candidates.sort_by_key(share);
}

fn class_of_receiver(root: &HostRoot, involved: &Involved, choice: &mut Choice) {
    let ordinary = |tid: &&u32| ThreadClass::of(root, **tid).is_ok_and(ThreadClass::is_ordinary);
    let threads: Vec<u32> = involved.receiver.iter().filter(ordinary).copied().collect();
    if threads.is_empty() || involved.ordinary_share.is_none() {
        return;
    }
    let limit = root.text("/proc/sys/kernel/sched_rt_runtime_us");
    if limit.is_some_and(|limit| limit.trim().starts_with('-')) {
        choice.not_tried.push(NotTried {
            id: RECEIVER_CLASS.to_owned(),
            why:
                "nothing limits real-time threads here, so a receiver that never sleeps would lock up its CPU"
                    .to_owned(),
            how: "kernel.sched_rt_runtime_us = 950000".to_owned(),
            cause_share: involved.ordinary_share,
        });
        return;
    }
    let changes = threads.into_iter().map(|tid| Change::new(Knob::Class { tid }, FIRST_REALTIME)).collect();
    choice.candidates.push(candidate(
        RECEIVER_CLASS,
        "the receiver shares its CPU with ordinary threads, as one of them",
        "ordinary threads on its CPU wait for as long as the receiver works",
        involved.ordinary_share,
        changes,
    ));
}

fn others_elsewhere(
    args: &CureArgs,
    contact: &dyn Contact,
    target: &Target,
    involved: &Involved,
    choice: &mut Choice,
) {
    let root = contact.root();
    let here = root.names("/proc/self/task");
    let spared = |tid: u32| here.contains(&tid.to_string()) || is_of_kernel(root, tid) != Some(false);
    let elsewhere = |tid: u32| {
        let now = read(contact, &Knob::Thread { tid }).ok()?;
        let without = |cpus: Vec<u16>| -> Vec<u16> {
            cpus.into_iter().filter(|cpu| !target.cpus.contains(cpu)).collect()
        };
        let allowed = without(parse_cpu_list(&String::from_utf8_lossy(&now)));
        let left = if allowed.is_empty() {
            without(root.cpu_list("/sys/devices/system/cpu/online"))
        } else {
            allowed
        };
        (!left.is_empty()).then(|| Change::new(Knob::Thread { tid }, cpu_list(&left)))
    };
    let others = involved.instead.iter().filter(|(tid, _)| !spared(*tid) && !involved.receiver.contains(tid));
    let mut words = Vec::new();
    let with_share = |(tid, share): &(u32, f64)| {
        let change = elsewhere(*tid)?;
        let name = Stat::read(root, &format!("proc/{tid}"))?.name;
        words.push(format!("{} ({name})", change.knob));
        Some((change, *share))
    };
    let (changes, shares): (Vec<Change>, Vec<f64>) = others.filter_map(with_share).unzip();
    if changes.is_empty() {
        return;
    }
    if args.allow == Allow::Receiver {
        choice.not_tried.push(NotTried {
            id: OTHERS_ELSEWHERE.to_owned(),
            why: format!("not the receiver's: {}", listed(&words)),
            how: "--allow host".to_owned(),
            cause_share: Some(shares.iter().sum()),
        });
        return;
    }
    let mut candidate = candidate(
        OTHERS_ELSEWHERE,
        "threads of other programs run on the receiver's CPU",
        "they share the other CPUs",
        Some(shares.iter().sum()),
        changes,
    );
    for ((said, words), change) in candidate.remedy.changes.iter_mut().zip(words).zip(&candidate.changes) {
        *said = format!("{words} = {}", change.value);
    }
    choice.candidates.push(candidate);
}

pub(super) fn candidate(
    id: &str,
    mechanism: &str,
    risk: &str,
    cause_share: Option<f64>,
    changes: Vec<Change>,
) -> Candidate {
    let remedy = Remedy {
        id: id.to_owned(),
        mechanism: mechanism.to_owned(),
        risk: risk.to_owned(),
        changes: changes.iter().map(|change| format!("{} = {}", change.knob, change.value)).collect(),
        cause_share,
        effect: None,
        verdict: None,
        settled: None,
        withdrawn: None,
        harm: None,
    };
    Candidate { remedy, changes: changes.into_iter().map(|change| change.of_row(id)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use quaver_host::settings::fake::FakeMachine;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CureArgs,
    }

    /// A machine with a receiver (thread 70), a program (80) and a thread of the kernel (90) on CPU 1.
    fn tried(class: &str, limit: &str, words: &[&str]) -> Choice {
        let rest = "0 0 0 0 0 0 0 0 20 0 1 0 31 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1";
        let stat = |tid: u32, parent: u32, flags: u32, (policy, priority): (u8, u8)| {
            let text = format!("{tid} (it) S {parent} 70 70 0 -1 {flags} {rest} {priority} {policy}\n");
            (format!("proc/{tid}/stat"), text)
        };
        let machine = FakeMachine::new(&[
            ("proc/sys/kernel/sched_rt_runtime_us", limit),
            ("sys/devices/system/cpu/online", "0-2\n"),
        ]);
        let of_receiver = if class == "fifo" { (1, 5) } else { (0, 0) };
        let (user, kernel) = (4_194_304, 2_097_152);
        for (path, text) in
            [stat(70, 1, user, of_receiver), stat(80, 1, user, (0, 0)), stat(90, 2, kernel, (0, 0))]
        {
            machine.file(&path, &text);
        }
        for tid in [70, 80, 90] {
            machine.file(&format!("proc/{tid}/status"), "Name:\tit\nCpus_allowed_list:\t1\n");
        }
        let target = Target { cpus: vec![1], interface: None, process: Some(70) };
        let place = machine.place();
        let args = Line::parse_from([&["cure", "--pid", "70"], words].concat()).args;
        let involved = Involved {
            receiver: vec![70],
            ordinary_share: Some(0.9),
            instead: vec![(80, 0.6), (90, 0.2), (70, 0.1), (4_000_000, 0.1)],
        };
        let mut choice = Choice::default();
        add(&args, place.contact(), &target, &involved, &mut choice);
        choice
    }

    fn ids(choice: &Choice) -> Vec<&str> {
        choice.candidates.iter().map(|one| one.remedy.id.as_str()).collect()
    }

    #[test]
    fn a_receiver_that_shares_its_cpu_gets_a_class_before_others() {
        let choice = tried("other", "950000\n", &[]);
        assert_eq!(ids(&choice), [RECEIVER_CLASS]);
        assert_eq!(choice.candidates[0].remedy.changes, ["scheduling class of thread 70 = fifo:1"]);
        assert_eq!(choice.not_tried.len(), 1);
        assert_eq!(
            (choice.not_tried[0].id.as_str(), choice.not_tried[0].how.as_str()),
            (OTHERS_ELSEWHERE, "--allow host")
        );
        assert_eq!(choice.not_tried[0].why, "not the receiver's: affinity of thread 80 (it)");
    }

    #[test]
    fn programs_and_no_others_get_other_cpus() {
        let choice = tried("fifo", "950000\n", &["--allow", "host"]);
        assert_eq!(ids(&choice), [OTHERS_ELSEWHERE]);
        assert_eq!(choice.candidates[0].remedy.changes, ["affinity of thread 80 (it) = 0,2"]);
        assert_eq!(choice.candidates[0].remedy.cause_share, Some(0.6));
        let both = tried("other", "950000\n", &["--allow", "host"]);
        assert_eq!(ids(&both), [RECEIVER_CLASS, OTHERS_ELSEWHERE], "the larger share first");
    }

    #[test]
    fn no_class_is_given_to_a_real_time_thread_nor_where_nothing_limits_those() {
        assert!(ids(&tried("fifo", "950000\n", &[])).is_empty());
        assert!(ids(&tried("other", "950000\n", &["--except", RECEIVER_CLASS])).is_empty());
        assert!(ids(&tried("other", "950000\n", &["--only", "tick"])).is_empty());
        let unlimited = tried("other", "-1\n", &[]);
        assert!(ids(&unlimited).is_empty());
        assert!(unlimited.not_tried.iter().any(|one| one.id == RECEIVER_CLASS));
    }
}
