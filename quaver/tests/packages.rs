//! `packaging/`: what is packed from the build under test is installed, run and removed again.

mod kernel_build;
#[path = "kernel_build/recorder.rs"]
mod recorder;
mod simulator;

use quaver_testbed::privileged::{Lack, privileged, skip};
use quaver_testbed::stand_in::stand_in;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(name)
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("a shell")
}

fn done(command: &mut Command) -> String {
    let output = run(command);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// Packs the build under test at a made-up time of commit.
fn pack(out: &Path, formats: &[&str]) {
    let build = Path::new(env!("CARGO_BIN_EXE_quaver")).parent().expect("target/PROFILE/quaver");
    // A debug build is large: its package is stored as it is.
    let mut packing = Command::new(packaging("pack.sh"));
    packing.arg(build).arg(out).args(formats);
    packing.env("SOURCE_DATE_EPOCH", "1700000000").env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    done(&mut packing);
}

#[test]
fn packages_are_installed_run_and_removed_without_a_trace() {
    let name = "packages_are_installed_run_and_removed_without_a_trace";
    if !privileged(name) {
        return;
    }
    if !run(Command::new("umoci").arg("--version")).status.success() {
        return skip(name, Lack::Installed("umoci"));
    }
    recorder::build_recorder();
    simulator::build_simulator();
    kernel_build::kernel("ocean");
    let place = tempfile::tempdir().expect("a directory");
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    pack(&first, &["deb", "oci"]);
    let told = done(Command::new(packaging("try.sh")).arg(&first));
    assert!(told.contains("deb: installed, run, removed without a trace"), "{told}");
    assert!(told.contains("oci: unpacked by umoci, run"), "{told}");
    pack(&second, &["deb"]);
    let sums = |out: &Path| std::fs::read_to_string(out.join("SHA256SUMS")).expect("it was written");
    let (sums_of_first, sums_of_second) = (sums(&first), sums(&second));
    assert!(sums_of_second.contains(".deb\n") && sums_of_second.contains(".cdx.json\n"), "{sums_of_second}");
    for line in sums_of_second.lines() {
        assert!(sums_of_first.contains(line), "{line} is not in:\n{sums_of_first}");
    }
}

/// What the script hands to an engine that writes its arguments down.
fn in_container(engine: &str, words: &[&str]) -> String {
    let place = tempfile::tempdir().expect("a directory");
    let program = place.path().join(engine);
    stand_in(&program, "#!/bin/sh\necho \"$0 $*\"\n");
    let mut script = Command::new(packaging("quaver-in-container"));
    script.args(words).current_dir(place.path()).env_remove("QUAVER_IMAGE");
    let told = done(script.env("QUAVER_ENGINE", &program));
    assert!(place.path().join("runs").is_dir());
    told
}

#[test]
fn a_container_has_what_its_verb_needs_and_no_more() {
    for engine in ["podman", "docker"] {
        let read = in_container(engine, &["report", "last"]);
        assert!(read.contains(&format!("/{engine} run ")), "{read}");
        assert!(read.contains("--cap-drop ALL") && !read.contains("--cap-add"), "{read}");
        assert!(read.trim_end().ends_with("localhost/quaver:latest report last"), "{read}");
        let watched = in_container(engine, &["watch", "--pid", "1"]);
        for capability in ["BPF", "PERFMON", "SYSLOG", "SYS_PTRACE", "DAC_READ_SEARCH"] {
            assert!(watched.contains(&format!("--cap-add {capability} ")), "{capability} in {watched}");
        }
        assert!(watched.contains("--pid host") && !watched.contains("SYS_ADMIN"), "{watched}");
    }
}
