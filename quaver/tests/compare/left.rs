//! What a comparison that was killed leaves, and who takes it away.

use super::{left_by, privileged, quaver, wait_for_run};
use quaver_host::tracefs::open_tracefs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn comparison(runs: &Path) -> Child {
    let words = [
        "capture",
        "--compare",
        "--pattern",
        "2",
        "--packets",
        "10",
        "--rounds",
        "1",
        "--no-loss",
        "--quiet",
    ];
    quaver(runs, &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Trace instances of the process `pid`.
fn instances_of(pid: u32) -> Vec<String> {
    let (root, _) = open_tracefs().unwrap();
    let own = format!("quaver-{pid}-");
    root.names("instances").unwrap().into_iter().filter(|name| name.starts_with(&own)).collect()
}

/// Ends a comparison by force while it looks into the kernel; its number, and the trace instances that it left.
fn killed(runs: &Path) -> (u32, Vec<String>) {
    let mut child = comparison(runs);
    wait_for_run(runs, &mut child);
    let (pid, end) = (child.id(), Instant::now() + Duration::from_secs(60));
    while instances_of(pid).len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended of itself");
        assert!(Instant::now() < end, "it looks into the kernel");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    (pid, instances_of(pid))
}

#[test]
fn trace_instances_of_a_killed_comparison_are_gone_with_the_next() {
    if !privileged("trace_instances_of_a_killed_comparison_are_gone_with_the_next")
        || cfg!(not(target_arch = "x86_64"))
    {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let (pid, left) = killed(runs.path());
    // Comparisons that run beside this one sweep as well, so fewer may be there by now.
    assert!(left.iter().all(|name| name.starts_with(&format!("quaver-{pid}-"))), "{left:?}");
    let next = tempfile::tempdir().unwrap();
    let child = comparison(next.path());
    let number = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(left_by(pid).is_empty() && left_by(number).is_empty());
}
