//! What slows CPUs down while a program runs on them: the hypervisor, heat, a lower frequency. None of them has an event on all
//! machines, so the system's own counts are looked at now and then, and what they went up by is told.

use quaver_abi::kernel_side::{KernelSideKind, KernelSideRecord, SlowReason};
use quaver_host::root::HostRoot;
use std::collections::BTreeMap;

/// Between two looks; `/proc/stat` counts in steps of 10 ms, and takes the kernel a while to write.
const PERIOD_NS: u64 = 100_000_000;
/// The kernel counts in this for programs, whatever its own tick is (USER_HZ, proc_stat(5)).
const TICK_NS: u64 = 10_000_000;
/// Less than this is how a frequency reads that is right.
const LEAST_PERMILLE: u64 = 10;
/// Column of `/proc/stat` behind a CPU's name.
const STEAL: usize = 7;

/// Looks at the counts of some CPUs.
pub struct MachineWatch {
    root: HostRoot,
    cpus: Vec<Cpu>,
    /// Share of its speed that a throttled CPU loses, in thousandths.
    throttled_permille: u32,
    looked_ns: u64,
}

struct Cpu {
    number: u16,
    /// Full speed; none where its frequency is not shown.
    full_khz: Option<u64>,
    /// Time that it throttled itself so far, milliseconds; none where nobody counts.
    throttled_ms: Option<u64>,
    /// Time stolen so far, in ticks.
    stolen_ticks: Option<u64>,
}

fn directory(cpu: u16) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}")
}

impl MachineWatch {
    /// Begins at `now_ns` (CLOCK_MONOTONIC). A throttled CPU is taken to lose `throttled_permille` thousandths of its speed.
    pub fn start(root: HostRoot, cpus: &[u16], throttled_permille: u32, now_ns: u64) -> Self {
        let stolen = stolen_ticks(&root);
        let look = |number: u16| Cpu {
            number,
            full_khz: full_khz(&root, number),
            throttled_ms: throttled_ms(&root, number),
            stolen_ticks: stolen.get(&number).copied(),
        };
        let cpus = cpus.iter().copied().map(look).collect();
        Self { root, cpus, throttled_permille: throttled_permille.min(1_000), looked_ns: now_ns }
    }

    /// What this machine does not show.
    pub fn blind(&self) -> Vec<String> {
        let lacks = |of: fn(&Cpu) -> bool| self.cpus.iter().any(of);
        let mut blind = Vec::new();
        if lacks(|cpu| cpu.throttled_ms.is_none()) {
            blind.push("throttling of CPUs (this machine has no counts of it: thermal_throttle)".to_owned());
        }
        if lacks(|cpu| cpu.full_khz.is_none()) {
            blind.push("changes of the CPUs' frequency (this machine does not show it: cpufreq)".to_owned());
        }
        if lacks(|cpu| cpu.stolen_ticks.is_none()) {
            blind.push("CPU time that a hypervisor takes (/proc/stat does not tell)".to_owned());
        }
        blind
    }

    /// Looks, where the last time was long enough ago, and tells what was lost since.
    pub fn look(&mut self, now_ns: u64, take: &mut dyn FnMut(KernelSideRecord)) {
        if now_ns.saturating_sub(self.looked_ns) >= PERIOD_NS {
            self.look_now(now_ns, take);
        }
    }

    /// Looks, however short ago the last time was.
    pub fn look_now(&mut self, now_ns: u64, take: &mut dyn FnMut(KernelSideRecord)) {
        let passed_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        let stolen = stolen_ticks(&self.root);
        for cpu in &mut self.cpus {
            let mut tell = |duration_ns: u64, permille: u64, reason: SlowReason| {
                if duration_ns > 0 && permille > 0 {
                    take(KernelSideRecord {
                        at_ns: now_ns,
                        value: duration_ns,
                        operand: permille as u32,
                        cpu: cpu.number,
                        kind: KernelSideKind::Slow as u8,
                        detail: reason as u8,
                        ..KernelSideRecord::default()
                    });
                }
            };
            let slow = frequency_loss(&self.root, cpu.number, cpu.full_khz);
            let throttled = throttled_ms(&self.root, cpu.number);
            let throttled_ns =
                went_up(&mut cpu.throttled_ms, throttled).saturating_mul(1_000_000).min(passed_ns);
            // A throttled CPU shows a lower frequency, too: only the larger of the two counts.
            let by_heat = throttled_ns.saturating_mul(u64::from(self.throttled_permille));
            if by_heat > passed_ns.saturating_mul(slow) {
                tell(throttled_ns, self.throttled_permille.into(), SlowReason::Throttled);
            } else {
                tell(passed_ns, slow, SlowReason::Frequency);
            }
            let ticks = went_up(&mut cpu.stolen_ticks, stolen.get(&cpu.number).copied());
            tell(ticks.saturating_mul(TICK_NS).min(passed_ns), 1_000, SlowReason::Stolen);
        }
    }
}

/// By how much a count is above the one before, which it replaces. A count that is not there leaves the one before.
fn went_up(before: &mut Option<u64>, now: Option<u64>) -> u64 {
    match (*before, now) {
        (Some(old), Some(new)) => {
            *before = Some(new);
            new.saturating_sub(old)
        }
        _ => 0,
    }
}

/// The frequency that the CPU is sold with where that is told, else its highest.
fn full_khz(root: &HostRoot, cpu: u16) -> Option<u64> {
    let of = |name: &str| root.value(&format!("{}/cpufreq/{name}", directory(cpu)));
    let full = of("base_frequency").or_else(|| of("cpuinfo_max_freq"))?;
    // It has to be readable while the program runs, too.
    of("scaling_cur_freq").filter(|khz| *khz > 0).and(Some(full))
}

/// Thousandths of its full speed that a CPU lacks just now.
fn frequency_loss(root: &HostRoot, cpu: u16, full_khz: Option<u64>) -> u64 {
    let now: Option<u64> = root.value(&format!("{}/cpufreq/scaling_cur_freq", directory(cpu)));
    let (Some(full), Some(now)) = (full_khz.filter(|full| *full > 0), now) else { return 0 };
    let lost = 1_000 * full.saturating_sub(now) / full;
    if lost < LEAST_PERMILLE { 0 } else { lost }
}

fn throttled_ms(root: &HostRoot, cpu: u16) -> Option<u64> {
    let of = |name: &str| root.value::<u64>(&format!("{}/thermal_throttle/{name}", directory(cpu)));
    // A package that is too hot throttles all its cores, and each of them counts that apart from its own heat.
    match (of("core_throttle_total_time_ms"), of("package_throttle_total_time_ms")) {
        (None, None) => None,
        (core, package) => Some(core.unwrap_or(0).max(package.unwrap_or(0))),
    }
}

/// Ticks stolen of each CPU so far.
fn stolen_ticks(root: &HostRoot) -> BTreeMap<u16, u64> {
    let text = root.text("proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = words.next()?.parse().ok()?;
        Some((cpu, words.nth(STEAL)?.parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn stat(&self, stolen: [u64; 2]) {
            let line = |cpu: usize| format!("cpu{cpu} 5 6 7 8 9 10 11 {} 0 0\n", stolen[cpu]);
            self.write("proc/stat", &format!("cpu  1 2 3 4 5 6 7 8 9 0\n{}{}intr 7\n", line(0), line(1)));
        }

        fn frequency(&self, cpu: u16, khz: u64) {
            self.write(&format!("{}/cpufreq/scaling_cur_freq", directory(cpu)), &format!("{khz}\n"));
        }

        fn watch(&self) -> MachineWatch {
            MachineWatch::start(HostRoot::at(self.0.path()), &[0, 1], 500, 1_000)
        }
    }

    fn machine() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.stat([40, 50]);
        machine
    }

    fn told(watch: &mut MachineWatch, now_ns: u64) -> Vec<(u16, u64, u32, u8)> {
        let mut found = Vec::new();
        watch.look(now_ns, &mut |record| {
            assert_eq!((record.at_ns, record.kind), (now_ns, KernelSideKind::Slow as u8));
            found.push((record.cpu, record.value, record.operand, record.detail));
        });
        found
    }

    #[test]
    fn what_a_hypervisor_took_is_told_once_and_no_more_than_passed() {
        let machine = machine();
        let mut watch = machine.watch();
        machine.stat([43, 50]);
        assert_eq!(told(&mut watch, 50_000_000), [], "too soon to look");
        let stolen = SlowReason::Stolen as u8;
        assert_eq!(told(&mut watch, 200_001_000), [(0, 30_000_000, 1_000, stolen)]);
        assert_eq!(told(&mut watch, 400_001_000), []);
        machine.stat([43, 150]);
        assert_eq!(told(&mut watch, 500_001_000), [(1, 100_000_000, 1_000, stolen)]);
        let blind = watch.blind();
        assert!(blind.iter().any(|one| one.contains("thermal_throttle")), "{blind:?}");
        assert!(blind.iter().any(|one| one.contains("cpufreq")), "{blind:?}");
        assert_eq!(blind.len(), 2);
    }

    #[test]
    fn a_lower_frequency_loses_its_share_and_heat_what_the_user_says() {
        let machine = machine();
        for cpu in 0..2 {
            machine.write(&format!("{}/cpufreq/base_frequency", directory(cpu)), "2000000\n");
            machine.write(&format!("{}/cpufreq/cpuinfo_max_freq", directory(cpu)), "3000000\n");
            machine.frequency(cpu, 2_500_000);
            machine.write(&format!("{}/thermal_throttle/core_throttle_total_time_ms", directory(cpu)), "7\n");
        }
        let mut watch = machine.watch();
        assert_eq!(watch.blind(), [] as [&str; 0]);
        machine.frequency(0, 1_500_000);
        machine.frequency(1, 1_990_000);
        assert_eq!(told(&mut watch, 200_001_000), [(0, 200_000_000, 250, SlowReason::Frequency as u8)]);
        // 150 of 200 ms at half its speed are more than a quarter of all.
        machine.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms", "157\n");
        assert_eq!(told(&mut watch, 400_001_000), [(0, 150_000_000, 500, SlowReason::Throttled as u8)]);
    }
}
