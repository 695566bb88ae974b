//! Whether the hardware counter can be used as a clock here, and how fast it runs.

use super::counter::{Counter, CycleCounter, monotonic_ns};
use quaver_abi::cycles::CycleScale;
use quaver_abi::record::AnchorRecord;
use std::path::Path;
use std::sync::OnceLock;

/// What this machine's cycle counter is worth as a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSupport {
    /// The counter that instruments must use.
    pub counter: Counter,
    /// The processor promises one rate in all power states (CPUID 8000_0007h, EDX bit 8; always so on aarch64).
    pub invariant: bool,
    /// The kernel's current clocksource, if it could be read.
    pub clocksource: Option<String>,
    /// Why the hardware counter is not used, and what would help; none where it is used.
    pub refusal: Option<String>,
}

/// Clocksources that are themselves readings of the hardware counter: the kernel trusts it across CPUs.
const COUNTER_CLOCKSOURCES: [&str; 6] =
    ["tsc", "tsc-early", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter"];

impl CounterSupport {
    /// Looks at the processor and at `/sys` under `root` (`/` but for tests).
    pub fn detect(root: &Path) -> Self {
        Self::judge(current_clocksource(root), invariant_rate(), has_cpu_stamp())
    }

    /// Whether the hardware counter can be used with that clocksource.
    pub(super) fn trusts(clocksource: Option<&str>) -> bool {
        Self::judge(clocksource.map(str::to_owned), invariant_rate(), has_cpu_stamp()).refusal.is_none()
    }

    fn judge(clocksource: Option<String>, invariant: bool, cpu_stamp: bool) -> Self {
        let refusal = match clocksource.as_deref() {
            _ if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) => {
                Some("this architecture's cycle counter is not known here".to_owned())
            }
            _ if !cpu_stamp => Some("the processor lacks rdtscp".to_owned()),
            // The kernel checks the counter of this clocksource itself, whatever a hypervisor hides of CPUID.
            Some("tsc") => None,
            Some(name) if !COUNTER_CLOCKSOURCES.contains(&name) => Some(format!(
                "the kernel's clocksource is {name}: it may have found the cycle counter unstable; see `dmesg`, \
                 and boot with tsc=reliable only if you trust this machine's counter"
            )),
            _ if !invariant => Some(
                "the processor does not promise a constant counter rate (no invariant TSC); in a virtual machine, \
                 let the host expose it"
                    .to_owned(),
            ),
            _ => None,
        };
        let counter = if refusal.is_none() { Counter::Hardware } else { Counter::MonotonicClock };
        Self { counter, invariant, clocksource, refusal }
    }
}

/// The kernel's clocksource, from `/sys` under `root`.
pub(super) fn current_clocksource(root: &Path) -> Option<String> {
    let path = root.join("sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::fs::read_to_string(path).ok().map(|name| name.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
fn invariant_rate() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant_rate() -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg(target_arch = "x86_64")]
fn has_cpu_stamp() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).edx & (1 << 27) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn has_cpu_stamp() -> bool {
    true
}

/// Rate of the counter, good to about 10 ppm: for thresholds, deadlines over seconds and progress lines.
/// Recorded cycles are converted by a [`super::Timebase`] instead. The first call takes 5 ms.
pub fn nominal_scale(counter: Counter) -> CycleScale {
    static HARDWARE: OnceLock<CycleScale> = OnceLock::new();
    match counter {
        Counter::MonotonicClock => CycleScale { mult: 1 << quaver_abi::cycles::SHIFT },
        Counter::Hardware => *HARDWARE.get_or_init(|| calibrate(counter)),
    }
}

fn calibrate(counter: Counter) -> CycleScale {
    loop {
        let from = tight_pair(counter);
        std::thread::sleep(std::time::Duration::from_millis(5));
        // None only if the counter stood still or went back for 5 ms, which a usable one does not do for ever.
        if let Some(scale) = CycleScale::between(&from, &tight_pair(counter)) {
            return scale;
        }
    }
}

/// Cycles and CLOCK_MONOTONIC at one instant, from the tightest of 16 brackets.
fn tight_pair(counter: Counter) -> AnchorRecord {
    let mut best = (u64::MAX, AnchorRecord::default());
    for _ in 0..16 {
        let before = counter.read();
        let monotonic_ns = monotonic_ns();
        let width = counter.read().saturating_sub(before);
        if width < best.0 {
            best =
                (width, AnchorRecord { cycles: before + width / 2, monotonic_ns, ..AnchorRecord::default() });
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusts_the_counter_only_where_kernel_and_processor_do() {
        let judge = |name: &str, invariant| CounterSupport::judge(Some(name.to_owned()), invariant, true);
        assert_eq!(judge("tsc", true).counter, Counter::Hardware);
        assert_eq!(judge("tsc", false).counter, Counter::Hardware);
        assert_eq!(judge("kvm-clock", true).counter, Counter::Hardware);
        assert_eq!(judge("kvm-clock", false).counter, Counter::MonotonicClock);
        let hpet = judge("hpet", true);
        assert_eq!(hpet.counter, Counter::MonotonicClock);
        assert!(hpet.refusal.unwrap().contains("hpet"));
        assert_eq!(CounterSupport::judge(None, true, true).counter, Counter::Hardware);
        assert_eq!(CounterSupport::judge(Some("tsc".into()), true, false).counter, Counter::MonotonicClock);
    }

    #[test]
    fn reads_the_clocksource_below_the_root_given() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/devices/system/clocksource/clocksource0");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("current_clocksource"), "acpi_pm\n").unwrap();
        let support = CounterSupport::detect(root.path());
        assert_eq!(support.clocksource.as_deref(), Some("acpi_pm"));
        assert_eq!(support.counter, Counter::MonotonicClock);
    }

    #[test]
    fn the_fallback_counts_nanoseconds() {
        let scale = nominal_scale(Counter::MonotonicClock);
        assert_eq!((scale.ns(7_410), scale.cycles(7_410)), (7_410, 7_410));
    }
}
