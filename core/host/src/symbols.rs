//! What the functions on recorded stacks are called: of the kernel by its own table, of a process by the files that it
//! maps, their debug information, and the map that a compiler at run time leaves for profilers (`/tmp/perf-PID.map`).

use super::names::function_names;
use super::root::HostRoot;
use crate::confinement::SYMBOLS;
use blazesym::Pid;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses from here on are the kernel's.
const KERNEL: u64 = 1 << 63;
/// Files without symbols that are told by name.
const MOST_TOLD: usize = 3;

/// Executable memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMap {
    /// First address, address behind the last, and name of the file or special memory; empty for none.
    regions: Vec<(u64, u64, String)>,
}

impl MemoryMap {
    /// The map of a process; empty where it is gone or may not be read.
    pub fn of(root: &HostRoot, pid: u32) -> Self {
        let text = root.text(&format!("proc/{pid}/maps")).unwrap_or_default();
        Self { regions: text.lines().filter_map(executable).collect() }
    }

    /// Name of the file around an address, empty for memory without a file; none for an address where no code is.
    fn module(&self, address: u64) -> Option<&str> {
        let after = self.regions.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = &self.regions[after.checked_sub(1)?];
        (address < *end).then_some(name.as_str())
    }
}

/// A line such as `7f00-7f10 r-xp 00001000 fe:00 17  /usr/lib/libc.so.6`, if the memory is executable.
fn executable(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    if !words.next()?.contains('x') {
        return None;
    }
    let path = words.nth(3).unwrap_or_default().trim().trim_end_matches(" (deleted)");
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?, name))
}

/// Stacks by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackNames {
    /// Functions of each stack, innermost first. A function that has no name is its file's (`libfoo.so (no symbols)`).
    pub stacks: BTreeMap<u32, Vec<String>>,
    /// What could not be named, each as a short noun phrase with the reason.
    pub unnamed: Vec<String>,
}

/// Names the functions on `stacks` (addresses, innermost first; each stack is the kernel's or the process's). `process` is
/// none where it is gone; then functions are named by file alone, by its map `before`.
pub fn name_stacks(
    root: &HostRoot,
    process: Option<u32>,
    before: MemoryMap,
    stacks: &BTreeMap<u32, Vec<u64>>,
) -> StackNames {
    let looked_up = stacks.values().flat_map(|stack| (0..).zip(stack).map(|(depth, at)| inside(depth, *at)));
    let (kernel, user): (BTreeSet<u64>, BTreeSet<u64>) = looked_up.partition(|address| *address >= KERNEL);
    let mut names = StackNames::default();
    let mut known = match function_names(root, &kernel) {
        Ok(known) => known,
        Err(error) => {
            names.unnamed.push(format!("functions of the kernel ({error})"));
            BTreeMap::new()
        }
    };
    let user: Vec<u64> = user.into_iter().collect();
    let mut maps = before;
    match process {
        Some(pid) => {
            maps = MemoryMap::of(root, pid);
            known.extend(functions_of(pid, &user));
        }
        None if !user.is_empty() => names.unnamed.push("functions of the receiver (it was gone)".to_owned()),
        None => {}
    }
    let mut nameless: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, stack) in stacks {
        let mut functions = Vec::with_capacity(stack.len());
        for (depth, address) in (0..).zip(stack) {
            let address = inside(depth, *address);
            if let Some(name) = known.get(&address) {
                functions.push(name.clone());
            } else if address >= KERNEL {
                functions.push("a function of the kernel".to_owned());
            } else if let Some(module) = maps.module(address) {
                if depth == 0 {
                    *nameless.entry(module).or_default() += 1;
                }
                functions.push(without_symbols(module, process.is_some()));
            } else if depth == 0 {
                functions.push("unknown code".to_owned());
            }
            // Else: no code is there. Programs built without frame pointers leave such addresses on a stack.
        }
        names.stacks.insert(*number, functions);
    }
    if process.is_some() {
        names.unnamed.extend(told(nameless));
    }
    names
}

/// An address inside the calling function: a return address may be that of the function behind it.
fn inside(depth: usize, address: u64) -> u64 {
    if depth == 0 { address } else { address.saturating_sub(1) }
}

fn without_symbols(module: &str, lives: bool) -> String {
    match (module, lives) {
        ("", _) => "code made at run time".to_owned(),
        (module, true) => format!("{module} (no symbols)"),
        (module, false) => module.to_owned(),
    }
}

/// Files whose functions have no names, those met most often first.
fn told(nameless: BTreeMap<&str, usize>) -> Vec<String> {
    let mut files: Vec<(usize, &str)> = nameless.into_iter().map(|(name, count)| (count, name)).collect();
    files.sort_by_key(|(count, name)| (usize::MAX - count, *name));
    let phrase = |(_, name): (usize, &str)| match name {
        "" => "functions of code made at run time (no map in /tmp/perf-PID.map)".to_owned(),
        name => format!("functions of {name} (no symbols)"),
    };
    files.into_iter().take(MOST_TOLD).map(phrase).collect()
}

/// Functions that addresses of a living process lie in; those without a name are left out. Its files are read by a thread that
/// has no right to do more, and where that cannot be had nobody reads them.
fn functions_of(pid: u32, addresses: &[u64]) -> BTreeMap<u64, String> {
    std::thread::scope(|scope| {
        let confined = || {
            SYMBOLS.keep(None);
            read_functions(pid, addresses)
        };
        let reader = std::thread::Builder::new().name("quaver-symbols".into()).spawn_scoped(scope, confined);
        // Broken debug information that ends it by a panic costs the names, and no more.
        reader.ok().and_then(|reader| reader.join().ok()).unwrap_or_default()
    })
}

fn read_functions(pid: u32, addresses: &[u64]) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    // Debug information may be broken, and the links to mapped files need a capability: then the plain symbols by path.
    for thorough in [true, false] {
        let left: Vec<u64> = addresses.iter().copied().filter(|at| !names.contains_key(at)).collect();
        if left.is_empty() {
            break;
        }
        let mut process = Process::new(Pid::from(pid));
        process.debug_syms = thorough;
        process.map_files = thorough;
        let symbolizer = Symbolizer::new();
        let Ok(found) = symbolizer.symbolize(&Source::Process(process), Input::AbsAddr(&left)) else {
            continue;
        };
        for (address, symbol) in left.iter().zip(&found) {
            if let Symbolized::Sym(symbol) = symbol {
                let inlined = symbol.inlined.last().map(|innermost| innermost.name.to_string());
                names.insert(*address, inlined.unwrap_or_else(|| symbol.name.to_string()));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[inline(never)]
    fn a_function_of_this_test() -> u64 {
        std::hint::black_box(7)
    }

    const KALLSYMS: &str =
        "ffffffff81000000 T sys_outer\nffffffff81000100 T sys_inner\nffffffff81000200 T last\n";

    #[test]
    fn functions_of_a_living_process_and_of_the_kernel_have_their_names() {
        let here = a_function_of_this_test as *const () as u64;
        let stacks = BTreeMap::from([
            (3, vec![here, here + 1, 0x10]),
            (5, vec![0xffff_ffff_8100_0110, 0xffff_ffff_8100_0100]),
        ]);
        let host = FakeHost::empty();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let place = format!("proc/{}/maps", std::process::id());
        host.files(&[("proc/kallsyms", KALLSYMS), (&place, &maps)]);
        let named = name_stacks(&host.root(), Some(std::process::id()), MemoryMap::default(), &stacks);
        assert_eq!(named.unnamed, Vec::<String>::new());
        // The return address behind the inner function's first byte is the outer function's last one.
        assert_eq!(named.stacks[&5], ["sys_inner", "sys_outer"]);
        assert_eq!(named.stacks[&3].len(), 2, "no code is at 0x10: {named:?}");
        assert!(named.stacks[&3].iter().all(|name| name.contains("a_function_of_this_test")), "{named:?}");
        let _ = a_function_of_this_test();
    }

    const MAPS: &str = "1000-2000 r--p 00000000 fe:00 17   /opt/player\n\
        2000-3000 r-xp 00001000 fe:00 17   /opt/player\n\
        5000-6000 r-xp 00000000 fe:00 18   /usr/lib/lib with space.so (deleted)\n\
        8000-9000 rwxp 00000000 00:00 0 \n";

    #[test]
    fn what_has_no_name_is_told_by_file() {
        let host = FakeHost::empty();
        // No process has this number, so that nothing but the map tells.
        host.files(&[("proc/4194999/maps", MAPS)]);
        let stacks =
            BTreeMap::from([(1, vec![0x2010, 0x5100]), (2, vec![0x5005]), (3, vec![0x8008, 0x1500])]);
        let before = MemoryMap::of(&host.root(), 4_194_999);
        let gone = name_stacks(&host.root(), None, before, &stacks);
        assert_eq!(gone.stacks[&1], ["player", "lib with space.so"]);
        assert_eq!(gone.stacks[&3], ["code made at run time"], "0x1500 is no code");
        assert_eq!(gone.unnamed, ["functions of the receiver (it was gone)"]);
        let lives = name_stacks(&host.root(), Some(4_194_999), MemoryMap::default(), &stacks);
        assert_eq!(lives.stacks[&2], ["lib with space.so (no symbols)"]);
        let told = [
            "functions of code made at run time (no map in /tmp/perf-PID.map)",
            "functions of lib with space.so (no symbols)",
            "functions of player (no symbols)",
        ];
        assert_eq!(lives.unnamed, told);
    }
}
