//! What the host bears while a block is measured.

use quaver_cure_analysis::Burden;
use quaver_host::root::HostRoot;
use quaver_host::sockets::{self, ProcessIdentity};
use std::collections::BTreeMap;
use std::time::Instant;

/// Jiffies of `/proc/stat` in a second (USER_HZ, proc(5)).
const JIFFIES_PER_S: f64 = 100.0;

/// Shorter blocks say nothing of waits: a wait is counted when it ends, so that one before the block may count in it.
const LEAST_FOR_WAITS_S: f64 = 0.1;

/// Sensors of a CPU, by the name of their driver or the type of their zone.
const CPU_SENSORS: [&str; 7] =
    ["coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "x86_pkg_temp", "acpitz"];

/// The host, and whom a remedy must not harm.
pub(super) struct Bystanders {
    root: HostRoot,
    /// Other programs with UDP sockets.
    others: Vec<ProcessIdentity>,
}

/// What the kernel has counted so far.
pub(super) struct Counters {
    at: Instant,
    /// Time that all CPUs were busy, seconds.
    busy_s: f64,
    /// Energy of each package and where its counter starts again, microjoules.
    energy_uj: BTreeMap<String, (u64, u64)>,
    /// Time that each thread of the others has waited for a CPU, nanoseconds.
    waited_ns: BTreeMap<u32, u64>,
}

impl Bystanders {
    /// Looks for other programs with UDP sockets than `ours`.
    pub(super) fn find(root: HostRoot, ours: &[u32]) -> Self {
        let mut others = sockets::receivers(&root);
        others.retain(|process| !ours.contains(&process.pid));
        Self { root, others }
    }

    /// Reads all counters.
    pub(super) fn counters(&self) -> Counters {
        Counters {
            at: Instant::now(),
            busy_s: busy_s(&self.root),
            energy_uj: energy_uj(&self.root),
            waited_ns: self.others.iter().flat_map(|process| waited_ns(&self.root, process.pid)).collect(),
        }
    }

    /// What was borne since `before`.
    pub(super) fn since(&self, before: &Counters) -> Burden {
        let now = self.counters();
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        Burden { hottest_c: hottest_c(&self.root), ..now.less(before, seconds) }
    }
}

impl Counters {
    fn less(&self, before: &Self, seconds: f64) -> Burden {
        let waited = self.waited_ns.iter().filter_map(|(thread, now_ns)| {
            before.waited_ns.get(thread).map(|before_ns| now_ns.saturating_sub(*before_ns))
        });
        let used = self.energy_uj.iter().filter_map(|(package, (now_uj, range_uj))| {
            let (before_uj, _) = before.energy_uj.get(package)?;
            Some(
                now_uj
                    .checked_sub(*before_uj)
                    .unwrap_or_else(|| now_uj + range_uj.saturating_sub(*before_uj)),
            )
        });
        let a_second = |sum: u64, unit: f64| sum as f64 / unit / seconds;
        Burden {
            busy_cpus: (self.busy_s - before.busy_s) / seconds,
            others_waiting: (!self.waited_ns.is_empty() && seconds >= LEAST_FOR_WAITS_S)
                .then(|| a_second(waited.sum(), 1e9)),
            power_w: (!self.energy_uj.is_empty()).then(|| a_second(used.sum(), 1e6)),
            hottest_c: None,
        }
    }
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

/// The second number of `schedstat` (scheduler statistics, section on `/proc/<pid>/schedstat`), of each thread.
fn waited_ns(root: &HostRoot, pid: u32) -> Vec<(u32, u64)> {
    let folder = format!("/proc/{pid}/task");
    let read = |name: &String| {
        let text = root.text(&format!("{folder}/{name}/schedstat"))?;
        Some((name.parse().ok()?, text.split_whitespace().nth(1)?.parse().ok()?))
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

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn power_is_of_packages_and_their_counters_start_again() {
        let place = tempfile::tempdir().unwrap();
        let zone = |name: &str, kind: &str, energy: u64| {
            write(place.path(), &format!("sys/class/powercap/{name}/name"), &format!("{kind}\n"));
            write(place.path(), &format!("sys/class/powercap/{name}/max_energy_range_uj"), "1000000000\n");
            write(place.path(), &format!("sys/class/powercap/{name}/energy_uj"), &format!("{energy}\n"));
        };
        let host = Bystanders { root: HostRoot::at(place.path()), others: Vec::new() };
        let before = host.counters();
        assert_eq!(before.less(&before, 1.0).power_w, None);
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
        assert_eq!(host.counters().less(&before, 4.0).power_w, Some(10.0));
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

    #[test]
    fn what_threads_waited_that_were_there_at_both_ends_is_summed() {
        let place = tempfile::tempdir().unwrap();
        let thread = |id: u32, waited_ns: u64| {
            write(place.path(), &format!("proc/7/task/{id}/schedstat"), &format!("5 {waited_ns} 9\n"));
        };
        let others = vec![ProcessIdentity { pid: 7, started_ticks: 1 }];
        let host = Bystanders { root: HostRoot::at(place.path()), others };
        assert_eq!(host.counters().less(&host.counters(), 1.0).others_waiting, None);
        thread(7, 1_000);
        thread(8, 2_000);
        let before = host.counters();
        thread(7, 1_000 + 300_000_000);
        thread(9, 900_000_000);
        assert_eq!(host.counters().less(&before, 2.0).others_waiting, Some(0.15));
        assert_eq!(host.counters().less(&before, 0.09).others_waiting, None);
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
        let has = |host: &Bystanders, one: &Loop| host.others.iter().any(|other| other.pid == one.0.id());
        let began = Instant::now();
        let mut host = found();
        while !has(&host, &receiver) {
            assert!(began.elapsed().as_secs() < 30, "the shell opened no socket");
            host = found();
        }
        assert!(!has(&host, &beside));
        assert!(!has(&Bystanders::find(HostRoot::system(), &[receiver.0.id()]), &receiver));
        host.others.retain(|other| other.pid == receiver.0.id());
        let before = host.counters();
        std::thread::sleep(std::time::Duration::from_millis(300));
        // Each has half of the CPU.
        let burden = host.since(&before);
        assert!(burden.others_waiting.unwrap() > 0.1, "{burden:?}");
    }
}
