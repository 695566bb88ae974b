//! A sweep as an array job of a real Slurm: one of its tasks is killed in the middle and requeued, and what comes out is what one
//! process makes, and what four parts make.
//!
//! Slurm runs here for this test alone: its own key, sockets, ports and directories, without systemd and without accounting.

mod sim_made;
mod simulator;

use quaver_testbed::privileged::{Lack, privileged, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sim_made::spinning;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "an_array_with_a_task_killed_and_requeued_makes_what_one_process_makes";
/// Points of the sweep; an eighth of them is a task's.
const POINTS: usize = 8;
/// Tasks of the array.
const TASKS: u32 = 4;
/// Turns of a point's loop: it takes some tenths of a second.
const STEPS: u64 = 400_000;
/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(50);

/// Whether Slurm is installed and we may start it; else the test is skipped, which it says, or fails where it must not be.
fn has_slurm() -> bool {
    let there = |name: &str| {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|place| Path::new(place).join(name).is_file())
    };
    let missing: Vec<&str> = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol"]
        .into_iter()
        .filter(|name| !there(name))
        .collect();
    if !missing.is_empty() {
        skip(NAME, Lack::Installed(&missing.join(", ")));
        return false;
    }
    privileged(NAME)
}

/// A process of Slurm, which ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // Asked first, so that it ends what it started itself.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let since = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && since.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Slurm: one node, which is this machine.
struct Slurm {
    place: PathBuf,
    daemons: Vec<Daemon>,
}

impl Slurm {
    fn start(place: &Path) -> Self {
        let mut slurm = Self { place: place.to_owned(), daemons: Vec::new() };
        fs::write(place.join("munge.key"), [0x5a; 64]).unwrap();
        fs::set_permissions(place.join("munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let file = |name: &str, value: &str| format!("--{name}={}", place.join(value).display());
        let munge = [
            file("socket", "munge.socket"),
            file("key-file", "munge.key"),
            file("pid-file", "munge.pid"),
            file("log-file", "munge.log"),
            file("seed-file", "munge.seed"),
        ];
        let munge: Vec<&str> = munge.iter().map(String::as_str).chain(["--foreground", "--force"]).collect();
        slurm.daemon("munged", &munge);
        slurm.wait_for("munged", || place.join("munge.socket").exists());
        fs::write(place.join("slurm.conf"), configuration(place)).unwrap();
        ["state", "spool"].iter().for_each(|name| fs::create_dir(place.join(name)).unwrap());
        slurm.daemon("slurmctld", &["-D", "-c"]);
        slurm.daemon("slurmd", &["-D"]);
        slurm.wait_for("an idle node", || {
            slurm.told("sinfo", &["--noheader", "--format=%T"]).trim() == "idle"
        });
        slurm
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.place.join("slurm.conf")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env_remove("QUAVER_RUNS").current_dir(&self.place).stdin(Stdio::null());
        command
    }

    fn daemon(&mut self, program: &str, args: &[&str]) {
        let log = File::create(self.place.join(format!("{program}.out"))).unwrap();
        let both = log.try_clone().unwrap();
        let child = self.command(program).args(args).stdout(log).stderr(both).spawn();
        self.daemons.push(Daemon(child.unwrap_or_else(|error| panic!("{program}: {error}"))));
    }

    fn told(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().unwrap();
        text(&output.stdout)
    }

    #[track_caller]
    fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < PATIENCE, "waited in vain for {what}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What everybody said, for a test that fails.
    fn logs(&self) -> String {
        let names = ["munged.out", "slurmctld.out", "slurmd.out", "slurmctld.log", "slurmd.log"];
        let tail = |name: &&str| {
            let text = fs::read_to_string(self.place.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(30)..].join("\n"))
        };
        names.iter().map(tail).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Tasks are children of a step daemon of their own, which ends when its job does.
        let _ = self.command("scancel").args(["--user=root", "--quiet"]).output();
        let since = Instant::now();
        while !self.told("squeue", &["--noheader"]).trim().is_empty()
            && since.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        // The last that was started is ended first.
        while self.daemons.pop().is_some() {}
    }
}

fn configuration(place: &Path) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().unwrap_or_default();
    // Both are looked for before one is let go, so that they differ.
    let free = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let [controller, node] = free.map(|listener| listener.local_addr().unwrap().port());
    let at = place.display();
    format!(
        "ClusterName=quaver\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
         AuthInfo=socket={at}/munge.socket,cred_expire=10\nCredType=cred/munge\nSlurmctldPort={controller}\n\
         SlurmdPort={node}\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/slurmctld.pid\n\
         SlurmdPidFile={at}/slurmd.pid\nSlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\nSwitchType=switch/none\nMpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
         ReturnToService=2\nKillWait=2\nSchedulerType=sched/builtin\n\
         SchedulerParameters=batch_sched_delay=0,sched_interval=1\nSlurmdParameters=config_overrides\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
         PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
    )
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn quaver(place: &Path, args: &[&str]) -> Output {
    simulator::build_simulator();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command
        .args(["sim", "sweep"])
        .args(args)
        .current_dir(place)
        .env_remove("QUAVER_RUNS")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

/// Lines of all logs of a sweep: process, what, point.
fn logged(directory: &Path) -> Vec<(i32, String, String)> {
    let mut lines = Vec::new();
    let Ok(entries) = fs::read_dir(directory.join("log")) else { return lines };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".jsonl") else { continue };
        let process = name.rsplit('-').nth(1).unwrap().parse().unwrap();
        for line in fs::read_to_string(&path).unwrap_or_default().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let word = |name: &str| line[name].as_str().unwrap().to_owned();
            lines.push((process, word("what"), word("point")));
        }
    }
    lines
}

fn points(directory: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(directory.join("points")) else { return BTreeSet::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

/// A process that has done a point and is at another one, and that one, stopped there.
fn stopped_in_the_middle(directory: &Path) -> Option<(Pid, String)> {
    let lines = logged(directory);
    let (process, _, point) = lines.iter().find(|(process, what, point)| {
        let of = |wanted: &str, which: Option<&str>| {
            lines.iter().any(|line| {
                line.0 == *process && line.1 == wanted && which.is_none_or(|which| line.2 == which)
            })
        };
        what == "begins" && !of("ends", Some(point)) && of("ends", None)
    })?;
    let pid = Pid::from_raw(*process)?;
    kill_process(pid, Signal::STOP).ok()?;
    if points(directory).contains(point) {
        // It was a moment too late.
        let _ = kill_process(pid, Signal::CONT);
        return None;
    }
    Some((pid, point.clone()))
}

/// Submits the sweep, kills a task in the middle of its second point by requeueing it, and waits for the end of all.
fn as_an_array(slurm: &Slurm, place: &Path, directory: &Path) {
    let tasks = TASKS.to_string();
    simulator::build_simulator();
    let program = env!("CARGO_BIN_EXE_quaver");
    let submitted = slurm
        .command(program)
        .current_dir(place)
        .args(["sim", "sweep", "submit", "plan.toml", "-o", "array", "--tasks", &tasks])
        .output()
        .unwrap();
    let said = text(&submitted.stdout);
    assert!(submitted.status.success(), "{said}{}", text(&submitted.stderr));
    let job = said.split_whitespace().nth(1).unwrap().to_owned();
    let killed = std::cell::RefCell::new(None);
    slurm.wait_for("a task in the middle", || {
        *killed.borrow_mut() = stopped_in_the_middle(directory);
        killed.borrow().is_some()
    });
    let (pid, point) = killed.into_inner().unwrap();
    let before = points(directory);
    let tasks = slurm
        .told("squeue", &["--noheader", "--array", "--states=running", "--format=%K %A", "--jobs", &job]);
    let command_line = fs::read_to_string(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
    let task = command_line.split('\0').find_map(|line| line.strip_prefix("SLURM_ARRAY_TASK_ID=")).unwrap();
    assert!(tasks.lines().any(|line| line.split(' ').next() == Some(task)), "{task}: {tasks}");
    let requeued = slurm.command("scontrol").args(["requeue", &format!("{job}_{task}")]).output().unwrap();
    assert!(requeued.status.success(), "{}", text(&requeued.stderr));
    // A stopped process takes only the signal that cannot be caught.
    let _ = kill_process(pid, Signal::KILL);
    slurm.wait_for("the end of the job", || {
        points(directory).len() == POINTS
            && slurm.told("squeue", &["--noheader", "--jobs", &job]).trim().is_empty()
    });
    let lines = logged(directory);
    let times =
        |what: &str, point: &str| lines.iter().filter(|line| line.1 == what && line.2 == point).count();
    assert_eq!((times("begins", &point), times("ends", &point)), (2, 1), "the killed point was done again");
    for point in &before {
        assert_eq!(times("begins", point), 1, "{point} was done before the task was killed");
    }
    let status = slurm
        .command(program)
        .current_dir(place)
        .args(["sim", "sweep", "status", "array/sweep-plan"])
        .output();
    let said = text(&status.unwrap().stdout);
    assert!(
        said.contains("8 of 8 points")
            && said.contains(&format!("job {job} of Slurm, 4 tasks: no task is left")),
        "{said}"
    );
}

#[test]
fn an_array_with_a_task_killed_and_requeued_makes_what_one_process_makes() {
    if !has_slurm() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    spinning(&place.path().join("spin.qtrace"), STEPS);
    let plan = format!(
        "[sweep]\ntraces = ['spin.qtrace']\n[[axis]]\nkey = 'machine.chip.remote_cycles'\nfrom = 1\nto = {POINTS}\nstep = 1\n"
    );
    fs::write(place.path().join("plan.toml"), plan).unwrap();
    let at = |name: &str| place.path().join(name).join("sweep-plan");
    let slurm_place = place.path().join("slurm");
    fs::create_dir(&slurm_place).unwrap();
    {
        let slurm = Slurm::start(&slurm_place);
        as_an_array(&slurm, place.path(), &at("array"));
    }
    quaver(place.path(), &["merge", "array/sweep-plan"]);
    quaver(place.path(), &["run", "plan.toml", "-q", "-o", "one"]);
    let mut merge = vec!["merge".to_owned()];
    for part in 1..=4 {
        let (parent, shard) = (format!("part{part}"), format!("{part}/4"));
        quaver(place.path(), &["run", "plan.toml", "-q", "-o", &parent, "--shard", &shard]);
        merge.push(format!("{parent}/sweep-plan"));
    }
    merge.extend(["-o".to_owned(), "parts".to_owned()]);
    quaver(place.path(), &merge.iter().map(String::as_str).collect::<Vec<_>>());
    for name in ["points.parquet", "summary.json"] {
        let one = fs::read(at("one").join(name)).unwrap();
        assert!(one == fs::read(at("parts").join(name)).unwrap(), "{name} of one process and of four parts");
        assert!(one == fs::read(at("array").join(name)).unwrap(), "{name} of one process and of the array");
    }
}
