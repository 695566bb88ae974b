//! Runs the test executables of the workspace side by side, which `cargo test` runs one after the other.
//!
//! Many of them sleep most of the time, or wait for an emulator. Within an executable nothing differs from `cargo test`:
//! its tests share a process, what they build once and their locks.

use crate::examples;
use crate::tree::Tree;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Executables that run at the same time.
const LANES: usize = 2;

/// What an executable cannot have beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Another emulator: it takes a CPU for itself.
    Emulator,
    /// Another one that changes or counts what the whole host has: settings, traces of the kernel, programs in it, who has
    /// packets stamped.
    Host,
    /// What [`Group::Host`] cannot, and [`Group::Stamping`]: it waits until nobody has packets stamped.
    Unstamped,
    /// [`Group::Unstamped`]: it has packets stamped without a pause.
    Stamping,
    /// Nothing.
    Any,
    /// Anything: it measures what takes its CPU away, or holds times of several processes against each other.
    Quiet,
}

/// Executables of a group other than [`Group::Any`], as `package/target`.
const GROUPS: &[(&str, Group)] = &[
    ("quaver/lab_faults", Group::Emulator),
    ("quaver/lab_disciplines", Group::Emulator),
    ("quaver/lab_netem", Group::Emulator),
    ("quaver/lab_ptp", Group::Emulator),
    ("quaver/lab_stamp", Group::Emulator),
    ("quaver/lab_qemu", Group::Emulator),
    ("quaver/lab_run", Group::Emulator),
    ("quaver/sim_paper", Group::Emulator),
    ("quaver/sim_trace", Group::Emulator),
    ("quaver/sim_trace_system", Group::Emulator),
    ("quaver/study_boot", Group::Emulator),
    ("quaver-capture/quaver_capture", Group::Host),
    ("quaver-host/quaver_host", Group::Host),
    ("quaver-path-flow/quaver_path_flow", Group::Stamping),
    ("quaver-path-record/quaver_path_record", Group::Stamping),
    ("quaver-sync/quaver_sync", Group::Host),
    ("quaver-tune/quaver_tune", Group::Host),
    ("quaver-probe/quaver_probe", Group::Host),
    ("quaver-host/tracefs_live", Group::Host),
    ("quaver-tune/tune_held", Group::Host),
    ("quaver-tune/tune_held_crashes", Group::Host),
    ("quaver-tune/tune_killed", Group::Host),
    ("quaver-tune/tune_settings", Group::Host),
    ("quaver/analyze_captures", Group::Host),
    ("quaver/capture_live", Group::Unstamped),
    ("quaver/quaver", Group::Host),
    ("quaver/compare", Group::Host),
    ("quaver/jitlat", Group::Host),
    ("quaver/packages", Group::Host),
    ("quaver/path_below", Group::Host),
    ("quaver/path_clocks", Group::Host),
    ("quaver/path_live", Group::Host),
    ("quaver/path_lossy", Group::Quiet),
    ("quaver/path_mesh", Group::Host),
    ("quaver/path_verbs", Group::Host),
    ("quaver/rtp_in", Group::Host),
    ("quaver/schema", Group::Host),
    ("quaver/sync_harm", Group::Host),
    ("quaver/sync_verb", Group::Host),
    ("quaver/tune_verbs", Group::Host),
    ("quaver/verbs_runs", Group::Host),
    ("quaver/compare_runs", Group::Host),
    ("quaver/faults", Group::Host),
    ("quaver/hangup", Group::Quiet),
    ("quaver/tutorials", Group::Host),
    ("quaver/units", Group::Host),
    ("quaver-clock/clock_live", Group::Quiet),
    ("quaver/blame", Group::Quiet),
    ("quaver/cure", Group::Quiet),
    ("quaver/chase_far", Group::Quiet),
    ("quaver/chase_origins", Group::Quiet),
    ("quaver/tiers", Group::Quiet),
    ("quaver/noise", Group::Quiet),
    ("quaver/observed_join", Group::Quiet),
    ("quaver/observed_pace", Group::Quiet),
    ("quaver/osnoise", Group::Quiet),
    ("quaver/own_work", Group::Quiet),
    ("quaver/path_truth", Group::Quiet),
    ("quaver/study_contrasts", Group::Quiet),
    ("quaver/study_tuned", Group::Quiet),
    ("quaver/sync_contention", Group::Quiet),
    ("quaver/sync_ends", Group::Quiet),
    ("quaver/sync_gains", Group::Quiet),
    ("quaver/sync_given_back", Group::Quiet),
    ("quaver/sync_owners", Group::Quiet),
    ("quaver/sync_runtimes", Group::Quiet),
    ("quaver/sync_shared", Group::Quiet),
    ("quaver/sync_truth", Group::Quiet),
    ("quaver/watch_live", Group::Quiet),
    ("quaver/watch_waits", Group::Quiet),
];

/// Whether two may run at the same time.
fn go_together(a: Group, b: Group) -> bool {
    use Group::{Any, Emulator, Host, Quiet, Stamping, Unstamped};
    match (a, b) {
        (Quiet, _) | (_, Quiet) => false,
        (Emulator, Emulator) => false,
        (Host | Unstamped, Host | Unstamped) | (Stamping, Unstamped) | (Unstamped, Stamping) => false,
        (Any | Emulator | Host | Unstamped | Stamping, _) => true,
    }
}

/// A test executable.
#[derive(Clone, Debug)]
struct Executable {
    /// `package/target`.
    name: String,
    path: PathBuf,
    /// Of its package, where it runs.
    directory: PathBuf,
    group: Group,
}

/// Tests of an executable that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

/// Builds and runs all tests, or those of the executables that are named. Returns whether all passed. The last line is
/// `N passed, N failed`, which is also written to `tests.txt` in the target directory.
pub(crate) fn run(root: &Path, wanted: &[&str]) -> anyhow::Result<bool> {
    ensure!(
        !interrupts_are_ignored(),
        "started with SIGINT ignored, which tests inherit: run this in the foreground"
    );
    let mut pending = executables(root, wanted)?;
    if wanted.is_empty() {
        let unknown = GROUPS.iter().find(|(name, _)| !pending.iter().any(|one| one.name == *name));
        ensure!(
            unknown.is_none(),
            "there is no test executable {unknown:?}: its group is listed in xtask/src/test_run.rs"
        );
    } else {
        pending.retain(|one| wanted.contains(&one.name.as_str()));
        let unknown = wanted.iter().find(|name| !pending.iter().any(|one| one.name == **name));
        ensure!(unknown.is_none(), "there is no test executable {unknown:?}");
    }
    let mut all = Counts::default();
    let with_examples =
        if wanted.is_empty() { examples::packages(&Tree::tracked(root)?) } else { BTreeSet::new() };
    if !with_examples.is_empty() {
        let mut command = cargo();
        command.args(["test", "--locked", "--doc", "--no-fail-fast"]).current_dir(root);
        command.args(with_examples.iter().flat_map(|package| ["--package", package]));
        let begun = Instant::now();
        let output = command.output()?;
        all = told("examples in documents", &output, begun.elapsed());
    }
    let (all, failures) = side_by_side(pending, all)?;
    // Once more, without what came between.
    failures.iter().for_each(|failure| println!("{failure}"));
    let line = format!("{} passed, {} failed", all.passed, all.failed);
    std::fs::write(target_directory(root).join("tests.txt"), format!("{line}\n"))?;
    println!("{line}");
    Ok(all.failed == 0)
}

fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |place| root.join(place))
}

/// Whether this process ignores Ctrl-C, as one does that a shell started in the background.
fn interrupts_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    // SIGINT is signal 2, so its bit is the second.
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

/// Builds all test executables; or those that are wanted, with the programs and shared objects that they may start.
fn executables(root: &Path, wanted: &[&str]) -> anyhow::Result<Vec<Executable>> {
    let mut found = Vec::new();
    if !wanted.is_empty() {
        built(root, &["build", "--workspace"])?;
    }
    let selection = selection(wanted, &kinds(root)?)?;
    let words: Vec<&str> = selection.iter().map(String::as_str).collect();
    for line in String::from_utf8(built(root, &words)?.stdout)?.lines() {
        let message: Value = serde_json::from_str(line).context("cargo's messages are JSON")?;
        found.extend(executable(&message));
    }
    ensure!(!found.is_empty(), "cargo built no tests");
    // Emulators first: they are the longest, and what sleeps runs beside them. Those that want quiet come last.
    found.sort_by_key(|one: &Executable| (one.group, one.name.clone()));
    Ok(found)
}

/// Cargo, without what it says to this program of its package: build scripts that look at it (that of ring) would run again.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let said = |name: &String| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    names.filter(said).for_each(|name| _ = command.env_remove(name));
    command
}

fn built(root: &Path, words: &[&str]) -> anyhow::Result<Output> {
    let mut command = cargo();
    command.args(words).args(["--locked", "--message-format=json-render-diagnostics"]);
    let built = command.current_dir(root).stderr(Stdio::inherit()).output().context("starting cargo")?;
    ensure!(built.status.success(), "`cargo {}` ended with {}", words.join(" "), built.status);
    Ok(built)
}

/// What each target is, by `package/target`: `lib`, `bin`, `test` and others. A library and a program may share a name.
fn kinds(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--no-deps", "--format-version", "1", "--locked"]).current_dir(root);
    let metadata: Value = serde_json::from_slice(&command.output().context("starting cargo")?.stdout)?;
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = format!("{}/{}", words(&package["name"]), words(&target["name"]));
            let all = target["kind"].as_array().into_iter().flatten().map(words);
            kinds.entry(name).or_default().extend(all);
        }
    }
    Ok(kinds)
}

/// What cargo is to build: everything where nothing is wanted, else no tests but those.
/// `quaver` is always among the packages: without it cargo builds what all share with other features, once more.
fn selection(wanted: &[&str], kinds: &BTreeMap<String, BTreeSet<String>>) -> anyhow::Result<Vec<String>> {
    let mut words = vec!["test".to_owned(), "--no-run".to_owned()];
    if wanted.is_empty() {
        words.push("--workspace".to_owned());
        return Ok(words);
    }
    let (mut packages, mut targets) = (BTreeSet::from(["quaver"]), BTreeSet::new());
    for name in wanted {
        let (package, target) =
            name.split_once('/').with_context(|| format!("{name:?} is not PACKAGE/TARGET"))?;
        packages.insert(package);
        let kinds = kinds.get(*name).with_context(|| format!("there is no test executable {name:?}"))?;
        targets.extend(kinds.iter().map(|kind| match kind.as_str() {
            "bin" | "test" => format!("--{kind} {target}"),
            _ => "--lib".to_owned(),
        }));
    }
    words.extend(packages.iter().flat_map(|package| ["-p".to_owned(), (*package).to_owned()]));
    words.extend(targets.iter().flat_map(|target| target.split(' ').map(str::to_owned)));
    Ok(words)
}

/// The test executable that a message of cargo tells of.
fn executable(message: &Value) -> Option<Executable> {
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // `path+file:///…#name@version`; without the name where the folder has it.
    let (_, named) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = match named.split_once('@') {
        Some((name, _)) => name,
        None => directory.file_name()?.to_str()?,
    };
    let name = format!("{package}/{}", message["target"]["name"].as_str()?);
    let listed = GROUPS.iter().find(|(listed, _)| *listed == name);
    Some(Executable { name, path, directory, group: listed.map_or(Group::Any, |(_, group)| *group) })
}

/// Runs them, each as soon as a lane is free and it goes together with what runs; adds their tests to `all`. Also what each test
/// said that failed.
fn side_by_side(mut pending: Vec<Executable>, mut all: Counts) -> anyhow::Result<(Counts, Vec<String>)> {
    let mut failures = Vec::new();
    let (ended, endings) = channel();
    let mut running: BTreeMap<String, Group> = BTreeMap::new();
    while !pending.is_empty() || !running.is_empty() {
        while let Some(place) = next(&pending, &running) {
            let one = pending.remove(place);
            running.insert(one.path.display().to_string(), one.group);
            start(one, ended.clone());
        }
        let (one, output, took) = endings.recv().context("an executable runs")?;
        running.remove(&one.path.display().to_string());
        let output = output?;
        let counts = told(&one.name, &output, took);
        failures.extend(failures_of(&one.name, &String::from_utf8_lossy(&output.stdout)));
        all = Counts { passed: all.passed + counts.passed, failed: all.failed + counts.failed };
    }
    Ok((all, failures))
}

/// Place of the next executable that may start.
fn next(pending: &[Executable], running: &BTreeMap<String, Group>) -> Option<usize> {
    let fits = |one: &Executable| running.values().all(|group| go_together(one.group, *group));
    if running.len() < LANES { pending.iter().position(fits) } else { None }
}

type Ending = (Executable, std::io::Result<Output>, Duration);

fn start(one: Executable, ended: Sender<Ending>) {
    std::thread::spawn(move || {
        let begun = Instant::now();
        let mut command = Command::new(&one.path);
        command.current_dir(&one.directory).env("CARGO_MANIFEST_DIR", &one.directory).stdin(Stdio::null());
        let output = command.output();
        // Nobody listens any more where another executable could not be started.
        let _ = ended.send((one, output, begun.elapsed()));
    });
}

/// Shows how one ended, with all that it printed where a test failed.
fn told(name: &str, output: &Output, took: Duration) -> Counts {
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = counts_of(&text, output.status.success());
    let mark = if counts.failed > 0 { "FAILED" } else { "ok" };
    println!(
        "{mark:6} {:6.1} s {:5} passed {:3} failed  {name}",
        took.as_secs_f64(),
        counts.passed,
        counts.failed
    );
    if counts.failed > 0 {
        println!("{text}{}{name} ended with {}", String::from_utf8_lossy(&output.stderr), output.status);
    }
    counts
}

/// For each failed test its name and the first and the last panic: the cause where one thread waits for another, and the least case of a
/// property.
fn failures_of(name: &str, text: &str) -> Vec<String> {
    const LONGEST: usize = 600;
    let mut failures = Vec::new();
    for section in text.split("\n---- ").skip(1) {
        let Some((test, said)) = section.split_once(" stdout ----\n") else { continue };
        let mut panics = said.split("\nthread '").skip(1).filter_map(|panic| {
            let message = panic.split_once(" panicked at ")?.1;
            let end = message.find("\nstack backtrace:").or_else(|| message.find("\nnote: "));
            Some(message.get(..end?)?.chars().take(LONGEST).collect::<String>())
        });
        let without = || said.lines().next().unwrap_or_default().to_owned();
        let first = panics.next().unwrap_or_else(without);
        let last = panics.last().map(|last| format!("\n… {last}")).unwrap_or_default();
        failures.push(format!("FAILED {name} {test}: {first}{last}"));
    }
    failures
}

/// Sums of the lines `test result: ok. 3 passed; 0 failed; …`. One that ends badly without a failed test, or well without
/// such a line, has failed.
fn counts_of(text: &str, ended_well: bool) -> Counts {
    let mut counts = Counts::default();
    let mut lines = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |what: &str| {
            let part = line.split([';', '.']).map(str::trim).find_map(|part| part.strip_suffix(what));
            part.and_then(|number| number.trim().parse::<u64>().ok())
        };
        if let (Some(passed), Some(failed)) = (number("passed"), number("failed")) {
            counts = Counts { passed: counts.passed + passed, failed: counts.failed + failed };
            lines += 1;
        }
    }
    if counts.failed == 0 && !(ended_well && lines > 0) {
        counts.failed = 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(name: &str, group: Group) -> Executable {
        Executable { name: name.to_owned(), path: name.into(), directory: "/".into(), group }
    }

    #[test]
    fn results_are_added_and_a_crash_is_a_failure() {
        let ok = "running 3 tests\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out; finished in 1.87s\n";
        let bad = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(counts_of(ok, true), Counts { passed: 3, failed: 0 });
        assert_eq!(counts_of(&format!("{ok}{bad}"), false), Counts { passed: 5, failed: 1 });
        assert_eq!(counts_of(ok, false), Counts { passed: 3, failed: 1 });
        for ended_well in [false, true] {
            assert_eq!(counts_of("running 3 tests\n", ended_well), Counts { passed: 0, failed: 1 });
        }
    }

    #[test]
    fn of_each_failed_test_the_first_and_the_last_panic_are_told_again() {
        let text = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\n\nthread 'a' (7) panicked at x.rs:1:2:\nten\nof it\n\
                    stack backtrace:\n  0: f\nnote: more\n\nthread 'a' (7) panicked at x.rs:1:2:\none\nnote: run with\n\n\
                    ---- b::c stdout ----\nError: \"no\"\n\nfailures:\n    a\n    b::c\n";
        let told = failures_of("p/t", text);
        assert_eq!(
            told,
            ["FAILED p/t a: x.rs:1:2:\nten\nof it\n… x.rs:1:2:\none", "FAILED p/t b::c: Error: \"no\""]
        );
        assert!(failures_of("p/t", "test result: ok. 3 passed; 0 failed;\n").is_empty());
    }

    #[test]
    fn what_must_not_run_together_waits() {
        use Group::{Any, Emulator, Host, Quiet, Stamping, Unstamped};
        for (a, b, together) in [
            (Any, Any, true),
            (Any, Host, true),
            (Emulator, Host, true),
            (Any, Emulator, true),
            (Host, Host, false),
            (Host, Unstamped, false),
            (Unstamped, Unstamped, false),
            (Unstamped, Stamping, false),
            (Unstamped, Any, true),
            (Host, Stamping, true),
            (Stamping, Stamping, true),
            (Emulator, Emulator, false),
            (Quiet, Any, false),
            (Quiet, Quiet, false),
        ] {
            assert_eq!((go_together(a, b), go_together(b, a)), (together, together), "{a:?} {b:?}");
        }
        let pending = [made_up("b", Emulator), made_up("c", Quiet), made_up("d", Host)];
        let mut running = BTreeMap::from([("a".to_owned(), Emulator)]);
        assert_eq!(next(&pending, &running), Some(2));
        running.insert("d".to_owned(), Host);
        assert_eq!(next(&pending, &running), None, "nothing goes together with what runs");
        let any = [made_up("e", Any)];
        assert_eq!(next(&any, &running), None, "all lanes are taken");
        assert_eq!(next(&pending[1..2], &BTreeMap::new()), Some(0));
        assert_eq!(next(&pending[1..2], &BTreeMap::from([("a".to_owned(), Any)])), None);
    }

    #[test]
    fn of_wanted_tests_no_others_are_built() {
        let kinds = [
            ("quaver/noise", "test"),
            ("quaver/tiers", "test"),
            ("quaver-clock/quaver_clock", "lib"),
            ("quaver-testbed/truth", "bin"),
        ];
        let kinds = kinds.map(|(name, kind)| (name.to_owned(), BTreeSet::from([kind.to_owned()]))).into();
        let line = |wanted: &[&str]| selection(wanted, &kinds).unwrap().join(" ");
        assert_eq!(line(&[]), "test --no-run --workspace");
        assert_eq!(
            line(&["quaver/noise", "quaver-clock/quaver_clock", "quaver/tiers"]),
            "test --no-run -p quaver -p quaver-clock --lib --test noise --test tiers"
        );
        assert_eq!(line(&["quaver-testbed/truth"]), "test --no-run -p quaver -p quaver-testbed --bin truth");
        assert!(selection(&["noise"], &kinds).is_err() && selection(&["quaver/none"], &kinds).is_err());
    }

    #[test]
    fn only_tests_among_cargos_messages_are_executables() {
        let message = |test: bool, executable: &str| {
            serde_json::json!({
                "manifest_path": "/somewhere/quaver/Cargo.toml", "profile": { "test": test },
                "package_id": "path+file:///somewhere/quaver#0.1.0",
                "target": { "name": "osnoise" }, "executable": executable,
            })
        };
        let mut other = message(true, "/built/clock_live-1");
        other["package_id"] = "path+file:///somewhere/core/clock#quaver-clock@0.1.0".into();
        assert_eq!(executable(&other).unwrap().name, "quaver-clock/osnoise");
        let found = executable(&message(true, "/built/osnoise-1")).unwrap();
        assert_eq!((found.name.as_str(), found.group), ("quaver/osnoise", Group::Quiet));
        assert_eq!(found.directory, Path::new("/somewhere/quaver"));
        assert!(executable(&message(false, "/built/osnoise-1")).is_none());
        assert!(executable(&serde_json::json!({ "reason": "build-finished", "success": true })).is_none());
    }
}
