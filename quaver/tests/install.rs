//! `packaging/install.sh`, and what it installs, run from where it was put.

mod kernel_build;
#[path = "kernel_build/recorder.rs"]
mod recorder;

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn install(build: &Path, prefix: &str, destination: &Path) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/install.sh"))
        .arg(build)
        .env("PREFIX", prefix)
        .env("DESTDIR", destination)
        .stdin(Stdio::null())
        .output()
        .expect("a shell")
}

fn installed(bin: &Path, words: &[&str], runs: &Path) -> Output {
    Command::new(bin)
        .args(words)
        .env("QUAVER_RUNS", runs)
        .env_remove("QUAVER_LIBDIR")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .expect("it was installed")
}

#[test]
fn what_is_installed_finds_its_parts() {
    recorder::build_recorder();
    kernel_build::kernel("ocean");
    let build = Path::new(env!("CARGO_BIN_EXE_quaver")).parent().expect("target/PROFILE/quaver");
    let place = tempfile::tempdir().expect("a directory");
    let done = install(build, "/opt/quaver", place.path());
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
    let root = place.path().join("opt/quaver");
    for part in [
        "bin/quaver",
        "lib/quaver/libquaver_preload.so",
        "lib/quaver/kernels/streamcluster",
        "share/man/man1/quaver.1",
        "share/man/man1/quaver-sync.1",
        "share/bash-completion/completions/quaver",
        "share/zsh/site-functions/_quaver",
        "share/fish/vendor_completions.d/quaver.fish",
    ] {
        let path = root.join(part);
        assert!(path.metadata().is_ok_and(|file| file.len() > 0), "{part}");
        assert!(told.contains(path.to_str().expect("letters")), "{part} in {told}");
    }
    let (bin, runs) = (root.join("bin/quaver"), place.path().join("runs"));
    let ocean = root.join("lib/quaver/kernels/ocean");
    let words =
        ["sync", "--quiet", "--no-kernel", "--json", "--", ocean.to_str().expect("letters"), "-p2", "-n64"];
    let recorded = installed(&bin, &words, &runs);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let summary =
        std::fs::read_dir(&runs).expect("a run was made").next().expect("one").expect("it is there");
    let summary = std::fs::read(summary.path().join("summary.json")).expect("it was written");
    let summary: serde_json::Value = serde_json::from_slice(&summary).expect("it is JSON");
    assert_eq!(summary.pointer("/results/counts/threads").and_then(serde_json::Value::as_u64), Some(2));
    let words = ["sync", "bench", "--quiet", "--only", "ocean", "--runs", "1", "--size", "64", "--no-kernel"];
    let benched = installed(&bin, &words, &runs);
    assert!(benched.status.success(), "{}", String::from_utf8_lossy(&benched.stderr));
}

#[test]
fn what_was_not_built_is_not_installed() {
    let place = tempfile::tempdir().expect("a directory");
    let none = install(place.path(), "/opt/quaver", place.path());
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("make build"));
    assert!(!place.path().join("opt").exists());
}
