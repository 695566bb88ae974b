//! `quaver cure`: what it refuses before it measures, and that nothing of a trial outlives it, however it ends.

use quaver_analysis::order::below;
use quaver_testbed::privileged::privileged;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Held by tests that look at the settings of the host, or measure who has its CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// What the row `compaction` sets to 0.
const SETTINGS: [&str; 2] =
    ["/proc/sys/vm/compaction_proactiveness", "/proc/sys/vm/compact_unevictable_allowed"];

fn settings() -> [Vec<u8>; 2] {
    SETTINGS.map(|path| std::fs::read(path).unwrap())
}

fn quaver(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(arguments).env("QUAVER_TUNE_JOURNAL", directory.join("journal"));
    command.env("QUAVER_RUNS", directory.join("runs")).stdin(Stdio::null());
    command
}

/// A cure that tries a setting of the host without effect on this stream.
fn cure(directory: &Path, more: &[&str]) -> Command {
    let stream = ["cure", "--quiet", "--json", "--lab", "loopback", "--period", "1ms", "--tier", "user"];
    let mut command = quaver(directory, &stream);
    command.args(["--allow", "host", "--only", "compaction", "--seed", "1"]).args(more);
    command
}

/// The same on loops, whose blocks take less beside what they measure.
fn noise_cure(directory: &Path, time: &str) -> Command {
    let mut command = quaver(directory, &["cure", "noise", "1", "--quiet", "--json", "--tier", "user"]);
    command.args(["--allow", "host", "--only", "compaction", "--seed", "1", "--yes", "--for", time]);
    command
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let output = cure(directory.path(), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
    assert!(error(&output).contains("--yes"), "{}", error(&output));
    let unknown = quaver(directory.path(), &["cure", "--dry-run", "--only", "no-such-row"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{}", error(&unknown));
    for words in [&["--objective", "deadline-misses"][..], &["--deadline", "1ms"]] {
        let alone = cure(directory.path(), &[&["--yes"], words].concat()).output().unwrap();
        assert_eq!(alone.status.code(), Some(2), "{}", error(&alone));
        assert!(error(&alone).contains("need each other"), "{}", error(&alone));
    }
    let below = directory.path().join("no-systemd").to_string_lossy().into_owned();
    let bare = cure(directory.path(), &["--yes", "--persist", "--persist-below", &below]).output().unwrap();
    assert_eq!(bare.status.code(), Some(3), "{}", error(&bare));
    assert!(error(&bare).contains("--persist needs systemd"), "{}", error(&bare));
    assert!(!directory.path().join("runs").exists() && !directory.path().join("journal").exists());
}

#[test]
fn killed_at_any_moment_it_leaves_nothing_that_a_revert_does_not_put_back() {
    let name = "killed_at_any_moment_it_leaves_nothing_that_a_revert_does_not_put_back";
    if !privileged(name) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = settings();
    assert!(before.iter().any(|value| value != b"0\n"), "there is something to set: {before:?}");
    // Each takes some seconds; more by the environment. The moments are drawn from a seed.
    let kills = std::env::var("QUAVER_CURE_KILLS").map_or(4, |text| text.parse().unwrap());
    let mut random = Pcg64Mcg::seed_from_u64(21);
    let directory = tempfile::tempdir().unwrap();
    let mut in_force = 0_u32;
    for kill in 0..kills {
        let mut child = noise_cure(directory.path(), "90s").stdout(Stdio::null()).spawn().unwrap();
        // Each second one ends it in the two seconds after the setting is first in force; the rest in the first eight.
        let most_ms = if kill % 2 == 0 { 2_000 } else { 8_000 };
        let delay = Duration::from_millis(below(&mut random, most_ms) as u64);
        let begun = Instant::now();
        while kill % 2 == 0 && settings() == before && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        let at_kill = settings();
        in_force += u32::from(at_kill != before);
        let revert = quaver(directory.path(), &["tune", "revert"]).output().unwrap();
        assert_eq!(revert.status.code(), Some(0), "kill {kill}: {}", error(&revert));
        assert_eq!(settings(), before, "kill {kill}");
        println!(
            "kill {kill}: {:.3} s after its start, in force {}",
            begun.elapsed().as_secs_f64(),
            at_kill != before
        );
    }
    assert!(in_force > 0, "no kill met a setting in force");
}

#[test]
fn interrupted_it_keeps_its_blocks_and_no_setting_and_meanwhile_there_is_no_second_one() {
    let name = "interrupted_it_keeps_its_blocks_and_no_setting_and_meanwhile_there_is_no_second_one";
    if !privileged(name) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = settings();
    let directory = tempfile::tempdir().unwrap();
    let mut child = cure(directory.path(), &["--yes", "--for", "60s"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // Until its first block with the setting is over, so that there is something to keep.
    for expected in [false, true, false] {
        while (settings() == before) == expected && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let second = cure(directory.path(), &["--yes", "--for", "60s"]).output().unwrap();
    assert_eq!(second.status.code(), Some(6), "{}", error(&second));
    let busy = format!("quaver cure (process {}) is changing settings of this machine; wait", child.id());
    assert!(error(&second).contains(&busy), "{}", error(&second));
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: the child runs, or has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", error(&output));
    assert_eq!(settings(), before);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["outcome"], "it was interrupted, and every setting was put back");
    let blocks = summary["trial_blocks"].as_array().unwrap();
    assert!(
        blocks.iter().any(|block| block["arm"] == 1) && summary["kept"] == serde_json::json!([]),
        "{summary}"
    );
    assert!(summary["remedies"][0]["verdict"].is_null(), "{summary}");
}

#[test]
fn who_writes_a_setting_during_its_block_is_named_and_what_was_written_stays() {
    let name = "who_writes_a_setting_during_its_block_is_named_and_what_was_written_stays";
    if !privileged(name) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = settings();
    let directory = tempfile::tempdir().unwrap();
    let mut child = noise_cure(directory.path(), "3min");
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Both settings, so that the block has begun: it measures for more than a second.
    let begun = Instant::now();
    let in_force = || settings() == [b"0\n".to_vec(), b"0\n".to_vec()];
    while !in_force() && begun.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::write(SETTINGS[0], "33\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let after = settings();
    std::fs::write(SETTINGS[0], &before[0]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    assert_eq!(
        after,
        [b"33\n".to_vec(), before[1].clone()],
        "what somebody else wrote stays, the rest is back"
    );
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let void = summary["trial_blocks"].as_array().unwrap().iter().filter_map(|block| block["void"].as_str());
    let void: Vec<&str> = void.collect();
    let [reason] = void[..] else { panic!("{void:?}") };
    let me = format!("(process {}) changed vm.compaction_proactiveness meanwhile", std::process::id());
    assert!(reason.contains(&me) && reason.ends_with("so it is left alone from then on"), "{reason}");
    assert_eq!(summary["remedies"][0]["withdrawn"], reason);
    assert_eq!(summary["kept"], serde_json::json!([]));
    // The journal has let go of it.
    let status = quaver(directory.path(), &["tune", "status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["changes"], serde_json::json!([]), "{status}");
}

/// A program whose runs take a tenth of the time where it may use every CPU, and one whose runs do not.
const CONFINED: &str = "test \"$(nproc)\" = 1 && sleep 0.3; exit 0";
const UNCONFINED: &str = "sleep 0.05";

/// A cure of a program that is started with one CPU.
fn program_cure(directory: &Path, script: &str, seed: &str) -> serde_json::Value {
    program_cure_of(directory, &["sh", "-c", script], seed, "60s")
}

fn program_cure_of(directory: &Path, program: &[&str], seed: &str, time: &str) -> serde_json::Value {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", env!("CARGO_BIN_EXE_quaver"), "cure", "--quiet", "--json", "--yes"]);
    command.args(["--only", "more-cpus", "--for", time, "--seed", seed, "--"]).args(program);
    command.env("QUAVER_TUNE_JOURNAL", directory.join("journal")).env("QUAVER_RUNS", directory.join("runs"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let status = quaver(directory, &["tune", "status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["changes"], serde_json::json!([]), "nothing of the program's start stays in force");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The part of the CPU time that a program wanted and waited for, in the mean over the blocks of an arm.
fn lost(summary: &serde_json::Value, arm: u64, program: &str) -> f64 {
    let blocks = summary["trial_blocks"].as_array().unwrap().iter().filter(|block| block["arm"] == arm);
    let of = |block: &serde_json::Value| {
        let waits = block["figures"]["waits"].as_array().into_iter().flatten();
        let figure = |one: &serde_json::Value, key: &str| one[key].as_f64().unwrap();
        let of_program = |one: &serde_json::Value| {
            let waiting = figure(one, "waiting");
            waiting / (waiting + figure(one, "used")).max(0.25)
        };
        waits.filter(|one| one["program"] == program).map(of_program).sum::<f64>()
    };
    let lost: Vec<f64> = blocks.map(of).collect();
    lost.iter().sum::<f64>() / lost.len() as f64
}

/// It works for 0.3 s of CPU time: with one CPU after a wait, and with more at once and on the last one.
const STARVING: &str = "
import os, time
cpus = os.sched_getaffinity(0)
if len(cpus) == 1: time.sleep(0.8)
else: os.sched_setaffinity(0, {max(cpus)})
while time.process_time() < 0.3: pass
";

#[test]
fn what_makes_a_run_shorter_at_the_expense_of_another_program_is_taken_back_at_once_and_says_whose() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let last = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let last = last.trim().rsplit([',', '-']).next().unwrap().to_owned();
    assert_ne!(last, "0", "as all tests here it needs two CPUs");
    let mut beside = Command::new("nice");
    let mut beside =
        beside.args(["taskset", "-c", &last, "sh", "-c", "while :; do :; done"]).spawn().unwrap();
    // It ends long before: no proof follows.
    let summary = program_cure_of(directory.path(), &["python3", "-c", STARVING], "1", "10min");
    beside.kill().unwrap();
    beside.wait().unwrap();
    let remedy = &summary["remedies"][0];
    let harms = serde_json::json!({ "verdict": "harms", "guard": "programs" });
    assert_eq!(remedy["verdict"], harms, "{summary}");
    assert_eq!((&summary["kept"], &summary["proof"]), (&serde_json::json!([]), &serde_json::Value::Null));
    let (harm, withdrawn) = (&remedy["harm"], remedy["withdrawn"].as_str().unwrap());
    // Whom a busy host harms beside it may be named instead: the figures are those of the blocks, and it lost in them, too.
    let named = harm["program"].as_str().unwrap();
    assert!(withdrawn.starts_with(&format!("it harmed another program: {named} waited for ")), "{withdrawn}");
    assert!(withdrawn.ends_with("it was taken back at once"), "{withdrawn}");
    for (arm, key) in [(0, "without"), (1, "with")] {
        assert!((harm[key].as_f64().unwrap() - lost(&summary, arm, named)).abs() < 1e-9, "{summary}");
    }
    let neighbour = format!("sh (process {})", beside.id());
    assert!(lost(&summary, 1, &neighbour) > lost(&summary, 0, &neighbour), "{summary}");
    assert_eq!(summary["outcome"], format!("no remedy helps without harm. Of more-cpus: {withdrawn}"));
}

#[test]
fn a_program_that_was_started_with_one_cpu_gets_all_and_one_that_needs_no_more_keeps_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = online.trim();
    assert_ne!(online, "0", "as all tests here it needs two CPUs");
    let directory = tempfile::tempdir().unwrap();
    for seed in ["1", "2", "3"] {
        let summary = program_cure(directory.path(), CONFINED, seed);
        assert_eq!(summary["kept"], serde_json::json!(["more-cpus"]), "seed {seed}: {summary}");
        let command = format!("taskset -c {online} sh -c '{CONFINED}'");
        assert_eq!(summary["command"], command);
        let effect = &summary["proof"]["effect"];
        let of = |key: &str| effect[key].as_f64().unwrap();
        assert!(of("without") > 3e8 && of("with") < of("without"), "{effect}");
    }
    let page = quaver(directory.path(), &["analyze", "last"]).output().unwrap();
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("How to run it") && !page.contains("tune revert takes all of it back"), "{page}");
    let none = program_cure(directory.path(), UNCONFINED, "1");
    assert_eq!(
        (&none["kept"], &none["command"]),
        (&serde_json::json!([]), &serde_json::Value::Null),
        "{none}"
    );
}

#[test]
fn a_program_that_fails_or_is_not_there_is_no_measurement() {
    let directory = tempfile::tempdir().unwrap();
    let failing =
        quaver(directory.path(), &["cure", "--yes", "--quiet", "--", "sh", "-c", "exit 3"]).output();
    let failing = failing.unwrap();
    assert_eq!(failing.status.code(), Some(4), "{}", error(&failing));
    assert!(error(&failing).contains("sh ended with status 3"), "{}", error(&failing));
    let absent = quaver(directory.path(), &["cure", "--yes", "--quiet", "--", "no-such-program"]).output();
    let absent = absent.unwrap();
    assert_eq!(absent.status.code(), Some(2), "{}", error(&absent));
    assert!(error(&absent).contains("no-such-program"), "{}", error(&absent));
    for words in [&["--objective", "sync-share"][..], &["--objective", "late-share", "--", "true"]] {
        let wrong = quaver(directory.path(), &[&["cure", "--yes"], words].concat()).output().unwrap();
        assert_eq!(wrong.status.code(), Some(2), "{}", error(&wrong));
        assert!(error(&wrong).contains("are of programs"), "{}", error(&wrong));
    }
}
