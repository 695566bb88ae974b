//! Remedies around a program that is run: its CPUs and its class, which it inherits, and what its host does for all.

use super::choice::{self, Choice};
use super::of_threads::{FIRST_REALTIME, WORTH, candidate};
use super::program::Studied;
use crate::args::{Allow, CureArgs};
use crate::summary::NotTried;
use quaver_host::root::parse_cpu_list;
use quaver_host::settings::contact::{Contact, read};
use quaver_host::settings::knob::{Change, Knob, cpu_list};
use quaver_tune::survey::Target;
use quaver_tune::verb::costs::Costs;

/// The program may use every CPU.
pub(super) const MORE_CPUS: &str = "more-cpus";
/// Its threads share the first of its CPUs.
pub(super) const ONE_CPU: &str = "one-cpu";
/// Its threads are woken without taking a CPU from another.
pub(super) const CLASS_BATCH: &str = "class-batch";
/// They come before all ordinary threads.
pub(super) const CLASS_FIFO: &str = "class-fifo";
/// Threads take turns one by one, whatever session they are of.
pub(super) const AUTOGROUP: &str = "autogroup";
/// All of these.
pub(super) const ALL: [&str; 5] = [MORE_CPUS, ONE_CPU, CLASS_BATCH, CLASS_FIFO, AUTOGROUP];
/// Rows of the catalogue that matter to programs.
const ROWS: [&str; 6] = ["thp", "pstate", "turbo", "quota", "numa", "ksm"];
const AUTOGROUP_FILE: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Chooses for a program that thread `launcher` starts. Reads only.
pub(super) fn choose(
    args: &CureArgs,
    contact: &dyn Contact,
    launcher: u32,
    target: &Target,
    studied: &Studied,
) -> Choice {
    let mut choice = choice::choose(args, contact, target, &Costs::new());
    choice.candidates.retain(|one| ROWS.contains(&one.remedy.id.as_str()));
    choice.not_tried.retain(|one| ROWS.contains(&one.id.as_str()));
    let named = |id: &str| args.only.iter().any(|only| only == id);
    let asked =
        |id: &str| (named(id) || args.only.is_empty()) && !args.except.iter().any(|except| except == id);
    let root = contact.root();
    let now = read(contact, &Knob::Thread { tid: launcher }).unwrap_or_default();
    let allowed = parse_cpu_list(&String::from_utf8_lossy(&now));
    let online = root.cpu_list("/sys/devices/system/cpu/online");
    let cpus = |to: &[u16]| vec![Change::new(Knob::Thread { tid: launcher }, cpu_list(to))];
    let class = |to: &str| vec![Change::new(Knob::Class { tid: launcher }, to)];
    let mut first = Vec::new();
    if asked(MORE_CPUS) && online.iter().any(|cpu| !allowed.contains(cpu)) {
        let (what, risk) =
            ("the program was started with few CPUs", "programs on the other CPUs get less time");
        first.push(candidate(MORE_CPUS, what, risk, part(studied.crowded), cpus(&online)));
    }
    let pin = studied.advice.iter().find(|one| one.kind == "pin");
    if asked(ONE_CPU) && allowed.len() > 1 && (pin.is_some() || named(ONE_CPU)) {
        let (what, risk) = ("its threads wake each other across CPUs", "they no longer run side by side");
        let share = pin.and_then(|one| one.gain);
        first.push(candidate(ONE_CPU, what, risk, share, cpus(&allowed[..1])));
    }
    let waits = studied.behind_others >= WORTH;
    if asked(CLASS_BATCH) && (waits || named(CLASS_BATCH)) {
        let (what, risk) = ("its threads preempt each other when they wake", "its threads wake up later");
        first.push(candidate(CLASS_BATCH, what, risk, part(studied.behind_others), class("batch")));
    }
    if asked(CLASS_FIFO) && (waits || named(CLASS_FIFO)) {
        let limit = root.text("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
        if limit.trim().starts_with('-') {
            let why = "nothing limits real-time threads here, so it could lock up the host";
            untried(&mut choice, CLASS_FIFO, why, "kernel.sched_rt_runtime_us = 950000");
        } else if args.allow == Allow::Receiver {
            untried(&mut choice, CLASS_FIFO, "ordinary threads would wait for it", "--allow host");
        } else {
            let (what, risk) = ("others take its CPUs", "ordinary threads wait while it runs");
            let changes = class(FIRST_REALTIME);
            first.push(candidate(CLASS_FIFO, what, risk, part(studied.behind_others), changes));
        }
    }
    let grouped = root.text(AUTOGROUP_FILE).is_some_and(|text| text.trim() == "1");
    if asked(AUTOGROUP) && grouped {
        if args.allow == Allow::Receiver {
            let why = format!("{} is not the program's alone", Knob::file(AUTOGROUP_FILE));
            untried(&mut choice, AUTOGROUP, &why, "--allow host");
        } else {
            let (what, risk) = ("sessions get equal shares of a CPU", "a session of many threads gets more");
            let changes = vec![Change::new(Knob::file(AUTOGROUP_FILE), "0")];
            first.push(candidate(AUTOGROUP, what, risk, None, changes));
        }
    }
    choice.candidates.splice(0..0, first);
    choice
}

fn part(share: f64) -> Option<f64> {
    (share > 0.0).then_some(share)
}

fn untried(choice: &mut Choice, id: &str, why: &str, how: &str) {
    let (id, why, how) = (id.to_owned(), why.to_owned(), how.to_owned());
    choice.not_tried.push(NotTried { id, why, how, cause_share: None });
}

/// How to start a program as these settings of its launcher have it.
pub(super) fn command(changes: &[Change], words: &[String]) -> String {
    let mut all = Vec::new();
    for change in changes {
        match &change.knob {
            Knob::Thread { .. } => all.push(format!("taskset -c {}", change.value)),
            Knob::Class { .. } => all.push(match change.value.split_once(':') {
                Some((class, priority)) => format!("chrt --{class} {priority}"),
                None => format!("chrt --{} 0", change.value),
            }),
            _ => {}
        }
    }
    all.extend(words.iter().map(|word| quoted(word)));
    all.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::CodeAdvice;
    use clap::Parser;
    use quaver_host::settings::fake::FakeMachine;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CureArgs,
    }

    /// A host of three CPUs, with a launcher that may use `cpus`.
    fn tried(cpus: &str, studied: &Studied, words: &[&str]) -> Choice {
        let machine = FakeMachine::new(&[
            ("sys/devices/system/cpu/online", "0-2\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
        ]);
        machine.file("proc/70/status", &format!("Name:\tit\nCpus_allowed_list:\t{cpus}\n"));
        let place = machine.place();
        let words = [&["cure"], words, &["--", "it"]].concat();
        let args = Line::parse_from(words).args;
        let target = Target { cpus: vec![1], interface: None, process: None };
        choose(&args, place.contact(), 70, &target, studied)
    }

    fn ids(choice: &Choice) -> Vec<&str> {
        choice.candidates.iter().map(|one| one.remedy.id.as_str()).collect()
    }

    #[test]
    fn a_program_gets_what_its_run_bears_out_and_no_more() {
        let plain = Studied::default();
        assert!(ids(&tried("0-2", &plain, &[])).is_empty());
        let few = tried("1", &Studied { crowded: 0.4, ..plain.clone() }, &[]);
        assert_eq!(ids(&few), [MORE_CPUS]);
        assert_eq!(few.candidates[0].remedy.changes, ["affinity of thread 70 = 0-2"]);
        assert_eq!(few.candidates[0].remedy.cause_share, Some(0.4));
        assert!(ids(&tried("1", &plain, &["--except", MORE_CPUS])).is_empty());
        let beside = Studied { behind_others: 0.3, ..plain.clone() };
        let choice = tried("0-2", &beside, &[]);
        assert_eq!(ids(&choice), [CLASS_BATCH]);
        let untried: Vec<&str> = choice.not_tried.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(untried, [CLASS_FIFO, AUTOGROUP]);
        assert_eq!(ids(&tried("0-2", &beside, &["--allow", "host"])), [CLASS_BATCH, CLASS_FIFO, AUTOGROUP]);
        let (kind, change) = ("pin".to_owned(), "Pin each thread to a CPU.".to_owned());
        let advice = vec![CodeAdvice { kind, change, gain: Some(0.2), at_most: true }];
        let moved = tried("0-1", &Studied { advice, ..plain }, &[]);
        assert_eq!(ids(&moved), [MORE_CPUS, ONE_CPU]);
        assert_eq!(moved.candidates[1].remedy.changes, ["affinity of thread 70 = 0"]);
    }

    #[test]
    fn the_command_starts_the_program_as_it_was_proven() {
        let changes = [
            Change::new(Knob::Thread { tid: 70 }, "0-2"),
            Change::new(Knob::Class { tid: 70 }, "fifo:1"),
            Change::new(Knob::file(AUTOGROUP_FILE), "0"),
        ];
        let words = ["./it", "-n", "a b", "it's"].map(str::to_owned);
        assert_eq!(command(&changes, &words), r"taskset -c 0-2 chrt --fifo 1 ./it -n 'a b' 'it'\''s'");
        let batch = [Change::new(Knob::Class { tid: 70 }, "batch")];
        assert_eq!(command(&batch, &words[..1]), "chrt --batch 0 ./it");
    }
}
