//! What the rows of the catalogue are on this machine: each knob found, read and judged. Reads only.

mod affinity;
mod devices;
mod files;
mod signs;

pub use signs::Snapshot;

use super::catalogue::{BootOption, Good, KnobSpec, Row};
use quaver_host::facts::HostFacts;
use quaver_host::root::{HostRoot, parse_cpu_list};
use quaver_host::settings::contact::Contact;
use quaver_host::settings::kernel_threads::{KernelThread, kernel_threads};
use quaver_host::settings::knob::{Change, cpu_list, cpu_mask, mask_cpus};
use serde::{Deserialize, Serialize};

/// For whom the machine is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// CPUs of the receiver.
    pub cpus: Vec<u16>,
    /// Its network interface.
    pub interface: Option<String>,
    /// Its process, where it runs already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Set, or happening, so that it makes threads and packets late.
    Hurts,
    /// Cannot be told from here.
    Unknown,
    /// As it should be.
    Good,
    /// Does not exist on this machine.
    NotApplicable,
}

impl Verdict {
    /// Name as the console and JSON show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hurts => "hurts",
            Self::Unknown => "unknown",
            Self::Good => "good",
            Self::NotApplicable => "not-applicable",
        }
    }
}

/// One knob, boot option or sign of a row, as it is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// How it stands.
    pub verdict: Verdict,
    /// What was seen.
    pub evidence: String,
    /// What would be set, in this order.
    pub changes: Vec<Change>,
}

impl Item {
    fn new(verdict: Verdict, evidence: impl Into<String>) -> Self {
        Self { verdict, evidence: evidence.into(), changes: Vec::new() }
    }

    fn good(evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Good, evidence)
    }

    fn unknown(evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, evidence)
    }

    fn absent(evidence: impl Into<String>) -> Self {
        Self::new(Verdict::NotApplicable, evidence)
    }

    fn hurts(evidence: impl Into<String>, changes: Vec<Change>) -> Self {
        Self { verdict: Verdict::Hurts, evidence: evidence.into(), changes }
    }
}

/// A machine seen for a target.
#[derive(Debug)]
pub struct View<'a> {
    pub(super) contact: &'a dyn Contact,
    pub(super) target: &'a Target,
    pub(super) facts: HostFacts,
    /// CPUs online that are not the receiver's.
    pub(super) other: Vec<u16>,
    pub(super) threads: Vec<KernelThread>,
}

impl<'a> View<'a> {
    /// Looks at the machine.
    pub fn new(contact: &'a dyn Contact, target: &'a Target) -> Self {
        let facts = HostFacts::read(contact.root());
        let other = facts.cpu.online.iter().copied().filter(|cpu| !target.cpus.contains(cpu)).collect();
        let threads = kernel_threads(contact.root());
        Self { contact, target, facts, other, threads }
    }

    fn root(&self) -> &HostRoot {
        self.contact.root()
    }

    /// What the knobs of a row are here.
    pub(super) fn knobs(&self, row: &Row) -> Vec<Item> {
        if let Some(lacking) = self.lacking(row) {
            // A kernel that is new enough and was built with anything has it, although it does not show it.
            let hidden = row.needs.kernel.is_some() && !self.is_too_old(row) && row.needs.config.is_empty();
            let item = if hidden { Item::unknown(lacking) } else { Item::absent(lacking) };
            return if row.knobs.is_empty() { Vec::new() } else { vec![item] };
        }
        let mut items: Vec<Item> = row.knobs.iter().flat_map(|spec| self.knob(spec)).collect();
        for item in items.iter_mut().filter(|item| row.choice && item.verdict == Verdict::Hurts) {
            item.verdict = Verdict::Unknown;
        }
        items
    }

    fn knob(&self, spec: &KnobSpec) -> Vec<Item> {
        match spec {
            KnobSpec::Sysctl { name, set, good } => vec![self.sysctl(name, set, good.as_ref())],
            KnobSpec::File { path, set, set_from, good, offered } => {
                let value =
                    files::Value { set: set.as_deref(), from: set_from.as_deref(), good: good.as_ref() };
                self.files(path, value, offered.as_deref())
            }
            KnobSpec::IrqAffinity { of } => vec![self.interrupts(*of)],
            KnobSpec::ThreadAffinity { names, except } => vec![self.kernel_threads(names, except)],
            KnobSpec::WorkqueueMask { path } => self.workqueue_masks(path),
            KnobSpec::Ethtool { field, set, good } => vec![self.ethtool(field, set, good.as_ref())],
            KnobSpec::PmQos { device, set, unless } => vec![self.latency(device, set, unless.as_deref())],
            KnobSpec::CpusetPartition { path } => vec![self.partition(path)],
            KnobSpec::Cgroup { file, set, good } => self.control_groups(file, set, good.as_ref()),
            KnobSpec::Quota {} => self.quotas(),
            KnobSpec::Unit { name, set } => vec![self.unit(name, set)],
        }
    }

    /// Why nothing can be set on this machine although it may happen here.
    pub(super) fn lacking(&self, row: &Row) -> Option<String> {
        let needs = &row.needs;
        if let Some(oldest) = needs.kernel.as_ref().filter(|_| self.is_too_old(row)) {
            return Some(format!("needs Linux {oldest} or newer"));
        }
        let missing = needs.present.iter().find(|path| !self.root().exists(path))?;
        let built = if needs.config.is_empty() {
            String::new()
        } else {
            format!(" (a kernel with {})", needs.config.join(", "))
        };
        Some(format!("this kernel has no {missing}{built}"))
    }

    fn is_too_old(&self, row: &Row) -> bool {
        match (&row.needs.kernel, &self.facts.kernel.release) {
            (Some(oldest), Some(here)) => version(here) < version(oldest),
            _ => false,
        }
    }

    /// Why the row's mechanism does not exist on a machine of this kind.
    pub(super) fn elsewhere(&self, row: &Row) -> Option<&'static str> {
        match (row.needs.in_virtual_machine?, self.facts.hypervisor.present) {
            (true, false) => Some("this is no virtual machine"),
            (false, true) => Some("in a virtual machine it cannot be told from the hypervisor (see steal)"),
            _ => None,
        }
    }

    /// How the options of the kernel's command line stand.
    pub(super) fn boot(&self, row: &Row) -> Vec<(BootOption, Item)> {
        let of = |option: &BootOption| {
            let filled = self.filled(&option.option);
            let filled = BootOption { option: filled, ..option.clone() };
            let item = self.boot_option(&filled);
            (filled, item)
        };
        row.boot.iter().map(of).collect()
    }

    fn boot_option(&self, option: &BootOption) -> Item {
        let words = self.root().text("/proc/cmdline").unwrap_or_default();
        let key = option.option.split('=').next().unwrap_or(&option.option);
        let given = words.split_whitespace().find(|word| word.split('=').next() == Some(key));
        let covers = |list: &str| {
            let listed = parse_cpu_list(list);
            self.target.cpus.iter().all(|cpu| listed.contains(cpu))
        };
        if let Some(path) = &option.listed {
            let Some(list) = self.root().text(path) else {
                return Item::absent(format!("this kernel has no {path}"));
            };
            return if covers(&list) {
                Item::good(format!("{path} lists {list}"))
            } else {
                Item::hurts(format!("{path} does not list CPU {}", cpu_list(&self.target.cpus)), Vec::new())
            };
        }
        let of_cpus = option.option == format!("{key}={}", cpu_list(&self.target.cpus));
        match given {
            Some(word) if word == option.option => Item::good(format!("booted with {word}")),
            Some(word) if of_cpus && covers(word.split_once('=').map_or("", |(_, list)| list)) => {
                Item::good(format!("booted with {word}"))
            }
            Some(word) => Item::unknown(format!("booted with {word}, not {}", option.option)),
            None => Item::unknown(format!("not booted with {}", option.option)),
        }
    }

    /// A text with its placeholders filled, but for `{cpu}`.
    fn filled(&self, text: &str) -> String {
        text.replace("{cpus}", &cpu_list(&self.target.cpus))
            .replace("{other}", &cpu_list(&self.other))
            .replace("{other_mask}", &cpu_mask(&self.other))
            .replace("{interface}", self.target.interface.as_deref().unwrap_or("{interface}"))
    }

    /// Whether the value does not hurt.
    fn is_good(&self, text: &str, set: &str, good: Option<&Good>) -> bool {
        let first = text.split_whitespace().next().unwrap_or_default();
        let number = first.parse::<i64>().ok();
        match good {
            None => false,
            _ if text == set => true,
            Some(Good::Any(values)) => values.iter().any(|value| value == text),
            Some(Good::AtLeast(least)) => number.is_some_and(|number| number >= *least),
            Some(Good::AtMost(most) | Good::FirstAtMost(most)) => {
                number.is_some_and(|number| number <= *most)
            }
            Some(Good::Starts(word)) => first == word,
            Some(Good::Avoids(_)) => {
                mask_cpus(text).is_some_and(|cpus| !cpus.iter().any(|cpu| self.target.cpus.contains(cpu)))
            }
        }
    }
}

fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Whether a name is what a pattern with `*` asks for.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(after, &rest[at..]))
}

#[cfg(test)]
mod tests;
