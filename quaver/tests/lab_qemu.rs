//! Contrasts in a guest that QEMU emulates in virtual time, where a busy host changes nothing; and that no guest outlives the
//! process that started it.

use quaver_testbed::privileged::{Lack, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In periods of 200 us, booted without ticks on the sink's CPU: what throttling to one interrupt a millisecond does, sleeping
/// or polling, and a thread that preempts the sink.
const PLAN: &str = "
[study]
for = '200ms'
warm-up = '20ms'
blocks = 5
trace = false
keep-stamps = false
[stream]
period = '200us'
[baseline]
receive = 'block'
pace = 'sleep'
boot = ['nohz_full=2', 'rcu_nocbs=2']
[[factor]]
id = 'throttled'
itr = '1ms'
[[factor]]
id = 'throttled-polling'
itr = '1ms'
receive = 'poll'
[[factor]]
id = 'ticker'
ticker = '1ms'
ticker-work = '50us'
[[factor]]
id = 'elsewhere'
irq-cpu = 1
[[factor]]
id = 'elsewhere-busy'
class = 'hardware'
irq-cpu = 1
neighbour = true
neighbour-cpu = 1
neighbour-work = 'packets'
";
const PERIOD_NS: f64 = 200_000.0;
const THROTTLE_NS: f64 = 1_000_000.0;

fn quaver() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.stdin(Stdio::null());
    command
}

/// Whether there is a lab; without one the test is skipped, which it says, or fails where it must not be.
fn has_lab(name: &str) -> bool {
    let looked = quaver().args(["lab", "doctor", "qemu"]).output().unwrap();
    if looked.status.success() {
        return true;
    }
    println!("{}", String::from_utf8_lossy(&looked.stdout));
    skip(name, Lack::Installed("the QEMU lab"));
    false
}

fn study(directory: &Path) -> Command {
    let plan = directory.join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let mut command = quaver();
    command.args(["study", "run", "--lab", "qemu", "--quiet", "--json", "-o"]).arg(directory).arg(plan);
    command
}

/// The cells of a study, by block and place.
fn all_cells(directory: &Path) -> Vec<Value> {
    let runs = std::fs::read_dir(directory).unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let run = runs.into_iter().find(|path| path.join("cells").is_dir()).expect("there is a run");
    let mut files: Vec<_> =
        std::fs::read_dir(run.join("cells")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    files.iter().map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect()
}

/// Figures of the application's layer of each cell, by arm, in the order of blocks; and what each cell was booted with.
fn cells(directory: &Path) -> BTreeMap<String, Vec<(Value, Value)>> {
    let mut found: BTreeMap<String, Vec<(Value, Value)>> = BTreeMap::new();
    for cell in all_cells(directory) {
        assert!(cell["discarded"].is_null(), "{cell:#}");
        let application = |layer: &&Value| layer["layer"] == "application";
        let layer =
            cell["layers"].as_array().unwrap().iter().find(application).expect("the layer is there").clone();
        found
            .entry(cell["arm"].as_str().unwrap().to_owned())
            .or_default()
            .push((layer["figures"].clone(), cell["boot"].clone()));
    }
    found
}

fn each(cells: &[(Value, Value)], figure: &str) -> Vec<f64> {
    cells.iter().map(|(figures, _)| figures[figure].as_f64().unwrap()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Range of the values over their mean.
fn spread(values: &[f64]) -> f64 {
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(*value), b.max(*value)));
    (most - least) / mean(values)
}

#[test]
fn throttling_bunches_packets_whether_the_sink_sleeps_or_polls_and_repeats_agree() {
    if !has_lab("throttling_bunches_packets_whether_the_sink_sleeps_or_polls_and_repeats_agree") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = study(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = cells(directory.path());
    assert!(cells.values().all(|cells| cells.len() == 5), "{cells:#?}");
    let of = |arm: &str, figure: &str| each(&cells[arm], figure);

    let (first, verdict) = (&summary["ranking"][0]["arm"], &summary["ranking"][0]["ranked"]["difference"]);
    assert!(first.as_str().unwrap().starts_with("throttled") && verdict.as_f64() > Some(0.5), "{summary:#}");
    for arm in ["throttled", "throttled-polling"] {
        assert!(of(arm, "below_half").iter().all(|share| *share > 0.5), "{arm}: {:?}", of(arm, "below_half"));
        // Most intervals that are no bunch's last as long as the throttle says.
        let p90 = of(arm, "p90_ns");
        assert!((mean(&p90) / THROTTLE_NS - 1.0).abs() < 0.05 && spread(&p90) < 0.05, "{arm}: {p90:?}");
    }
    let (sleeping, polling) =
        (mean(&of("throttled", "below_half")), mean(&of("throttled-polling", "below_half")));
    assert!(
        (sleeping - polling).abs() < 0.15,
        "how the sink waits must not matter: {sleeping} and {polling}"
    );
    for arm in ["baseline", "control (A/A)", "ticker", "elsewhere"] {
        assert!(mean(&of(arm, "below_half")) < 0.05, "{arm}: {:?}", of(arm, "below_half"));
    }
    for arm in ["baseline", "control (A/A)"] {
        let p50 = of(arm, "p50_ns");
        assert!((mean(&p50) / PERIOD_NS - 1.0).abs() < 0.02 && spread(&p50) < 0.02, "{arm}: {p50:?}");
    }
    // A packet in five comes right when the ticker works.
    let width = |arm: &str| mean(&of(arm, "p90_ns")) - mean(&of(arm, "p10_ns"));
    assert!(width("ticker") > 2.0 * width("baseline"), "{} and {}", width("ticker"), width("baseline"));

    // An interrupt on another CPU finds that CPU's stack at work.
    assert!(
        width("elsewhere-busy") > 2.0 * width("elsewhere"),
        "{} and {}",
        width("elsewhere-busy"),
        width("elsewhere")
    );

    // The guest has looked for them on the command line of its own kernel.
    let boot = serde_json::json!(["nohz_full=2", "rcu_nocbs=2"]);
    assert!(cells.values().flatten().all(|(_, booted)| *booted == boot), "{cells:#?}");
    let warned =
        |warning: &Value| warning.as_str().is_some_and(|text| text.contains("absolute figures do not"));
    assert!(summary["warnings"].as_array().unwrap().iter().any(warned), "{summary:#}");
}

/// The process that the study started: the emulator.
fn emulator_of(study: &mut Child) -> u32 {
    let list = format!("/proc/{0}/task/{0}/children", study.id());
    let begin = Instant::now();
    loop {
        let children = std::fs::read_to_string(&list).unwrap_or_default();
        let emulates = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("-icount"))
        };
        if let Some(pid) = children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(emulates) {
            return pid;
        }
        assert!(study.try_wait().unwrap().is_none(), "the study ended before it started a guest");
        assert!(begin.elapsed() < Duration::from_secs(120), "no guest was started");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process has ended or is ending, killed. When a killed one is gone is for the scheduler to say: beside threads of a
/// real-time class that takes a minute.
fn is_killed(pid: u32) -> bool {
    const PF_EXITING: u64 = 0x4;
    const PF_SIGNALED: u64 = 0x400;
    let of = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"));
        mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << 8 != 0)
    };
    if of("status").lines().any(pending) {
        return true;
    }
    // Behind the name: the state, and the flags as the seventh. One that has ended and that nobody has asked after yet is a Z.
    let stat = of("stat");
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[0] == "Z" || fields[6].parse::<u64>().unwrap() & (PF_EXITING | PF_SIGNALED) != 0
}

/// By then a study that has ended has had its guest killed: the kernel does so before it lets anybody know of the end. The
/// time is for what lies between a signal that is taken and a flag that is set; a guest that lives on does so for longer.
fn wait_until_killed(pid: u32, after: &str) {
    let begin = Instant::now();
    while !is_killed(pid) {
        let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        assert!(begin.elapsed() < Duration::from_secs(5), "QEMU outlives its study ({after}): {}", status());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_guest_outlives_its_study() {
    if !has_lab("no_guest_outlives_its_study") {
        return;
    }
    for (signal, status) in [(rustix::process::Signal::INT, Some(130)), (rustix::process::Signal::KILL, None)]
    {
        let directory = tempfile::tempdir().unwrap();
        let mut study = study(directory.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let emulator = emulator_of(&mut study);
        let pid = rustix::process::Pid::from_raw(study.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let ended = study.wait().unwrap();
        wait_until_killed(emulator, &format!("{signal:?}"));
        assert_eq!(ended.code(), status, "{signal:?}: {ended}");
    }
}
