//! Blame from end to end: lateness of three known kinds is injected into running chases, and most of it goes to its cause.
//!
//! What is judged is the difference between blocks of one run with and without injection (`quaver_testbed::phase`), so that
//! other work on this machine is in both. It is never in both evenly, so a name counts once its difference is more than chance
//! makes. `make truth` judges more kinds, for longer and more strictly.

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Kinds of interference, as `truth` calls them: the scheduler's limit on real-time threads, interrupts, and another thread.
/// Real-time threads are the burner's, in `chase_origins` and `chase_far`.
const KINDS: [&str; 3] = ["rt-throttling", "timer-storm", "same-priority"];
/// At least this part of the injected lateness goes to the right name …
const RIGHT_AT_LEAST: f64 = 0.80;
/// … also with all that chance gave to others in, more than this part …
const RIGHT_AT_ALL: f64 = 0.50;
/// … and at most this part to one wrong name.
const WRONG_AT_MOST: f64 = 0.10;
/// Less injected lateness than this proves nothing.
const LEAST_INJECTED_NS: i64 = 1_000_000;

/// The judge, which lies beside the program under test.
fn truth() -> PathBuf {
    let quaver = Path::new(env!("CARGO_BIN_EXE_quaver"));
    let path = quaver.with_file_name("truth");
    if !path.exists() {
        // `make test` and `cargo test --workspace` have built it.
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--offline",
                "--package",
                "quaver-testbed",
                "--bin",
                "truth",
                "--target-dir",
            ])
            .arg(quaver.ancestors().nth(2).expect("target/PROFILE/quaver"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .output()
            .expect("cargo, which runs this test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    path
}

#[test]
fn injected_lateness_is_blamed_on_what_was_injected() {
    if !privileged("injected_lateness_is_blamed_on_what_was_injected") {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let ended = Command::new(truth())
        .args(["--as-it-is", "--for", "5", "--out"])
        .arg(out.path())
        .args(KINDS)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    // 1 is its own, stricter verdict.
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}: {said}", ended.status);
    println!("{said}{}", String::from_utf8_lossy(&ended.stdout));
    let verdicts: Value =
        serde_json::from_slice(&std::fs::read(out.path().join("verdicts.json")).unwrap()).unwrap();
    let verdicts = verdicts.as_array().unwrap();
    assert_eq!(verdicts.iter().map(|verdict| verdict["case"].as_str().unwrap()).collect::<Vec<_>>(), KINDS);
    for verdict in verdicts {
        let injected_ns: i64 =
            verdict["injected_ns"].as_object().unwrap().values().map(|ns| ns.as_i64().unwrap()).sum();
        assert!(injected_ns >= LEAST_INJECTED_NS, "{verdict}");
        let share = |of: &str| verdict["beyond_chance"][of].as_f64().unwrap();
        assert!(share("right") >= RIGHT_AT_LEAST, "{verdict}");
        assert!(verdict["right_share"].as_f64().unwrap() > RIGHT_AT_ALL, "{verdict}");
        assert!(share("wrong") <= WRONG_AT_MOST, "{verdict}");
    }
}
