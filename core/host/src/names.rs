//! Names for the numbers in [`quaver_abi::record::EventRecord`]: interrupts, functions, threads, idle states, softirqs.
//!
//! Read once, after recording. Everything here only reads.

use super::root::HostRoot;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Why function names cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The kernel shows zeros instead of addresses.
    #[error(
        "reading function addresses from /proc/kallsyms: the kernel hides them; run as root, or set \
         kernel.kptr_restrict to 0 with `sysctl kernel.kptr_restrict=0`"
    )]
    Hidden,
    /// There is no such file, or it cannot be read.
    #[error("reading /proc/kallsyms: {0}; needs a kernel built with CONFIG_KALLSYMS")]
    Unreadable(#[from] io::Error),
}

/// Bytes behind a function's start that are still taken for the function.
const FARTHEST: u64 = 1 << 16;

/// Device interrupts by number, as `/proc/interrupts` names their handlers (several are joined as there).
/// Empty if the file is missing; numbers without a handler are left out.
pub fn irq_names(root: &HostRoot) -> BTreeMap<u32, String> {
    let text = root.text("proc/interrupts").unwrap_or_default();
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |header| header.split_whitespace().count());
    lines.filter_map(|line| irq_name(line, cpus)).collect()
}

/// A line such as ` 28:  0  0  PCI-MSIX-0000:00:01.0  0-edge  virtio0-config`.
fn irq_name(line: &str, cpus: usize) -> Option<(u32, String)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    // Counts, then the controller, its own number and the trigger, then the handlers. Older kernels and other
    // machines write these in one to three words; the trigger is the last of them.
    let words: Vec<&str> = rest.split_whitespace().skip(cpus).collect();
    let is_trigger = |word: &&str| {
        let word = word.to_ascii_lowercase();
        word.ends_with("edge") || word.ends_with("level") || word.ends_with("fasteoi")
    };
    let handlers = words.iter().take(4).position(is_trigger).map_or(1, |index| index + 1);
    let name = words.get(handlers..)?.join(" ");
    (!name.is_empty()).then_some((number, name))
}

/// Idle states by number. Empty where the machine has no idle driver; the kernel then tells of state 1 only, the
/// processor's plain halt.
pub fn idle_state_names(root: &HostRoot) -> BTreeMap<u32, String> {
    let folder = "sys/devices/system/cpu/cpu0/cpuidle";
    let numbers = root.names(folder).into_iter().filter_map(|name| name.strip_prefix("state")?.parse().ok());
    numbers.filter_map(|number| Some((number, root.text(&format!("{folder}/state{number}/name"))?))).collect()
}

/// Names of those `threads` that still live.
pub fn task_names(root: &HostRoot, threads: &BTreeSet<u32>) -> BTreeMap<u32, String> {
    let name = |thread: &u32| Some((*thread, root.text(&format!("proc/{thread}/comm"))?));
    threads.iter().filter_map(name).collect()
}

/// The system call of this number on this machine; none for a number that is newer than this program.
pub fn system_call_name(number: u64) -> Option<&'static str> {
    Some(syscalls::Sysno::new(usize::try_from(number).ok()?)?.name())
}

/// The functions that `addresses` lie in, each as `name` or `name [module]`; addresses in none are left out.
///
/// Memory is that of the answer, not of the table, which has 100,000 lines and more.
pub fn function_names(
    root: &HostRoot,
    addresses: &BTreeSet<u64>,
) -> Result<BTreeMap<u64, String>, SymbolError> {
    if addresses.is_empty() {
        return Ok(BTreeMap::new());
    }
    let wanted: Vec<u64> = addresses.iter().copied().collect();
    let nearest = nearest_below(BufReader::new(File::open(root.path("proc/kallsyms"))?), &wanted)?;
    let mut names = BTreeMap::new();
    let mut below: Option<&(u64, String)> = None;
    for (address, found) in wanted.iter().zip(&nearest) {
        // Where no function begins between two addresses, both have the same nearest one.
        below = found.as_ref().or(below);
        if let Some((start, name)) = below.filter(|(start, _)| address - start < FARTHEST) {
            debug_assert!(start <= address);
            names.insert(*address, name.clone());
        }
    }
    Ok(names)
}

/// For each address of the ascending `wanted`, the last function that begins at or below it and above the address
/// before.
fn nearest_below(mut table: impl BufRead, wanted: &[u64]) -> Result<Vec<Option<(u64, String)>>, SymbolError> {
    let mut nearest: Vec<Option<(u64, String)>> = vec![None; wanted.len()];
    let mut visible = false;
    let mut line = String::new();
    while table.read_line(&mut line)? > 0 {
        if let Some((start, name)) = function(&line) {
            visible |= start != 0;
            let index = wanted.partition_point(|address| *address < start);
            if let Some(slot) = nearest.get_mut(index)
                && slot.as_ref().is_none_or(|(best, _)| start > *best)
            {
                *slot = Some((start, name));
            }
        }
        line.clear();
    }
    if visible { Ok(nearest) } else { Err(SymbolError::Hidden) }
}

/// A line such as `ffffffff81000000 T name` or `ffffffffc0000000 t name [module]`, if it names a function.
fn function(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    if !matches!(words.next()?, "t" | "T" | "w" | "W") {
        return None;
    }
    let name = words.next()?;
    Some((start, words.next().map_or_else(|| name.to_owned(), |module| format!("{name} {module}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    fn host(files: &[(&str, &str)]) -> FakeHost {
        let host = FakeHost::empty();
        host.files(files);
        host
    }

    #[test]
    fn interrupts_of_several_kernels() {
        let text = "           CPU0       CPU1\n\
            \x20  0:         45          0   IO-APIC   2-edge      timer\n\
            \x20 26:          0         12  IO-APIC   4-edge      ttyS0\n\
            \x20 28:          0          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config\n\
            \x20 30:          7          0  IR-PCI-MSI 524288-edge      eth0-rx-0, eth0 tx\n\
            \x20 31:          7          0     GICv3  27 Level     arch_timer\n\
            \x20 32:          7          0   IO-APIC-fasteoi   ahci\n\
            \x20 33:          7          0   unknown   mystery\n\
            \x20 34:          0          0   IO-APIC   9-edge\n\
            NMI:          1          2   Non-maskable interrupts\n\
            ERR:          0\n";
        let host = host(&[("proc/interrupts", text)]);
        let names = irq_names(&host.root());
        let expected = [
            (0, "timer"),
            (26, "ttyS0"),
            (28, "virtio0-config"),
            (30, "eth0-rx-0, eth0 tx"),
            (31, "arch_timer"),
            (32, "ahci"),
            (33, "mystery"),
        ];
        let found: Vec<(u32, &str)> = names.iter().map(|(n, name)| (*n, name.as_str())).collect();
        assert_eq!(found, expected);
        assert!(irq_names(&FakeHost::empty().root()).is_empty());
    }

    #[test]
    fn idle_states_in_their_order() {
        let host = host(&[
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state10/name", "C10\n"),
        ]);
        let states = idle_state_names(&host.root());
        assert_eq!(states, BTreeMap::from([(0, "POLL".to_owned()), (10, "C10".to_owned())]));
    }

    #[test]
    fn threads_that_live() {
        let host = host(&[("proc/17/comm", "rcu worker\n")]);
        let names = task_names(&host.root(), &BTreeSet::from([17, 18]));
        assert_eq!(names, BTreeMap::from([(17, "rcu worker".to_owned())]));
    }

    const TABLE: &str = "ffffffff81000000 T first\nffffffff81000010 t second\nffffffff81000010 t alias\n\
        ffffffff81000018 d datum\nffffffff81000020 T third\nffffffffc0000000 t driver_tick\t[driver]\nnot a line\n";

    #[test]
    fn functions_by_the_address_inside() {
        let host = host(&[("proc/kallsyms", TABLE)]);
        let wanted = BTreeSet::from([
            0xffff_ffff_8100_0000,
            0xffff_ffff_8100_0012,
            0xffff_ffff_8100_0019,
            0xffff_ffff_8100_0020,
            0xffff_ffff_9000_0000,
            0xffff_ffff_c000_0004,
            0x10,
        ]);
        let names = function_names(&host.root(), &wanted).unwrap();
        let found: Vec<&str> = names.values().map(String::as_str).collect();
        assert_eq!(found, ["first", "second", "second", "third", "driver_tick [driver]"]);
        assert!(!names.contains_key(&0xffff_ffff_9000_0000), "too far from any function");
    }

    #[test]
    fn system_calls_of_this_machine() {
        assert_eq!(system_call_name(libc::SYS_recvmmsg as u64), Some("recvmmsg"));
        assert_eq!(system_call_name(libc::SYS_clock_nanosleep as u64), Some("clock_nanosleep"));
        assert_eq!(system_call_name(9_999), None);
        assert_eq!(system_call_name(u64::MAX), None);
    }

    #[test]
    fn hidden_addresses_are_said_to_be() {
        let hidden = host(&[("proc/kallsyms", "0000000000000000 T first\n0000000000000000 t second\n")]);
        let error = function_names(&hidden.root(), &BTreeSet::from([5])).unwrap_err();
        assert!(matches!(error, SymbolError::Hidden) && error.to_string().contains("kptr_restrict"));
        let absent = function_names(&FakeHost::empty().root(), &BTreeSet::from([5])).unwrap_err();
        assert!(matches!(absent, SymbolError::Unreadable(_)));
        assert!(function_names(&FakeHost::empty().root(), &BTreeSet::new()).unwrap().is_empty());
    }
}
