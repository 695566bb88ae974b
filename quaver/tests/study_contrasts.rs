//! What the paper found, found again between two namespaces of this machine: contrasts within one run, arms in random order.
//! Only medians over blocks of the share of packets that come in bunches are compared; no latency is asserted.

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// The sender may lose its CPU: on a shared machine it does in every arm.
const PLAN: &str = "
[study]
for = '150ms'
warm-up = '50ms'
blocks = 5
rank-by = 'lt.5T'
sender-limit = 1.0
trace = false
keep-stamps = false
[[factor]]
id = 'throttled'
throttle = '100us'
[[factor]]
id = 'throttled-blocking'
throttle = '100us'
receive = 'block'
[[factor]]
id = 'blocking'
receive = 'block'
[[factor]]
id = 'busy-poll'
receive = 'busy-poll'
gro = true
tso = false
[[factor]]
id = 'neighbour'
neighbour = true
[[factor]]
id = 'ticker'
ticker = '100us'
ticker-work = '20us'
[[factor]]
id = 'gro'
gro = true
[[factor]]
id = 'timer-slack'
class = 'network-independent'
exact-timers = false
";

/// Median over blocks of the difference between two arms of the same block.
fn difference(cells: &[Value], arm: &str, other: &str, figure: &str) -> f64 {
    let of = |arm: &str, block: u64| {
        let is = |cell: &&Value| cell["arm"] == arm && cell["block"] == block && cell["discarded"].is_null();
        let layers = cells.iter().find(is)?["layers"].as_array()?;
        layers.iter().find(|layer| layer["layer"] == "application")?["figures"][figure].as_f64()
    };
    let mut found: Vec<f64> = (0..5).filter_map(|block| Some(of(arm, block)? - of(other, block)?)).collect();
    assert!(found.len() >= 3, "{arm}: too many cells do not count: {found:?}");
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}

fn cells(directory: &std::path::Path) -> Vec<Value> {
    let run = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let run = run.into_iter().find(|path| path.join("cells").is_dir()).expect("there is a run");
    let files = std::fs::read_dir(run.join("cells")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect()
}

#[test]
fn contrasts_have_the_sign_that_the_paper_found_and_controls_come_out_null() {
    let name = "contrasts_have_the_sign_that_the_paper_found_and_controls_come_out_null";
    if !privileged(name) {
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
    assert_eq!(summary["cells_planned"].as_u64(), Some(50), "5 blocks of 10 arms");
    let cells = cells(directory.path());
    let arms = summary["facts"]["arms"].as_array().unwrap().iter().map(|arm| arm["id"].as_str().unwrap());
    let to_baseline: BTreeMap<&str, [f64; 2]> = arms
        .map(|arm| {
            let of = |figure| difference(&cells, arm, "baseline", figure);
            // The percentile is told and not judged.
            (arm, [of("below_half"), of("p99_ns")])
        })
        .collect();
    println!("{to_baseline:#?}");
    let bunched = |arm: &str| to_baseline[arm][0];
    // Interrupt throttling (figure 11): most packets come in bunches, and blocking then changes next to nothing.
    assert!(bunched("throttled") > 0.3, "{to_baseline:?}");
    let blocks = difference(&cells, "throttled-blocking", "throttled", "below_half");
    assert!(blocks.abs() < bunched("throttled") / 4.0, "{blocks}: {to_baseline:?}");
    // The scheduler (figure 10), a thread that competes, and higher priority code. The stack on the sink's own CPU has
    // no arm: between namespaces its effect is as small as the difference between two baselines.
    for arm in ["blocking", "neighbour", "ticker"] {
        assert!(bunched(arm) > 0.0, "{arm}: {to_baseline:?}");
    }
    // A sink that polls the interface instead of sleeping.
    assert!(difference(&cells, "busy-poll", "blocking", "below_half") < 0.0, "{to_baseline:?}");
    for null in ["gro", "timer-slack", "control (A/A)"] {
        assert!(bunched(null).abs() * 4.0 < bunched("throttled"), "{null}: {to_baseline:?}");
    }
}
