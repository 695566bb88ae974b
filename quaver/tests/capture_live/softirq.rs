//! `--cores softirq=N`: packets of the interface on one CPU for as long as the capture lasts, whatever ends it.

use super::support::*;
use quaver_host::netns::{Lab, LabEnd};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Output};

/// A command that sees `/sys` of its network namespace, as `ip netns exec` has it, and a journal of its own.
fn command(journals: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = "mount -t sysfs sysfs /sys && mount --bind \"$0\" /var/lib && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(journals).args(words);
    command
}

fn within(at: &LabEnd, journals: &Path, words: &[&str]) -> Output {
    at.within(|| command(journals, words).output().unwrap()).unwrap()
}

/// CPUs that packets are steered to, as the kernel writes the mask.
fn steered(at: &LabEnd, journals: &Path) -> u64 {
    let file = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", at.interface);
    let read = within(at, journals, &["cat", &file]);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    u64::from_str_radix(&String::from_utf8(read.stdout).unwrap().trim().replace(',', ""), 16).unwrap()
}

fn capture(lab: &Lab, journals: &Path, more: &[&str]) -> Capture {
    let words = [QUAVER, "capture", "-i", &lab.sink.interface, "--json", "--cores", "softirq=0"];
    Capture::spawn(&lab.sink, command(journals, &[&words, more].concat()))
}

#[test]
fn packets_are_processed_on_one_cpu_until_the_capture_ends_in_whatever_way() {
    if !privileged("packets_are_processed_on_one_cpu_until_the_capture_ends_in_whatever_way") {
        return;
    }
    let lab = Lab::create().unwrap();
    let journals = tempfile::tempdir().unwrap();
    let path = journals.path().join("out.pcapng");
    let file = path.to_str().unwrap();
    let mask = || steered(&lab.sink, journals.path());
    let options = ["-o", file, "--direction", "in", "udp dst port 9"];
    assert_eq!(mask(), 0);

    let running = capture(&lab, journals.path(), &options);
    assert!(running.heard.concat().contains("packets on CPU 0: /sys/class/net/"), "{:?}", running.heard);
    assert_eq!(mask(), 1);
    let sent = send(&lab, std::iter::repeat_n(200, 100));
    // Another that wants to change settings is told who does.
    let other = ["capture", "-i", &lab.sink.interface, "-o", "/dev/null", "--cores", "softirq=0"];
    let other = within(&lab.sink, journals.path(), &[&[QUAVER], &other[..]].concat());
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(other.status.code() == Some(6) && said.contains("quaver capture (process "), "{said}");
    let summary = running.end();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), mask()), (sent, 0));

    // A failure after it was set.
    let nowhere = ["capture", "-i", &lab.sink.interface, "-o", "/nowhere/x", "--cores", "softirq=0"];
    let failed = within(&lab.sink, journals.path(), &[&[QUAVER], &nowhere[..]].concat());
    assert_eq!((failed.status.code(), mask()), (Some(6), 0));

    // Killed: put back by hand, and by the next capture that sets it.
    let kill = || {
        let running = capture(&lab, journals.path(), &options);
        running.signal(Signal::KILL);
        running.wait();
        assert_eq!(mask(), 1);
    };
    kill();
    let reverted = within(&lab.sink, journals.path(), &[QUAVER, "tune", "revert"]);
    assert_eq!((reverted.status.code(), mask()), (Some(0), 0));
    kill();
    let running = capture(&lab, journals.path(), &options);
    assert!(running.heard.concat().contains("restored to 0: left by a killed quaver capture"));
    assert_eq!(mask(), 1);
    running.end();
    assert_eq!(mask(), 0);
}

#[test]
fn another_namespaces_interface_is_never_taken_for_ours() {
    if !privileged("another_namespaces_interface_is_never_taken_for_ours") {
        return;
    }
    let lab = Lab::create().unwrap();
    // `/sys` as this test sees it shows the interfaces of the namespace that it was started in.
    let words = ["capture", "-i", &lab.sink.interface, "-o", "/dev/null", "--cores", "softirq=0"];
    let output = lab.sink.within(|| Command::new(QUAVER).args(words).output().unwrap()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("ip netns exec"), "{said}");
}
