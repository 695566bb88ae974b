//! What the host bears while a block is measured.

use quaver_cure_analysis::{Burden, Waits};
use quaver_host::root::HostRoot;
use quaver_host::settings::kernel_threads::is_of_kernel;
use quaver_host::sockets::{self, ProcessIdentity};
use quaver_host::stat::Stat;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

/// Jiffies of `/proc/stat` in a second (USER_HZ, proc(5)).
const JIFFIES_PER_S: f64 = 100.0;

/// Shorter blocks say nothing of waits: a wait is counted when it ends, so that one before the block may count in it.
const LEAST_FOR_WAITS_S: f64 = 0.1;

/// Sensors of a CPU, by the name of their driver or the type of their zone.
const CPU_SENSORS: [&str; 7] =
    ["coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "x86_pkg_temp", "acpitz"];

/// Waits that are listed, in threads: what is below a twentieth of what harms a program.
const LISTED: f64 = 0.005;

/// SCHED_IDLE (linux/sched.h).
const IDLE_CLASS: i32 = 5;

/// The host, and whom a remedy must not harm.
pub(super) struct Bystanders {
    root: HostRoot,
    others: Vec<Other>,
    /// Threads that waited from the begin of a block to its end: in which turn, and since when.
    pending: RefCell<BTreeMap<u32, (u64, Instant)>>,
}

/// Another program.
struct Other {
    process: ProcessIdentity,
    name: String,
    /// Whether it has a UDP or TCP socket.
    receives: bool,
}

/// What the kernel has counted so far.
pub(super) struct Counters {
    at: Instant,
    /// Time that all CPUs were busy, seconds.
    busy_s: f64,
    /// Energy of each package and where its counter starts again, microjoules.
    energy_uj: BTreeMap<String, (u64, u64)>,
    /// Threads of each of the others, in their order.
    threads: Vec<Threads>,
    /// Packets that sockets of the others have dropped, by process and address.
    dropped: BTreeMap<(u32, SocketAddr), u64>,
}

/// How a thread got its CPU so far: the three numbers of `schedstat` (scheduler statistics, section on `/proc/<pid>/schedstat`).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Turns {
    ran_ns: u64,
    /// Counted when a wait ends.
    waited_ns: u64,
    turns: u64,
}

/// Threads of a process, by number.
type Threads = BTreeMap<u32, Turns>;

impl Bystanders {
    /// Looks for other programs than `ours`. One of class SCHED_IDLE gives way to all others by its own choice.
    pub(super) fn find(root: HostRoot, ours: &[u32]) -> Self {
        let receivers: BTreeSet<u32> = sockets::receivers(&root).iter().map(|one| one.pid).collect();
        let is_other = |process: &ProcessIdentity| {
            let stat = Stat::read(&root, &format!("proc/{}", process.pid));
            let gives_way = stat.is_none_or(|stat| stat.policy == Some(IDLE_CLASS));
            !gives_way && !ours.contains(&process.pid) && is_of_kernel(&root, process.pid) == Some(false)
        };
        let other = |process: ProcessIdentity| Other {
            name: format!("{} (process {})", process.name(&root), process.pid),
            receives: receivers.contains(&process.pid),
            process,
        };
        let others = sockets::processes(&root).filter(is_other).map(other).collect();
        Self { root, others, pending: RefCell::default() }
    }

    /// Reads all counters.
    pub(super) fn counters(&self) -> Counters {
        let root = &self.root;
        let sockets = |one: &Other| {
            let sockets = one.process.udp_sockets(root).unwrap_or_default();
            sockets
                .into_iter()
                .map(|socket| ((one.process.pid, socket.local), socket.drops))
                .collect::<Vec<_>>()
        };
        Counters {
            at: Instant::now(),
            busy_s: busy_s(root),
            energy_uj: energy_uj(root),
            threads: self.others.iter().map(|one| turns(root, one.process.pid)).collect(),
            dropped: self.others.iter().filter(|one| one.receives).flat_map(sockets).collect(),
        }
    }

    /// What was borne since `before`.
    pub(super) fn since(&self, before: &Counters) -> Burden {
        self.between(before, &self.counters())
    }

    fn between(&self, before: &Counters, now: &Counters) -> Burden {
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let used = now.energy_uj.iter().filter_map(|(package, (now_uj, range_uj))| {
            let (before_uj, _) = before.energy_uj.get(package)?;
            Some(
                now_uj
                    .checked_sub(*before_uj)
                    .unwrap_or_else(|| now_uj + range_uj.saturating_sub(*before_uj)),
            )
        });
        let waits = |((one, earlier), later): ((&Other, &Threads), &Threads)| {
            let (mut waited_s, mut ran_ns) = (0.0, 0);
            for (tid, now) in later {
                let Some(first) = earlier.get(tid) else { continue };
                waited_s += self.waited_s(one.process.pid, *tid, (*first, *now), (before.at, seconds));
                ran_ns += now.ran_ns.saturating_sub(first.ran_ns);
            }
            Waits {
                program: one.name.clone(),
                receives: one.receives,
                waiting: waited_s / seconds,
                used: ran_ns as f64 / 1e9 / seconds,
            }
        };
        let mut waits: Vec<Waits> =
            self.others.iter().zip(&before.threads).zip(&now.threads).map(waits).collect();
        let says = seconds >= LEAST_FOR_WAITS_S;
        let is_read = |receives: bool| {
            let mut of = self.others.iter().zip(&before.threads).filter(|(one, _)| one.receives || !receives);
            of.any(|(_, threads)| !threads.is_empty())
        };
        let sum = |receives: bool| {
            let of = waits.iter().filter(|one| one.receives || !receives);
            (says && is_read(receives)).then(|| of.map(|one| one.waiting).fold(0.0, |sum, one| sum + one))
        };
        let dropped = self.others.iter().any(|one| one.receives).then(|| rise(&before.dropped, &now.dropped));
        let (others_waiting, programs_waiting) = (sum(true), sum(false));
        waits.retain(|one| says && one.waiting >= LISTED);
        Burden {
            busy_cpus: (now.busy_s - before.busy_s) / seconds,
            others_waiting,
            programs_waiting,
            waits,
            others_dropped_per_s: dropped.map(|dropped| dropped as f64 / seconds),
            power_w: (!now.energy_uj.is_empty()).then(|| used.sum::<u64>() as f64 / 1e6 / seconds),
            hottest_c: hottest_c(&self.root),
        }
    }

    /// Time that a thread waited during a block, seconds. A wait is counted when it ends: one that fills the block counts in it,
    /// and not again in the block in which it ends.
    fn waited_s(
        &self,
        pid: u32,
        tid: u32,
        (first, now): (Turns, Turns),
        (began, seconds): (Instant, f64),
    ) -> f64 {
        let mut pending = self.pending.borrow_mut();
        let since = pending.remove(&tid).filter(|(turn, _)| *turn == first.turns).map(|(_, since)| since);
        let runnable = || {
            Stat::read(&self.root, &format!("proc/{pid}/task/{tid}")).is_some_and(|stat| stat.state == 'R')
        };
        if now == first && runnable() {
            pending.insert(tid, (first.turns, since.unwrap_or(began)));
            return seconds;
        }
        let counted = since.map_or(0.0, |since| began.duration_since(since).as_secs_f64());
        (now.waited_ns.saturating_sub(first.waited_ns) as f64 / 1e9 - counted).max(0.0)
    }
}

/// By how much counters grew that were there at both times.
fn rise<K: Ord>(before: &BTreeMap<K, u64>, now: &BTreeMap<K, u64>) -> u64 {
    let rise = |(key, now): (&K, &u64)| before.get(key).map(|before| now.saturating_sub(*before));
    now.iter().filter_map(rise).sum()
}

/// User, nice, system, interrupts, softirqs.
fn busy_s(root: &HostRoot) -> f64 {
    let text = root.text("/proc/stat").unwrap_or_default();
    let numbers = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<f64> = numbers.filter_map(|word| word.parse().ok()).collect();
    let of = |at: usize| numbers.get(at).copied().unwrap_or(0.0);
    [0, 1, 2, 5, 6].map(of).iter().sum::<f64>() / JIFFIES_PER_S
}

/// Of packages alone: other zones are parts of one, or have one as theirs (kernel: power/powercap).
fn energy_uj(root: &HostRoot) -> BTreeMap<String, (u64, u64)> {
    const ZONES: &str = "/sys/class/powercap";
    let read = |zone: String| {
        let of = |name: &str| root.text(&format!("{ZONES}/{zone}/{name}"));
        let number = |name: &str| of(name)?.parse().ok();
        let package = of("name").is_some_and(|name| name.starts_with("package-"));
        Some((zone.clone(), (number("energy_uj").filter(|_| package)?, number("max_energy_range_uj")?)))
    };
    root.names(ZONES).into_iter().filter_map(read).collect()
}

/// Those of each thread of a process.
fn turns(root: &HostRoot, pid: u32) -> Threads {
    let folder = format!("/proc/{pid}/task");
    let read = |name: &String| {
        let text = root.text(&format!("{folder}/{name}/schedstat"))?;
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        let mut next = || numbers.next();
        Some((name.parse().ok()?, Turns { ran_ns: next()?, waited_ns: next()?, turns: next()? }))
    };
    root.names(&folder).iter().filter_map(read).collect()
}

/// The hottest sensor of a CPU.
fn hottest_c(root: &HostRoot) -> Option<f64> {
    let of_class = |class: &str, named_by: &str| {
        let folder = format!("/sys/class/{class}");
        let sensors = root.names(&folder).into_iter().map(move |name| format!("{folder}/{name}"));
        let of_cpu = |sensor: &String| {
            root.text(&format!("{sensor}/{named_by}"))
                .is_some_and(|name| CPU_SENSORS.contains(&name.as_str()))
        };
        sensors.filter(of_cpu).collect::<Vec<_>>()
    };
    let files = |sensor: String| {
        let is_reading =
            |name: &String| name == "temp" || (name.starts_with("temp") && name.ends_with("_input"));
        root.names(&sensor)
            .into_iter()
            .filter(is_reading)
            .map(move |name| format!("{sensor}/{name}"))
            .collect::<Vec<_>>()
    };
    let sensors = [of_class("hwmon", "name"), of_class("thermal", "type")].concat();
    let readings =
        sensors.into_iter().flat_map(files).filter_map(|file| root.text(&file)?.parse::<i64>().ok());
    readings.max().map(|millidegrees| millidegrees as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::process::{Child, Command};
    use std::time::Duration;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Counters as they are, so many seconds after those of `first`.
    fn after(host: &Bystanders, first: &Counters, seconds: f64) -> Counters {
        Counters { at: first.at + Duration::from_secs_f64(seconds), ..host.counters() }
    }

    #[test]
    fn power_is_of_packages_and_their_counters_start_again() {
        let place = tempfile::tempdir().unwrap();
        let zone = |name: &str, kind: &str, energy: u64| {
            write(place.path(), &format!("sys/class/powercap/{name}/name"), &format!("{kind}\n"));
            write(place.path(), &format!("sys/class/powercap/{name}/max_energy_range_uj"), "1000000000\n");
            write(place.path(), &format!("sys/class/powercap/{name}/energy_uj"), &format!("{energy}\n"));
        };
        let host =
            Bystanders { root: HostRoot::at(place.path()), others: Vec::new(), pending: RefCell::default() };
        let before = host.counters();
        assert_eq!(host.between(&before, &after(&host, &before, 1.0)).power_w, None);
        for (add, first) in [(0, 900_000_000), (20_000_000, 980_000_000)] {
            zone("intel-rapl:0", "package-0", first + add);
            zone("intel-rapl:0:0", "core", add * 7);
            zone("intel-rapl:1", "psys", add * 9);
        }
        let before = host.counters();
        // Past its end: 100 - 90 + 30 J.
        zone("intel-rapl:0", "package-0", 30_000_000);
        let before = Counters {
            energy_uj: [("intel-rapl:0".to_owned(), (990_000_000, 1_000_000_000))].into(),
            ..before
        };
        assert_eq!(host.between(&before, &after(&host, &before, 4.0)).power_w, Some(10.0));
    }

    #[test]
    fn the_hottest_sensor_of_a_cpu_counts_and_no_disk() {
        let place = tempfile::tempdir().unwrap();
        let host = HostRoot::at(place.path());
        assert_eq!(hottest_c(&host), None);
        write(place.path(), "sys/class/hwmon/hwmon0/name", "nvme\n");
        write(place.path(), "sys/class/hwmon/hwmon0/temp1_input", "91000\n");
        assert_eq!(hottest_c(&host), None);
        write(place.path(), "sys/class/hwmon/hwmon1/name", "coretemp\n");
        write(place.path(), "sys/class/hwmon/hwmon1/temp1_input", "51000\n");
        write(place.path(), "sys/class/hwmon/hwmon1/temp1_crit", "100000\n");
        write(place.path(), "sys/class/hwmon/hwmon1/temp2_input", "63500\n");
        write(place.path(), "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
        write(place.path(), "sys/class/thermal/thermal_zone0/temp", "62000\n");
        assert_eq!(hottest_c(&host), Some(63.5));
    }

    /// A host whose one other program is process 7.
    fn beside_seven(place: &Path) -> Bystanders {
        let process = ProcessIdentity { pid: 7, started_ticks: 1 };
        let others = vec![Other { process, name: "it (process 7)".to_owned(), receives: true }];
        Bystanders { root: HostRoot::at(place), others, pending: RefCell::default() }
    }

    #[test]
    fn what_threads_waited_that_were_there_at_both_ends_is_summed() {
        let place = tempfile::tempdir().unwrap();
        let thread = |id: u32, waited_ns: u64| {
            write(place.path(), &format!("proc/7/task/{id}/schedstat"), &format!("5 {waited_ns} 9\n"));
        };
        let host = beside_seven(place.path());
        let before = host.counters();
        let nothing = host.between(&before, &after(&host, &before, 1.0));
        assert_eq!((nothing.others_waiting, nothing.programs_waiting), (None, None));
        thread(7, 1_000);
        thread(8, 2_000);
        let before = host.counters();
        thread(7, 1_000 + 300_000_000);
        thread(9, 900_000_000);
        let burden = host.between(&before, &after(&host, &before, 2.0));
        assert_eq!((burden.others_waiting, burden.programs_waiting), (Some(0.15), Some(0.15)));
        let waits = Waits { program: "it (process 7)".to_owned(), receives: true, waiting: 0.15, used: 0.0 };
        assert_eq!(burden.waits, [waits]);
        let short = host.between(&before, &after(&host, &before, 0.09));
        assert_eq!((short.others_waiting, short.waits), (None, Vec::new()));
    }

    #[test]
    fn a_wait_that_fills_blocks_counts_in_each_and_not_again_where_it_ends() {
        let place = tempfile::tempdir().unwrap();
        let thread = |state: char, schedstat: &str| {
            write(place.path(), "proc/7/task/7/schedstat", &format!("{schedstat}\n"));
            let text = format!("7 (it) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1\n");
            write(place.path(), "proc/7/task/7/stat", &text);
        };
        let host = beside_seven(place.path());
        let waiting = |before: &Counters, seconds: f64| {
            let now = after(&host, before, seconds);
            (host.between(before, &now).others_waiting.unwrap(), now)
        };
        thread('R', "500 1000 9");
        let first = host.counters();
        // It stands in the queue for two blocks of 0.5 s, and for 0.1 s of the third.
        let (of_first, second) = waiting(&first, 0.5);
        let (of_second, third) = waiting(&second, 0.5);
        thread('R', "600 1100001000 10");
        let (of_third, fourth) = waiting(&third, 0.5);
        assert_eq!((of_first, of_second), (1.0, 1.0));
        assert!((of_third - 0.2).abs() < 1e-9, "{of_third}");
        // One that runs all the time, and one that sleeps, wait for nothing.
        thread('R', "400000600 1100001000 10");
        let (of_fourth, fifth) = waiting(&fourth, 0.5);
        thread('S', "400000600 1100001000 10");
        assert_eq!((of_fourth, waiting(&fifth, 0.5).0), (0.0, 0.0));
    }

    #[test]
    fn packets_that_sockets_of_others_dropped_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let drops = |drops: u32| {
            let rest = "00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 55 2 0 ";
            write(place.path(), "proc/7/net/udp", &format!("  1: 0100007F:1389 {rest} {drops}\n"));
        };
        fs::create_dir_all(place.path().join("proc/7/fd")).unwrap();
        std::os::unix::fs::symlink("socket:[55]", place.path().join("proc/7/fd/3")).unwrap();
        let host = beside_seven(place.path());
        drops(100);
        let before = host.counters();
        drops(112);
        assert_eq!(host.between(&before, &after(&host, &before, 0.5)).others_dropped_per_s, Some(24.0));
    }

    fn receivers(host: &Bystanders) -> impl Iterator<Item = &Other> {
        host.others.iter().filter(|other| other.receives)
    }

    /// A shell that loops on one CPU; it ends with this.
    struct Loop(Child);

    impl Loop {
        fn start(cpu: u16, first: &str) -> Self {
            let script = format!("{first} while :; do :; done");
            let mut command = Command::new("taskset");
            Self(command.args(["-c", &cpu.to_string(), "bash", "-c", &script]).spawn().unwrap())
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn another_program_with_a_udp_socket_is_found_and_its_waits_for_a_cpu_are_seen() {
        let cpu = *quaver_instrument::host_state::allowed_cpus().unwrap().last().unwrap();
        let beside = Loop::start(cpu, "");
        let receiver = Loop::start(cpu, "exec 3<>/dev/udp/127.0.0.1/9;");
        let found = || Bystanders::find(HostRoot::system(), &[]);
        let has =
            |host: &Bystanders, one: &Loop| receivers(host).any(|other| other.process.pid == one.0.id());
        let began = Instant::now();
        let mut host = found();
        while !has(&host, &receiver) {
            assert!(began.elapsed().as_secs() < 30, "the shell opened no socket");
            host = found();
        }
        assert!(!has(&host, &beside));
        assert!(
            host.others.iter().any(|other| other.process.pid == beside.0.id()),
            "it is a program all the same"
        );
        assert!(!has(&Bystanders::find(HostRoot::system(), &[receiver.0.id()]), &receiver));
        host.others.retain(|other| other.process.pid == receiver.0.id());
        let before = host.counters();
        std::thread::sleep(std::time::Duration::from_millis(300));
        // Each has half of the CPU.
        let burden = host.since(&before);
        assert!(burden.others_waiting.unwrap() > 0.1, "{burden:?}");
    }
}
