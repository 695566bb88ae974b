//! Studies with boot factors, with files in place of /proc/cmdline and GRUB's directory; and pairs chosen from the ranking.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PLAN: &str = "
[study]
for = '30ms'
warm-up = '10ms'
blocks = 5
sender-limit = 1.0
trace = false
keep-stamps = false
[stream]
period = '30us'
size = 200
[[factor]]
id = 'awake'
class = 'hardware'
boot = ['idle=poll', 'nohz_full=1']
[[factor]]
id = 'blocking'
receive = 'block'
";
const BOOT: &str = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet";

struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new(plan: &str) -> Self {
        let machine = Self { directory: tempfile::tempdir().unwrap() };
        for folder in ["root/proc", "root/etc/default/grub.d", "journal"] {
            std::fs::create_dir_all(machine.path(folder)).unwrap();
        }
        std::fs::write(machine.path("plan.toml"), plan).unwrap();
        machine.boot(BOOT);
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn boot(&self, line: &str) {
        std::fs::write(self.path("root/proc/cmdline"), format!("{line}\n")).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["study", "run", "--quiet", "--json", "-o"]).arg(self.path("runs"));
        command.arg("--root").arg(self.path("root")).arg("--journal").arg(self.path("journal")).args(args);
        command.stdin(Stdio::null());
        command
    }

    fn start(&self, args: &[&str]) -> Output {
        let plan = self.path("plan.toml");
        let first = [plan.to_str().unwrap(), "--lab", "loopback"];
        self.command(&[&first, args].concat()).output().unwrap()
    }

    fn resume(&self, args: &[&str]) -> Output {
        let run = self.run();
        self.command(&[&["--resume", run.to_str().unwrap()], args].concat()).output().unwrap()
    }

    fn run(&self) -> PathBuf {
        let mut runs = std::fs::read_dir(self.path("runs")).unwrap();
        let run = runs.next().unwrap().unwrap().path();
        assert!(runs.next().is_none());
        run
    }

    fn cells(&self) -> Vec<Value> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(self.run().join("cells")).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.iter().map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
    }
}

/// The next command line that the study tells.
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("the next cells want another boot") && text.contains("--resume"), "{text}");
    let (_, after) = text.split_once("The next command line:\n").expect(&text);
    after.lines().next().unwrap().trim().to_owned()
}

fn summary(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn drop_in(machine: &Machine) -> Option<String> {
    std::fs::read_to_string(machine.path("root/etc/default/grub.d/quaver-study.cfg")).ok()
}

#[test]
fn a_study_goes_through_its_boots_and_counts_no_cell_under_the_wrong_command_line() {
    let machine = Machine::new(PLAN);
    let mut output = machine.start(&[]);
    let mut boots = 0;
    while output.status.code() == Some(3) {
        let next = told(&output);
        let before = machine.cells().len();
        // Run again without a boot it says the same and measures nothing.
        assert_eq!(told(&machine.resume(&[])), next);
        assert_eq!(machine.cells().len(), before);
        assert!(
            next == BOOT || next == format!("{BOOT} idle=poll nohz_full=1"),
            "only the study's own words change: {next}"
        );
        machine.boot(&next);
        output = machine.resume(&[]);
        boots += 1;
        assert!(machine.cells().len() > before, "each boot measures something");
        assert!(boots <= 10, "two boots for each of five blocks at most");
    }
    let summary = summary(&output);
    assert_eq!(summary["complete"], true, "{summary:#}");
    assert!(boots >= 5, "{boots}: each block wants both");
    for cell in machine.cells() {
        let wanted = if cell["arm"] == "awake" { 2 } else { 0 };
        assert_eq!(cell["boot"].as_array().map_or(0, Vec::len), wanted, "{}", cell["arm"]);
    }
    assert_eq!(drop_in(&machine), None, "nothing is written unless asked");

    // Somebody changes what a cell was measured under: it does not count any more.
    let path = machine.run().join("cells/b0000-p000.json");
    let mut cell: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    cell["boot"] =
        if cell["arm"] == "awake" { Value::Array(Vec::new()) } else { serde_json::json!(["idle=poll"]) };
    std::fs::write(&path, serde_json::to_vec(&cell).unwrap()).unwrap();
    let again =
        Command::new(env!("CARGO_BIN_EXE_quaver")).arg("analyze").arg(machine.run()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let text = std::fs::read_to_string(machine.run().join("summary.json")).unwrap();
    assert!(text.contains("measured under another command line"), "{text}");
}

#[test]
fn with_install_the_options_of_the_next_boot_lie_with_grub_until_the_study_ends() {
    let machine = Machine::new(PLAN);
    let mut output = machine.start(&["--install"]);
    let mut killed = false;
    while output.status.code() == Some(3) {
        let next = told(&output);
        let text = drop_in(&machine).expect("the options are installed");
        let wanted = next.strip_prefix(BOOT).unwrap().trim();
        assert!(
            text.contains(&format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {wanted}\"")),
            "{next}\n{text}"
        );
        let journal = std::fs::read_to_string(machine.path("journal/tune.journal"))
            .unwrap_or_else(|_| format!("{:?}", std::fs::read_dir(machine.path("journal")).unwrap().count()));
        assert!(!journal.is_empty());
        machine.boot(&next);
        if !killed {
            // The machine goes down in the middle of the next boot's cells.
            killed = true;
            let before = machine.cells().len();
            let run = machine.run();
            let mut child = machine
                .command(&["--resume", run.to_str().unwrap(), "--install"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            while machine.cells().len() == before && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
        output = machine.resume(&["--install"]);
    }
    assert_eq!(summary(&output)["complete"], true);
    assert_eq!(drop_in(&machine), None, "it is gone when all is measured");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("run update-grub and boot once more"), "{said}");
}

#[test]
fn boot_factors_want_a_command_line_that_can_be_seen_and_a_grub_that_can_be_set() {
    let machine = Machine::new(PLAN);
    std::fs::remove_file(machine.path("root/proc/cmdline")).unwrap();
    let output = machine.start(&[]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("/proc/cmdline cannot be read"), "{text}");
    assert!(!Path::new(&machine.path("runs")).exists(), "nothing was begun");

    machine.boot(BOOT);
    std::fs::remove_dir(machine.path("root/etc/default/grub.d")).unwrap();
    let output = machine.start(&["--install"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("/etc/default/grub.d"), "{text}");

    std::fs::write(machine.path("plan.toml"), PLAN.replace("nohz_full=1", "a b; reboot")).unwrap();
    let output = machine.start(&[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("no word of a kernel's command line"), "{text}");
}

#[test]
fn leading_pairs_are_chosen_from_the_ranking_and_measured_in_further_blocks() {
    let plan = PLAN.replace("boot = ['idle=poll', 'nohz_full=1']", "pace = 'sleep'")
        + "[[factor]]\nid = 'epoll'\nreceive = 'epoll'\n";
    let machine = Machine::new(&plan);
    let summary = summary(&machine.start(&["--interactions", "3"]));
    // blocking and epoll set the same key, so that two pairs are left of three; two pairs want seven blocks.
    let pairs: Vec<Vec<&str>> = summary["interactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["of"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect())
        .collect();
    assert_eq!(pairs.len(), 2, "{pairs:?}");
    assert!(pairs.iter().all(|pair| pair.contains(&"awake")), "{pairs:?}");
    assert_eq!((&summary["complete"], &summary["facts"]["further_blocks"]), (&true.into(), &7.into()));
    let blocks = |arm: &str| {
        let of = |cell: &Value| (cell["arm"] == arm).then(|| cell["block"].as_u64().unwrap());
        let mut found: Vec<u64> = machine.cells().iter().filter_map(of).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let name = pairs[0].join("+");
    assert_eq!(blocks(&name), (5..12).collect::<Vec<u64>>());
    assert_eq!(blocks("baseline"), (0..12).collect::<Vec<u64>>());
    assert_eq!(blocks("control (A/A)"), (0..5).collect::<Vec<u64>>());
    assert!(summary["interactions"][0]["blocks"].as_u64() <= Some(7));
    let before = machine.cells();
    let again = self::summary(&machine.resume(&[]));
    assert_eq!((machine.cells(), &again["interactions"]), (before, &summary["interactions"]));
}
