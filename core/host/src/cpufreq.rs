//! Frequencies of CPUs as the kernel shows them (`cpufreq`), and by which files they can be set. Reads only.
//!
//! ```text
//! /sys/devices/system/cpu/cpufreq/policy0/   affected_cpus  scaling_driver  scaling_governor  scaling_setspeed
//!                                            scaling_min_freq  scaling_max_freq  cpuinfo_min_freq  ...
//! ```

use super::root::HostRoot;

/// Where policies are.
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
/// Steps of drivers that list none (intel_pstate, amd-pstate), kHz.
const STEP_KHZ: u64 = 100_000;
/// `cpuinfo_transition_latency` where the driver does not know (CPUFREQ_ETERNAL).
const ETERNAL_NS: u64 = 0xffff_ffff;
/// A base frequency nearer than this to the highest leaves no room above, thousandths.
const ROOM_PERMILLE: u64 = 1_010;

/// Why frequencies cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpufreqError {
    /// The kernel shows none.
    #[error(
        "this machine lets nobody set its CPUs' frequency ({POLICIES} has no policy for CPU {cpu}): a virtual machine, or a kernel or \
         firmware that keeps it to itself"
    )]
    Absent {
        /// A CPU without one.
        cpu: u16,
    },
    /// A policy's files do not make sense, or miss what is needed.
    #[error("{directory}: {reason}")]
    Unusable {
        /// Directory of the policy.
        directory: String,
        /// What is missing.
        reason: String,
    },
}

/// How a policy's frequency is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `scaling_setspeed`, under the governor userspace.
    SetSpeed,
    /// `scaling_min_freq` and `scaling_max_freq`, both to the same.
    Limits,
}

/// CPUs that have one frequency together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its directory, from the root.
    pub directory: String,
    /// Its CPUs that are online.
    pub cpus: Vec<u16>,
    /// The kernel's driver.
    pub driver: String,
    /// How it is set.
    pub way: Way,
    /// Frequencies that it can have, kHz, ascending, within the limits that are set now.
    pub steps_khz: Vec<u64>,
    /// What it is sold with, kHz, where that is told and leaves room above.
    pub base_khz: Option<u64>,
    /// What a change of the frequency takes, nanoseconds, where the driver knows.
    pub transition_ns: Option<u64>,
}

impl Policy {
    /// A file of it, from the root.
    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The frequency at rest, kHz, so that there is room above for `limit` times as much as far as possible: the base frequency
    /// where that is told, else a `limit`-th of the highest; the step that is nearest.
    pub fn rest_khz(&self, limit: f64) -> u64 {
        let highest_khz = self.steps_khz.last().copied().unwrap_or(0);
        let wanted = self.base_khz.map_or(highest_khz as f64 / limit.max(1.0), |base_khz| base_khz as f64);
        self.nearest(wanted)
    }

    /// The step that is nearest to a frequency; of two equally near ones the lower.
    pub fn nearest(&self, khz: f64) -> u64 {
        let far = |step: &u64| (*step as f64 - khz).abs();
        let nearest = self.steps_khz.iter().copied().min_by(|one, other| far(one).total_cmp(&far(other)));
        nearest.unwrap_or(0)
    }
}

/// The policies of these CPUs, each once, in the order of the CPUs.
///
/// # Errors
/// A CPU has none, or one that cannot be set.
pub fn policies(root: &HostRoot, cpus: &[u16]) -> Result<Vec<Policy>, CpufreqError> {
    let mut found: Vec<Policy> = Vec::new();
    for &cpu in cpus {
        if found.iter().any(|policy| policy.cpus.contains(&cpu)) {
            continue;
        }
        let directory = directory_of(root, cpu).ok_or(CpufreqError::Absent { cpu })?;
        found.push(policy(root, directory, cpu)?);
    }
    Ok(found)
}

/// Directory of a CPU's policy.
fn directory_of(root: &HostRoot, cpu: u16) -> Option<String> {
    let shared = root.names(POLICIES).into_iter().filter(|name| name.starts_with("policy"));
    let shared = shared.map(|name| format!("{POLICIES}/{name}"));
    let own = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let there = |directory: &String| root.exists(&format!("{directory}/scaling_governor"));
    shared
        .filter(|directory| cpus_of(root, directory).contains(&cpu))
        .find(there)
        .or_else(|| Some(own).filter(there))
}

/// `affected_cpus` is a list with blanks.
fn cpus_of(root: &HostRoot, directory: &str) -> Vec<u16> {
    let text = root.text(&format!("{directory}/affected_cpus")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn policy(root: &HostRoot, directory: String, cpu: u16) -> Result<Policy, CpufreqError> {
    let khz = |name: &str| root.value::<u64>(&format!("{directory}/{name}"));
    let unusable =
        |reason: &str| CpufreqError::Unusable { directory: directory.clone(), reason: reason.to_owned() };
    let lowest = khz("cpuinfo_min_freq").ok_or_else(|| unusable("cpuinfo_min_freq cannot be read"))?;
    let highest = khz("cpuinfo_max_freq").ok_or_else(|| unusable("cpuinfo_max_freq cannot be read"))?;
    let lowest = khz("scaling_min_freq").map_or(lowest, |limit| limit.max(lowest));
    let highest = khz("scaling_max_freq").map_or(highest, |limit| limit.min(highest));
    let mut cpus = cpus_of(root, &directory);
    if cpus.is_empty() {
        cpus.push(cpu);
    }
    let words = |name: &str| root.text(&format!("{directory}/{name}")).unwrap_or_default();
    let userspace =
        words("scaling_available_governors").split_whitespace().any(|governor| governor == "userspace");
    let way = if userspace && root.exists(&format!("{directory}/scaling_setspeed")) {
        Way::SetSpeed
    } else if khz("scaling_min_freq").is_some() && khz("scaling_max_freq").is_some() {
        Way::Limits
    } else {
        return Err(unusable(
            "neither the governor userspace (modprobe cpufreq_userspace) nor scaling_min_freq and scaling_max_freq are there",
        ));
    };
    let steps_khz = steps(root, &directory, lowest, highest);
    if steps_khz.len() < 2 {
        return Err(unusable(
            "it can have one frequency only; scaling_min_freq and scaling_max_freq bound it",
        ));
    }
    let highest = steps_khz.last().copied().unwrap_or(0);
    let nominal = format!("/sys/devices/system/cpu/cpu{cpu}/acpi_cppc/nominal_freq");
    let base = khz("base_frequency").or_else(|| Some(root.value::<u64>(&nominal)?.saturating_mul(1_000)));
    Ok(Policy {
        driver: words("scaling_driver"),
        base_khz: base.filter(|base| *base > 0 && base.saturating_mul(ROOM_PERMILLE) / 1_000 < highest),
        transition_ns: khz("cpuinfo_transition_latency").filter(|ns| *ns < ETERNAL_NS),
        cpus,
        way,
        steps_khz,
        directory,
    })
}

/// What the driver lists, or a step each 100 MHz.
fn steps(root: &HostRoot, directory: &str, lowest: u64, highest: u64) -> Vec<u64> {
    let list = |name: &str| -> Vec<u64> {
        let text = root.text(&format!("{directory}/{name}")).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let mut steps = list("scaling_available_frequencies");
    if root.switch(&format!("{POLICIES}/boost")) == Some(true) {
        steps.extend(list("scaling_boost_frequencies"));
    }
    if steps.is_empty() && lowest > 0 {
        let first = lowest.div_ceil(STEP_KHZ);
        let last = highest / STEP_KHZ;
        // A machine that claims more than 100 GHz is none.
        steps = (first..=last.min(first + 1_000)).map(|step| step * STEP_KHZ).collect();
        steps.extend([lowest, highest]);
    }
    steps.retain(|khz| (lowest..=highest).contains(khz));
    steps.sort_unstable();
    steps.dedup();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            files.iter().for_each(|(name, text)| machine.write(name, text));
            machine
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }

        fn policies(&self, cpus: &[u16]) -> Result<Vec<Policy>, CpufreqError> {
            policies(&HostRoot::at(self.0.path()), cpus)
        }
    }

    /// A server of the old kind: acpi-cpufreq with a table, two CPUs a policy.
    fn listed() -> Machine {
        let of = |name: &str| format!("{POLICIES}/policy0/{name}");
        let machine = Machine::new(&[]);
        for (name, text) in [
            ("affected_cpus", "0 1"),
            ("scaling_driver", "acpi-cpufreq"),
            ("scaling_governor", "ondemand"),
            ("scaling_available_governors", "conservative ondemand userspace performance"),
            ("scaling_available_frequencies", "3000000 2800000 2500000 2200000 2000000"),
            ("scaling_setspeed", "<unsupported>"),
            ("scaling_min_freq", "2000000"),
            ("scaling_max_freq", "3000000"),
            ("cpuinfo_min_freq", "2000000"),
            ("cpuinfo_max_freq", "3000000"),
            ("cpuinfo_transition_latency", "10000"),
        ] {
            machine.write(&of(name), text);
        }
        machine
    }

    #[test]
    fn a_driver_with_a_table_is_set_by_speed() {
        let machine = listed();
        let found = machine.policies(&[0, 1]).unwrap();
        assert_eq!(found.len(), 1);
        let policy = &found[0];
        assert_eq!(
            (policy.way, policy.cpus.as_slice(), policy.transition_ns),
            (Way::SetSpeed, &[0, 1][..], Some(10_000))
        );
        assert_eq!(policy.steps_khz, [2_000_000, 2_200_000, 2_500_000, 2_800_000, 3_000_000]);
        assert_eq!((policy.base_khz, policy.rest_khz(1.2)), (None, 2_500_000));
        assert_eq!((policy.nearest(2_350_000.0), policy.nearest(9e9)), (2_200_000, 3_000_000));
        // What somebody has bounded stays so.
        machine.write(&format!("{POLICIES}/policy0/scaling_max_freq"), "2600000");
        assert_eq!(machine.policies(&[0]).unwrap()[0].steps_khz, [2_000_000, 2_200_000, 2_500_000]);
    }

    #[test]
    fn a_driver_without_one_is_set_by_its_limits() {
        let machine = Machine::new(&[]);
        for (name, text) in [
            ("scaling_driver", "intel_pstate"),
            ("scaling_governor", "powersave"),
            ("scaling_available_governors", "performance powersave"),
            ("scaling_setspeed", "<unsupported>"),
            ("scaling_min_freq", "850000"),
            ("scaling_max_freq", "1300000"),
            ("cpuinfo_min_freq", "800000"),
            ("cpuinfo_max_freq", "3900000"),
            ("base_frequency", "1100000"),
            ("cpuinfo_transition_latency", "4294967295"),
        ] {
            machine.write(&format!("/sys/devices/system/cpu/cpu2/cpufreq/{name}"), text);
        }
        let policy = &machine.policies(&[2]).unwrap()[0];
        assert_eq!((policy.way, policy.cpus.as_slice(), policy.transition_ns), (Way::Limits, &[2][..], None));
        assert_eq!(policy.steps_khz, [850_000, 900_000, 1_000_000, 1_100_000, 1_200_000, 1_300_000]);
        assert_eq!((policy.base_khz, policy.rest_khz(1.2)), (Some(1_100_000), 1_100_000));
        assert_eq!(policy.file("scaling_max_freq"), "/sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq");
        // Without turbo the base is the highest: rest is taken below it.
        machine.write("/sys/devices/system/cpu/cpu2/cpufreq/base_frequency", "1300000");
        let policy = &machine.policies(&[2]).unwrap()[0];
        assert_eq!((policy.base_khz, policy.rest_khz(1.2)), (None, 1_100_000));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(Machine::new(&[]).policies(&[3]), Err(CpufreqError::Absent { cpu: 3 }));
        let machine = listed();
        let gone = |name: &str| {
            std::fs::remove_file(machine.0.path().join(&POLICIES[1..]).join("policy0").join(name)).unwrap();
            machine.policies(&[0]).unwrap_err().to_string()
        };
        std::fs::remove_file(machine.0.path().join(&POLICIES[1..]).join("policy0/scaling_setspeed")).unwrap();
        assert_eq!(machine.policies(&[0]).unwrap()[0].way, Way::Limits);
        assert!(gone("scaling_min_freq").contains("cpufreq_userspace"));
        assert!(gone("cpuinfo_max_freq").contains("cpuinfo_max_freq"));
    }
}
