//! What may run on the receiver's CPUs: interrupts, kernel threads, work items.

use super::{Item, View, fits};
use crate::catalogue::Interrupts;
use quaver_host::root::parse_cpu_list;
use quaver_host::settings::kernel_threads::KernelThread;
use quaver_host::settings::knob::{Change, Knob, cpu_list, cpu_mask, mask_cpus};
use quaver_host::settings::steer;

/// Names of things shown in one line of evidence.
const SHOWN: usize = 4;

impl View<'_> {
    fn hits(&self, cpus: &[u16]) -> bool {
        cpus.iter().any(|cpu| self.target.cpus.contains(cpu))
    }

    /// The same CPUs without the receiver's; all others where none is left.
    fn without_receiver(&self, cpus: &[u16]) -> Vec<u16> {
        let left: Vec<u16> = cpus.iter().copied().filter(|cpu| self.other.contains(cpu)).collect();
        if left.is_empty() { self.other.clone() } else { left }
    }

    fn alone(&self) -> Option<Item> {
        self.other.is_empty().then(|| Item::absent("there is no other CPU to go to"))
    }

    pub(super) fn interrupts(&self, of: Interrupts) -> Item {
        if let Some(item) = self.alone() {
            return item;
        }
        let root = self.root();
        let own = self
            .target
            .interface
            .as_deref()
            .map(|name| steer::interrupts(self.contact, name))
            .unwrap_or_default();
        let (mut changes, mut seen, mut looked) = (Vec::new(), Vec::new(), 0);
        let mut irqs: Vec<u32> =
            root.names("/proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
        irqs.sort_unstable();
        for irq in irqs.into_iter().filter(|irq| own.contains(irq) == (of == Interrupts::Interface)) {
            let folder = format!("/proc/irq/{irq}");
            let Some(requested) = root.text(&format!("{folder}/smp_affinity_list")) else { continue };
            let Some(name) = self.action(&folder) else { continue };
            looked += 1;
            let requested = parse_cpu_list(&requested);
            if self.hits(&requested) {
                let effective = root.cpu_list(&format!("{folder}/effective_affinity_list"));
                let now = if effective.is_empty() {
                    String::new()
                } else {
                    format!(" (now CPU {})", cpu_list(&effective))
                };
                seen.push((self.hits(&effective), format!("{irq} {name}{now}")));
                changes.push(Change::new(Knob::Irq { irq }, cpu_list(&self.without_receiver(&requested))));
            }
        }
        if changes.is_empty() {
            return Item::good(format!("none of {looked} interrupts may come here"));
        }
        let here = seen.iter().filter(|(here, _)| *here).count();
        // Those that come here now are named first.
        seen.sort_by_key(|(here, _)| !here);
        let names = some(seen.iter().map(|(_, name)| name.as_str()));
        Item::hurts(
            format!("{} of {looked} interrupts may come here, {here} of them do: {names}", changes.len()),
            changes,
        )
    }

    /// Devices of an interrupt; none if nobody listens to it.
    fn action(&self, folder: &str) -> Option<String> {
        let root = self.root();
        let names: Vec<String> = root
            .names(folder)
            .into_iter()
            .filter(|name| root.path(&format!("{folder}/{name}")).is_dir())
            .collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    pub(super) fn kernel_threads(&self, names: &[String], except: &[String]) -> Item {
        if let Some(item) = self.alone() {
            return item;
        }
        let named = |patterns: &[String], name: &str| patterns.iter().any(|pattern| fits(pattern, name));
        let chosen: Vec<&KernelThread> = self
            .threads
            .iter()
            .filter(|thread| named(names, &thread.name) && !named(except, &thread.name))
            .collect();
        if chosen.is_empty() {
            return Item::absent(format!("no thread {} runs", names.join(", ")));
        }
        let here = chosen.into_iter().filter(|thread| self.hits(&thread.cpus));
        let (bound, free): (Vec<&KernelThread>, Vec<&KernelThread>) = here.partition(|thread| thread.bound);
        let stay = if bound.is_empty() {
            String::new()
        } else {
            format!("; {} are bound to their CPUs and stay", bound.len())
        };
        if free.is_empty() {
            return Item::good(format!("none that could run elsewhere may run here{stay}"));
        }
        let change = |thread: &&KernelThread| {
            Change::new(Knob::Thread { tid: thread.tid }, cpu_list(&self.without_receiver(&thread.cpus)))
        };
        let names = some(free.iter().map(|thread| thread.name.as_str()));
        Item::hurts(format!("{} may run here: {names}{stay}", free.len()), free.iter().map(change).collect())
    }

    pub(super) fn workqueue_masks(&self, pattern: &str) -> Vec<Item> {
        if let Some(item) = self.alone() {
            return vec![item];
        }
        let mut items = Vec::new();
        for (path, _) in self.expanded(pattern) {
            let Some(cpus) = self.root().text(&path).and_then(|text| mask_cpus(&text)) else { continue };
            items.push(if self.hits(&cpus) {
                let change = Change::new(Knob::file(path.clone()), cpu_mask(&self.without_receiver(&cpus)));
                Item::hurts(format!("{path} has CPUs {}", cpu_list(&cpus)), vec![change])
            } else {
                Item::good(format!("{path} has CPUs {}", cpu_list(&cpus)))
            });
        }
        if items.is_empty() {
            items.push(Item::absent(format!("there is no {pattern}")));
        }
        items
    }
}

/// The first few of some names.
fn some<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(SHOWN);
    let list = names[..names.len().min(SHOWN)].join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}
