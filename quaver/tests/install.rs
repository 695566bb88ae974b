//! `packaging/install.sh`, and what it installs, run from where it was put.

mod kernel_build;
#[path = "kernel_build/recorder.rs"]
mod recorder;
mod simulator;

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn install(build: &Path, prefix: &str, destination: &Path) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/install.sh"))
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
    simulator::build_simulator();
    kernel_build::kernel("ocean");
    let build = Path::new(env!("CARGO_BIN_EXE_quaver")).parent().expect("target/PROFILE/quaver");
    let place = tempfile::tempdir().expect("a directory");
    let done = install(build, "/opt/quaver", place.path());
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
    let root = place.path().join("opt/quaver");
    for part in [
        "bin/quaver",
        "bin/quaver-sim",
        "share/man/man1/quaver-sim-run.1",
        "share/bash-completion/completions/quaver-sim",
        "lib/quaver/libquaver_preload.so",
        "lib/quaver/extcap/quaver-extcap",
        "lib/quaver/wireshark/quaver.lua",
        "lib/quaver/kernels/streamcluster",
        "share/quaver/alerts.yaml",
        "share/quaver/dashboard.json",
        "share/man/man1/quaver.1",
        "share/man/man1/quaver-sync.1",
        "share/bash-completion/completions/quaver",
        "share/zsh/site-functions/_quaver",
        "share/fish/vendor_completions.d/quaver.fish",
        "lib/systemd/system/quaver-tune-revert.service",
    ] {
        let path = root.join(part);
        assert!(path.metadata().is_ok_and(|file| file.len() > 0), "{part}");
        assert!(told.contains(path.to_str().expect("letters")), "{part} in {told}");
    }
    let unit =
        std::fs::read_to_string(root.join("lib/systemd/system/quaver-watch.service")).expect("it is text");
    assert!(
        unit.contains("\nExecStart=/opt/quaver/bin/quaver watch") && !unit.contains("/usr/local"),
        "{unit}"
    );
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

/// A program that writes its arguments into a file beside it.
fn stand_in(path: &Path, more: &str) {
    let text = format!("#!/bin/sh\necho \"$@\" >>'{}.said'\n{more}", path.display());
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    quaver_testbed::stand_in::stand_in(path, &text);
}

#[test]
fn the_demo_leaves_all_that_sync_and_install_look_for() {
    let place = tempfile::tempdir().expect("a directory");
    let (bin, target) = (place.path().join("bin"), place.path().join("target"));
    stand_in(&bin.join("cargo"), "");
    stand_in(&bin.join("make"), "");
    stand_in(&bin.join("id"), "echo 0");
    // The program below is a script: it has no sections, and so no line tables to move.
    stand_in(&bin.join("readelf"), "");
    stand_in(&target.join("release/quaver"), "");
    let search = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a search path"));
    let ran = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/demo.sh"))
        .env("PATH", search)
        .env("CARGO_TARGET_DIR", &target)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said =
        |program: &Path| std::fs::read_to_string(format!("{}.said", program.display())).expect("it was run");
    let built = said(&bin.join("cargo"));
    for package in ["quaver", "quaver-preload", "quaver-qemu-plugin"] {
        assert!(built.split_whitespace().any(|word| word == package), "{package} in {built}");
    }
    // `quaver sync bench` looks one above the program, and so does the script that installs.
    let made = said(&bin.join("make"));
    assert!(
        made.contains("-C kernels") && made.contains(&format!("OUT={}/kernels", target.display())),
        "{made}"
    );
    assert!(said(&target.join("release/quaver")).starts_with("chase --for 10s"));
}

#[test]
fn what_was_not_built_is_not_installed() {
    let place = tempfile::tempdir().expect("a directory");
    let none = install(place.path(), "/opt/quaver", place.path());
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("make build"));
    assert!(!place.path().join("opt").exists());
}
