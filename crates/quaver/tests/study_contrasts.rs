//! What the paper found, found again between two namespaces of this machine: contrasts within one run, arms in random order.
//! Only what a share of packets says is compared; no latency is asserted.

use serde_json::Value;
use std::process::{Command, Stdio};

/// Two factors that must show and one that must not. The sender may lose its CPU: on a shared machine it does in every arm.
const PLAN: &str = "
[study]
for = '400ms'
warm-up = '200ms'
blocks = 7
rank-by = 'lt.5T'
sender-limit = 1.0
[[factor]]
id = 'throttled'
throttle = '100us'
[[factor]]
id = 'blocking'
receive = 'block'
[[factor]]
id = 'gro'
gro = true
";

#[test]
fn throttling_costs_most_blocking_costs_and_gro_alone_does_nothing_like_it() {
    let name = "throttling_costs_most_blocking_costs_and_gro_alone_does_nothing_like_it";
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("QUAVER_REQUIRE_PRIVILEGED").is_none(), "{name} must not be skipped here");
        println!("SKIPPED (needs root): {name}");
        return;
    }
    let cpus = rustix::thread::sched_getaffinity(None).unwrap().count();
    assert!(cpus >= 2, "source and sink want a CPU each");
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    // In a session of its own, which it can weigh: niceness does nothing against the work of other sessions.
    let mut command = Command::new("setsid");
    command
        .args(["-w", env!("CARGO_BIN_EXE_quaver"), "study", "run", "--quiet", "--json", "-o"])
        .arg(directory.path())
        .arg(&plan);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["cells_planned"].as_u64(), Some(35), "7 blocks of 5 arms");
    let all = summary["ranking"].as_array().unwrap().iter().chain(summary["controls"].as_array().unwrap());
    let differences: std::collections::BTreeMap<&str, f64> = all
        .map(|effect| (effect["arm"].as_str().unwrap(), effect["ranked"]["difference"].as_f64().unwrap()))
        .collect();
    println!("{differences:#?}");
    let first = &summary["ranking"][0];
    assert_eq!((&first["arm"], &first["verdict"]), (&"throttled".into(), &"worse".into()), "{summary:#}");
    assert!(differences["blocking"] > 0.0, "{differences:?}");
    for null in ["gro", "control (A/A)"] {
        assert!(differences[null].abs() * 4.0 < differences["throttled"], "{differences:?}");
    }
}
