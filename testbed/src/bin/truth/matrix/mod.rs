//! The matrix: receivers of other makers by causes, policies and hosts. `truth matrix [--only WORD,…] [--seconds N] [--out DIR]
//! [--as-it-is] [--skip]`. A word of `--only` is a receiver, a cause, `fifo` or `normal`, `rest` or `loaded`; words of one kind add up.
//! The source catches up when it was late; with `--skip` it skips slots, which hides what a receiver adds behind the learning of the
//! period.
//!
//! Each injected run lies between two controls: the same receiver, left alone. What the run was late beyond them was added.

mod causes;
mod page;
mod program;
mod receivers;
mod run;
mod verdict;

use anyhow::{Context, bail};
use causes::{Cause, How, RECEIVER_CPU, SOURCE_CPU, Under};
use quaver_testbed::inject::load;
use quaver_testbed::inject::quiet::QuietCpu;
use receivers::Receiver;
use run::{Bench, Conditions, Ending};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use verdict::{Grade, Lateness, Verdict};

const NO_DEED: &str = "none";
const POLICIES: [&str; 2] = ["fifo", "normal"];
const HOSTS: [&str; 2] = ["rest", "loaded"];

/// One field of the matrix.
#[derive(Serialize)]
struct Cell {
    receiver: &'static str,
    waits: &'static str,
    policy: &'static str,
    host: &'static str,
    cause: &'static str,
    right: &'static [&'static str],
    /// Whether the harness itself failed, so that data are missing.
    failed: bool,
    verdict: Verdict,
    /// Late time of the controls before and after and of the run, by what it was booked to, nanoseconds in each second.
    before: Option<Lateness>,
    injected: Option<Lateness>,
    after: Option<Lateness>,
}

/// What was asked for on the command line.
struct Options {
    only: Vec<String>,
    seconds: u32,
    out: PathBuf,
    quiet: bool,
    skip: bool,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let out = PathBuf::from("target/truth/matrix");
        let mut options = Self { only: Vec::new(), seconds: 5, out, quiet: true, skip: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--seconds" => options.seconds = value()?.parse().context("--seconds")?,
                "--out" => options.out = value()?.into(),
                "--as-it-is" => options.quiet = false,
                "--skip" => options.skip = true,
                other => bail!("truth matrix has no option {other}"),
            }
        }
        let known = |word: &&String| {
            let names = receivers::ALL.iter().map(|receiver| receiver.name);
            let mut all =
                names.chain(causes::ALL.iter().map(|cause| cause.name)).chain(POLICIES).chain(HOSTS);
            !all.any(|name| name == *word)
        };
        match options.only.iter().find(known) {
            Some(word) => bail!("--only: there is no receiver, cause, policy or host {word}"),
            None => Ok(options),
        }
    }

    /// Whether a name of one kind is wanted: it is among the words, or no word is of its kind.
    fn wants(&self, name: &str, mut kind: impl Iterator<Item = &'static str>) -> bool {
        self.only.iter().any(|word| word == name)
            || !kind.any(|other| self.only.iter().any(|word| word == other))
    }
}

/// Runs the matrix, prints it and writes it. The answer: no data are missing.
///
/// # Errors
/// The options are wrong, a file cannot be written, or the user ended it.
pub(super) fn run(quaver: PathBuf, words: impl Iterator<Item = String>) -> anyhow::Result<bool> {
    let options = Options::read(words)?;
    std::fs::create_dir_all(&options.out).with_context(|| format!("making {}", options.out.display()))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let bench = Bench {
        quaver,
        out: options.out.canonicalize()?,
        seconds: options.seconds,
        skip: options.skip,
        port: quaver_testbed::ports::free_port(),
        interrupted,
    };
    let mut matrix = Matrix { bench, cells: Vec::new(), not_available: Vec::new() };
    for cause in &causes::ALL {
        if let Some(program) = cause.needs.filter(|program| !receivers::is_installed(program)) {
            matrix.not_available.push(format!("cause {}: {program} is not installed", cause.name));
        }
    }
    let identifiers =
        causes::ALL.iter().flat_map(|cause| cause.right).filter_map(|right| right.split(' ').next());
    let unknown: BTreeSet<&str> =
        identifiers.filter(|id| quaver_analysis::catalogue::source(id).is_none()).collect();
    matrix
        .not_available
        .extend(unknown.iter().map(|id| format!("identifier {id}: this build cannot name it")));
    // All threads of the machine but those that the matrix starts leave the receiver's CPU.
    let _quiet = options.quiet.then(|| QuietCpu::make(RECEIVER_CPU));
    eprintln!("{}", page::header());
    for receiver in &receivers::ALL {
        if !options.wants(receiver.name, receivers::ALL.iter().map(|other| other.name)) {
            continue;
        }
        if let Err(lack) = receiver.build(&matrix.bench.out) {
            matrix.not_available.push(format!("receiver {}: {lack:#}", receiver.name));
            continue;
        }
        for policy in POLICIES.into_iter().filter(|policy| options.wants(policy, POLICIES.into_iter())) {
            for host in HOSTS.into_iter().filter(|host| options.wants(host, HOSTS.into_iter())) {
                matrix.row(&options, receiver, policy, host)?;
            }
        }
    }
    let text = page::table(&matrix.cells, &matrix.not_available);
    print!("{text}");
    std::fs::write(matrix.bench.out.join("matrix.txt"), text)?;
    if matrix.cells.is_empty() {
        bail!("no such cell");
    }
    Ok(!matrix.cells.iter().any(|cell| cell.failed))
}

struct Matrix {
    bench: Bench,
    cells: Vec<Cell>,
    not_available: Vec<String>,
}

/// How a run ended, where the harness did not fail.
type Reading = anyhow::Result<Ending>;

impl Matrix {
    /// All causes for one receiver under one policy on one host, each between two controls.
    fn row(
        &mut self,
        options: &Options,
        receiver: &'static Receiver,
        policy: &'static str,
        host: &'static str,
    ) -> anyhow::Result<()> {
        let fifo = policy == "fifo";
        let fits = |cause: &&Cause| {
            let able = match cause.how {
                How::Deed(deed) => receiver.deeds.contains(&deed),
                How::Inject(_) => cause.needs.is_none_or(receivers::is_installed),
            };
            let acts = cause.under == Under::Any || (cause.under == Under::Fifo) == fifo;
            able && acts && options.wants(cause.name, causes::ALL.iter().map(|other| other.name))
        };
        let causes: Vec<&'static Cause> = causes::ALL.iter().filter(fits).collect();
        if causes.is_empty() {
            return Ok(());
        }
        let _load = match host {
            "loaded" => Some([load::quarter(SOURCE_CPU)?, load::quarter(RECEIVER_CPU)?]),
            _ => None,
        };
        let folder = format!("{}-{policy}-{host}", receiver.name);
        let run = |matrix: &Self, name: String, deed, inject| -> anyhow::Result<Reading> {
            let conditions = Conditions { receiver, fifo, deed, inject };
            let ending = matrix.bench.run(&conditions, &matrix.bench.out.join(&folder).join(name));
            if matrix.bench.interrupted.load(Ordering::Relaxed) { bail!("interrupted") } else { Ok(ending) }
        };
        let mut before = run(self, "control-0".into(), NO_DEED, None)?;
        for (number, cause) in causes.into_iter().enumerate() {
            let (deed, inject) = match cause.how {
                How::Deed(deed) => (deed, None),
                How::Inject(inject) => (NO_DEED, Some(inject)),
            };
            let injected = run(self, cause.name.to_owned(), deed, inject)?;
            if let Ok(Ending::NotAvailable(lack)) = &injected {
                self.not_available.push(format!("cause {}: {lack}", cause.name));
                continue;
            }
            let after = run(self, format!("control-{}", number + 1), NO_DEED, None)?;
            let cell =
                cell([receiver.name, receiver.waits, policy, host], cause, [&before, &after], &injected);
            eprintln!("{}", page::line(&cell));
            self.cells.push(cell);
            let json = serde_json::json!({
                "seconds": self.bench.seconds,
                "source_skips": self.bench.skip,
                "cells": self.cells,
                "not_available": self.not_available,
            });
            std::fs::write(self.bench.out.join("matrix.json"), serde_json::to_string_pretty(&json)?)?;
            before = after;
        }
        Ok(())
    }
}

/// Judges one cell from what its three runs left.
fn cell(
    [receiver, waits, policy, host]: [&'static str; 4],
    cause: &'static Cause,
    controls: [&Reading; 2],
    injected: &Reading,
) -> Cell {
    let read = |reading: &Reading| -> Result<Lateness, String> {
        match reading {
            Ok(Ending::Measured(summary)) => {
                Lateness::read(summary, cause.right).map_err(|error| format!("{error:#}"))
            }
            Ok(Ending::Refused(said) | Ending::NotAvailable(said)) => Err(format!("refused, {said}")),
            Err(error) => Err(format!("failed, {error:#}")),
        }
    };
    let [before, after] = controls.map(read);
    let found = read(injected);
    // A refusal of a run that was injected is an answer of the product; everything else that lacks is missing data.
    let refused = matches!(injected, Ok(Ending::Refused(_)));
    let (failed, verdict) = match (&before, &after, &found) {
        (Ok(before), Ok(after), Ok(found)) => (false, verdict::judge(cause.right, [before, after], found)),
        (Err(why), ..) | (_, Err(why), _) => (true, Verdict::without(Grade::None, format!("control: {why}"))),
        (.., Err(why)) if refused => (false, Verdict::without(Grade::Missed, why)),
        (.., Err(why)) => (true, Verdict::without(Grade::None, why)),
    };
    let right = cause.right;
    let cause = cause.name;
    let [before, after, injected] = [before, after, found].map(Result::ok);
    Cell { receiver, waits, policy, host, cause, right, failed, verdict, before, injected, after }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> anyhow::Result<Options> {
        Options::read(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn words_of_one_kind_add_up_and_kinds_narrow() {
        let options = options(&["--only", "go,java,fifo"]).unwrap();
        let receivers = || receivers::ALL.iter().map(|receiver| receiver.name);
        let wanted: Vec<_> = receivers().filter(|name| options.wants(name, receivers())).collect();
        assert_eq!(wanted, ["java", "go"]);
        assert!(
            options.wants("fifo", POLICIES.into_iter()) && !options.wants("normal", POLICIES.into_iter())
        );
        assert!(HOSTS.iter().all(|host| options.wants(host, HOSTS.into_iter())), "no word names a host");
    }

    #[test]
    fn a_word_that_names_nothing_is_refused() {
        assert!(options(&["--only", "c-blocking,sigstpo"]).is_err());
        assert!(options(&["--onyl", "go"]).is_err());
        assert!(options(&["--seconds"]).is_err());
    }

    #[test]
    fn each_deed_has_a_cause_and_each_cause_of_that_kind_a_receiver() {
        let caused =
            |deed: &str| causes::ALL.iter().any(|cause| matches!(cause.how, How::Deed(it) if it == deed));
        let done = |deed: &str| receivers::ALL.iter().any(|receiver| receiver.deeds.contains(&deed));
        assert!(receivers::ALL.iter().flat_map(|receiver| receiver.deeds).all(|deed| caused(deed)));
        for cause in &causes::ALL {
            assert!(!matches!(cause.how, How::Deed(deed) if !done(deed)), "{}", cause.name);
            assert!(!cause.right.is_empty(), "{}", cause.name);
        }
    }

    #[test]
    fn a_refusal_is_missed_and_a_failure_is_missing_data() {
        let measured = || {
            Ok(Ending::Measured(serde_json::json!({
                "duration_ns": 1_000_000_000, "lateness": { "time_ns": 0 }, "unexplained": { "time_ns": 0 }, "causes": [],
            })))
        };
        let of = |control: Reading, injected: Reading| {
            let cell = cell(
                ["c-busy", "polling", "fifo", "rest"],
                &causes::ALL[0],
                [&measured(), &control],
                &injected,
            );
            (cell.failed, cell.verdict.grade)
        };
        let refused = || Ok(Ending::Refused("received no packets".into()));
        assert_eq!(of(measured(), refused()), (false, Grade::Missed));
        assert_eq!(of(refused(), measured()), (true, Grade::None));
        assert_eq!(of(measured(), Err(anyhow::anyhow!("no such program"))), (true, Grade::None));
        assert_eq!(of(measured(), measured()), (false, Grade::None), "nothing was added");
    }
}
