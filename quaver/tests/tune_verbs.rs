//! `quaver tune` as a user runs it, on a copy of a machine's files.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FILES: [(&str, &str); 14] = [
    ("proc/sys/kernel/random/boot_id", "this one\n"),
    ("proc/sys/kernel/watchdog", "1\n"),
    ("proc/sys/kernel/osrelease", "6.12.5\n"),
    ("proc/cmdline", "quiet\n"),
    ("proc/cpuinfo", "model name\t: CPU\nflags\t\t: tsc\n"),
    ("proc/interrupts", "           CPU0       CPU1\nLOC:        100        200   Local timer interrupts\n"),
    ("proc/irq/41/smp_affinity_list", "0-1\n"),
    ("proc/irq/41/effective_affinity_list", "1\n"),
    ("proc/irq/41/virtio3-rx/spurious", ""),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
    ("sys/kernel/rcu_normal", "0\n"),
    ("sys/kernel/mm/ksm/run", "1\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "3\n"),
];

struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { directory: tempfile::tempdir().unwrap() };
        for (name, text) in FILES {
            let path = machine.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("machine").join(name)
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    fn texts(&self) -> Vec<String> {
        FILES.iter().map(|(name, _)| fs::read_to_string(self.path(name)).unwrap()).collect()
    }

    fn tune(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.arg("tune").args(args);
        command.arg("--journal").arg(self.journal()).arg("--root").arg(self.directory.path().join("machine"));
        command.stdin(Stdio::null()).output().expect("the program was built for this test")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.tune(&[args, &["--json"]].concat());
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", told(&output)));
        assert_eq!(value["schema"], "quaver-tune/1");
        assert_eq!(value["action"], args[0]);
        value
    }
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn expect(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    told(output)
}

/// A page's words, wherever its lines end.
fn flat(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn row<'a>(document: &'a Value, id: &str) -> &'a Value {
    document["rows"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id}"))
}

#[test]
fn audit_judges_every_row_and_writes_nothing() {
    let machine = Machine::new();
    let before = machine.texts();
    let audit = machine.json(&["audit", "--cpu", "1", "--interface", "eth0", "--no-watch"]);
    assert_eq!(audit["rows"].as_array().unwrap().len(), 69);
    for (id, verdict) in [
        ("softlockup", "hurts"),
        ("dev-irq", "hurts"),
        ("rps", "hurts"),
        ("pstate", "hurts"),
        ("tick", "unknown"),
        ("textpoke", "unknown"),
        ("steal", "not-applicable"),
        ("aspm", "not-applicable"),
    ] {
        assert_eq!(row(&audit, id)["verdict"], verdict, "{id}: {}", row(&audit, id)["evidence"]);
    }
    let page = expect(&machine.tune(&["audit", "--cpu", "1", "--no-watch"]), 0);
    assert!(
        page.contains("kernel.watchdog is 1, better 0") && page.contains("Nothing was changed"),
        "{page}"
    );
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert_eq!(machine.texts(), before);
    assert!(!machine.journal().exists());
}

#[test]
fn plan_and_dry_run_tell_the_same_and_write_nothing() {
    let machine = Machine::new();
    let before = machine.texts();
    let plan = expect(&machine.tune(&["plan", "--cpu", "1"]), 0);
    assert!(plan.contains("kernel.watchdog = 0") && plan.contains("skew_tick=1"), "{plan}");
    let dry = expect(&machine.tune(&["apply", "--dry-run", "--cpu", "1"]), 0);
    assert_eq!(plan, dry);
    assert_eq!(machine.texts(), before);
    assert!(!machine.journal().exists());
}

#[test]
fn apply_status_revert() {
    let machine = Machine::new();
    let before = machine.texts();
    let applied =
        expect(&machine.tune(&["apply", "--cpu", "1", "--only", "softlockup,dev-irq,ksm,rcu-exp"]), 0);
    assert!(applied.contains("kernel.watchdog = 0 (was 1)"), "{applied}");
    assert!(applied.contains("moves when it comes next"), "{applied}");
    assert_eq!(fs::read_to_string(machine.path("proc/irq/41/smp_affinity_list")).unwrap(), "0");
    let status = machine.json(&["status"]);
    let changes = status["changes"].as_array().unwrap();
    assert!(
        changes.len() == 4 && changes.iter().all(|change| change["is"] == "ours" && change["kept"] == true)
    );
    // Again: nothing is left to do, and the first values are those that come back.
    let again = machine.json(&["apply", "--cpu", "1", "--only", "softlockup,ksm,rcu-exp"]);
    assert_eq!(again["changes"].as_array().unwrap().len(), 0, "{again}");
    expect(&machine.tune(&["revert", "--only", "ksm"]), 0);
    assert_eq!(machine.json(&["status"])["changes"].as_array().unwrap().len(), 3);
    let reverted = expect(&machine.tune(&["revert"]), 0);
    assert!(reverted.contains("kernel.watchdog: restored to 1"), "{reverted}");
    assert_eq!(machine.texts(), before);
    for verb in ["status", "revert"] {
        let nothing =
            format!("quaver tune {verb} · settings of this host\n\n  No setting is changed by Quaver.\n");
        assert_eq!(expect(&machine.tune(&[verb]), 0), nothing);
    }
}

#[test]
fn what_somebody_else_changed_is_said_with_status_6_and_left_unless_asked() {
    let machine = Machine::new();
    let watchdog = machine.path("proc/sys/kernel/watchdog");
    expect(&machine.tune(&["apply", "--cpu", "1", "--only", "softlockup"]), 0);
    fs::write(&watchdog, "10\n").unwrap();
    let page = expect(&machine.tune(&["apply", "--cpu", "1", "--only", "softlockup"]), 6);
    assert!(flat(&page).contains("somebody else changed it") && page.contains("Set (0 of 1)"), "{page}");
    let page = expect(&machine.tune(&["revert"]), 6);
    assert!(flat(&page).contains("--force restores 1, --forget keeps it"), "{page}");
    assert_eq!(fs::read_to_string(&watchdog).unwrap(), "10\n");
    expect(&machine.tune(&["revert", "--force"]), 0);
    assert_eq!(fs::read_to_string(&watchdog).unwrap(), "1\n");
}

#[test]
fn what_does_not_take_is_told_with_status_3() {
    let machine = Machine::new();
    // Threads cannot be moved on a copy of a machine, which the kernel thread here stands for.
    let stat = "15 (rcuop/1) S 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 31 0 0\n";
    fs::create_dir_all(machine.path("proc/15")).unwrap();
    fs::write(machine.path("proc/15/stat"), stat).unwrap();
    fs::write(machine.path("proc/15/status"), "Cpus_allowed_list:\t0-1\n").unwrap();
    let page = expect(&machine.tune(&["apply", "--cpu", "1", "--only", "rcu-cb,softlockup"]), 3);
    assert!(
        page.contains("Not accepted (1)") && page.contains("affinity of thread 15 = 0 (rcu-cb)"),
        "{page}"
    );
    assert!(page.contains("Set (1 of 2)"), "{page}");
    expect(&machine.tune(&["revert"]), 0);
}

#[test]
fn what_cannot_be_meant_is_refused_with_status_2() {
    let machine = Machine::new();
    let page = expect(&machine.tune(&["plan", "--only", "softlokup"]), 2);
    assert!(page.contains("softlockup"), "{page}");
    expect(&machine.tune(&["audit", "--cpu", "7"]), 2);
    let page = expect(&machine.tune(&["audit", "--interface", "eth9"]), 2);
    assert!(page.contains("eth0"), "{page}");
}

#[test]
fn another_quaver_is_named_with_status_6_and_a_damaged_journal_with_5() {
    let machine = Machine::new();
    expect(&machine.tune(&["apply", "--cpu", "1", "--only", "ksm"]), 0);
    let lock = fs::File::open(machine.journal().join("tune.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let page = expect(&machine.tune(&["revert"]), 6);
    assert!(page.contains("quaver tune apply (process") && page.contains("wait"), "{page}");
    drop(lock);
    let journal = machine.journal().join("tune.journal");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("begin", "began", 1)).unwrap();
    let page = expect(&machine.tune(&["revert"]), 5);
    assert!(page.contains("damaged"), "{page}");
}

#[test]
fn without_the_right_to_write_the_journal_nothing_is_changed() {
    let machine = Machine::new();
    if rustix::process::geteuid().is_root() {
        // Root may write anywhere but where nobody may.
        let output = Command::new(env!("CARGO_BIN_EXE_quaver"))
            .args(["tune", "apply", "--cpu", "1", "--journal", "/proc/quaver", "--root"])
            .arg(machine.directory.path().join("machine"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(6), "{}", told(&output));
    } else {
        fs::set_permissions(machine.directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let page = expect(&machine.tune(&["apply", "--cpu", "1"]), 3);
        assert!(page.contains("sudo quaver"), "{page}");
        fs::set_permissions(machine.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(machine.texts(), FILES.map(|(_, text)| text.to_owned()));
}

/// The shipped unit runs what there is.
#[test]
fn the_boot_unit_runs_a_verb_that_exists() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/quaver-tune-revert.service");
    let unit = fs::read_to_string(unit).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/quaver ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let machine = Machine::new();
    expect(&machine.tune(&["apply", "--cpu", "1", "--only", "ksm"]), 0);
    fs::write(machine.path("proc/sys/kernel/random/boot_id"), "the next one\n").unwrap();
    let page = expect(&machine.tune(&words[1..]), 0);
    assert!(page.contains("reset by the reboot"), "{page}");
}

/// A profile of two settings that the machine has and one that it has not.
fn profile(machine: &Machine) -> String {
    let path = machine.directory.path().join("profile.toml");
    let setting = |row: &str, value: &str, file: &str| {
        format!(
            "[[setting]]\nrow = \"{row}\"\nvalue = \"{value}\"\nknob = {{ kind = \"file\", path = \"{file}\" }}\n"
        )
    };
    let text = [
        "schema = \"quaver.profile/1\"\nmade_by = \"cure-1\"\n".to_owned(),
        setting("softlockup", "0", "/proc/sys/kernel/watchdog"),
        setting("rps", "1", "/sys/class/net/eth9/queues/rx-0/rps_cpus"),
        setting("ksm", "0", "/sys/kernel/mm/ksm/run"),
    ];
    fs::write(&path, text.concat()).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_profile_sets_what_this_host_has_and_its_revert_takes_just_that_back() {
    let machine = Machine::new();
    let (before, profile) = (machine.texts(), profile(&machine));
    expect(&machine.tune(&["apply", "--cpu", "1", "--only", "rcu-exp"]), 0);
    let others = machine.texts();
    assert_ne!(others, before);
    let page = flat(&expect(&machine.tune(&["apply", &profile]), 3));
    assert!(page.contains("Set (2 of 3)") && page.contains("Not accepted (1)"), "{page}");
    assert!(page.contains("rps_cpus is not there: ") && page.contains("= 1 (rps)"), "{page}");
    assert_eq!(fs::read_to_string(machine.path("proc/sys/kernel/watchdog")).unwrap(), "0\n");
    let again = machine.json(&["apply", &profile]);
    assert_eq!(again["profile"], profile.as_str());
    assert_eq!(again["changes"][0]["outcome"], "already-so", "{again}");
    expect(&machine.tune(&["revert", &profile]), 0);
    assert_eq!(machine.texts(), others, "the rest stays");
    expect(&machine.tune(&["revert"]), 0);
    assert_eq!(machine.texts(), before);
}

#[test]
fn a_profile_that_is_none_changes_nothing() {
    let machine = Machine::new();
    let (before, path) = (machine.texts(), profile(&machine));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("/sys/kernel/mm/ksm/run", "/etc/shadow")).unwrap();
    for verb in ["apply", "revert"] {
        let page = flat(&expect(&machine.tune(&[verb, &path]), 5));
        assert!(page.contains("/etc/shadow is no setting that Quaver changes"), "{page}");
    }
    expect(&machine.tune(&["apply", &path, "--only", "ksm"]), 2);
    assert_eq!(machine.texts(), before);
    assert!(!machine.journal().exists());
}

#[test]
fn settings_for_a_time_go_back_when_it_is_over() {
    let machine = Machine::new();
    let (before, profile) = (machine.texts(), profile(&machine));
    expect(&machine.tune(&["apply", "--cpu", "1", "--only", "rcu-exp"]), 0);
    let others = machine.texts();
    let page = flat(&expect(&machine.tune(&["apply", &profile, "--for", "100ms"]), 3));
    assert!(page.contains("Set (2 of 3)") && page.contains("2 of 2 settings were put back"), "{page}");
    assert_eq!(machine.texts(), others);
    expect(&machine.tune(&["revert"]), 0);
    assert_eq!(machine.texts(), before);
}

#[test]
fn an_interrupt_ends_the_time_and_a_revert_may_come_before() {
    for revert_first in [false, true] {
        let machine = Machine::new();
        let (before, profile) = (machine.texts(), profile(&machine));
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["tune", "apply", &profile, "--for", "1h", "--journal"]).arg(machine.journal());
        command.arg("--root").arg(machine.directory.path().join("machine"));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // It says so once it has given up its turn at the journal.
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("kept for "), "{line}");
        assert_ne!(machine.texts(), before);
        if revert_first {
            expect(&machine.tune(&["revert"]), 0);
            assert_eq!(machine.texts(), before);
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(machine.texts(), before);
    }
}
