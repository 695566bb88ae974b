//! What the addresses of a run's objects and call sites are called. Only the machine that ran the program can tell, so the
//! names are kept beside the recordings.

use super::callers::{Callers, Chains, SHOWN};
use super::images::Image;
use super::origins::{Beginning, Beginnings, Origin};
use super::shared::SharedMemory;
use crate::record::java::{self, PerfMap};
use crate::record::maps::MemoryMap;
use crate::record::runtimes::{self, FutexWord};
use crate::record::symbols::Symbolizer;
use crate::record::unwind::Unwinder;
use anyhow::Context;
use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::lanes::Span;
use quaver_sync_analysis::sync::{Contention, SHARED_ADDRESS, SyncEvent, SyncResults, ThreadId, WordUse};
use quaver_view::Cell;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Names of one process image's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageNames {
    /// Locks, conditions, semaphores, barriers.
    pub objects: BTreeMap<u64, String>,
    /// Functions that called.
    pub callers: BTreeMap<u64, String>,
    /// Those whose line in the source is known: `push (queue.c:12)`.
    #[serde(default)]
    pub lines: BTreeMap<u64, String>,
    /// Chains of calls.
    #[serde(default)]
    pub chains: Chains,
    /// Functions of the chains that are shown, innermost first.
    #[serde(default)]
    pub functions: BTreeMap<u64, Vec<String>>,
    /// Where objects without a symbol come from.
    #[serde(default)]
    pub origins: BTreeMap<u64, Origin>,
    /// Samples in loops that wait for others, by address.
    #[serde(default)]
    pub spins: BTreeSet<u64>,
    /// Semaphores and futex words of runtimes that are known: whose, and what the word is to it.
    #[serde(default)]
    pub runtimes: BTreeMap<u64, String>,
    /// Files whose calls have no line, and those whose functions have no name.
    #[serde(default)]
    pub without: Without,
    /// Threads by their numbers.
    #[serde(default)]
    pub threads: BTreeMap<u32, String>,
}

/// Files of calls that are shown, for which something is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Without {
    /// No debug information says which line it is.
    pub lines: BTreeSet<String>,
    /// No symbol says which function it is.
    pub symbols: BTreeSet<String>,
    /// Java left no map of its code.
    #[serde(default)]
    pub java: bool,
}

/// Names by process image, in the order of the images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncNames(pub Vec<ImageNames>);

impl SyncNames {
    /// What an object is called; its address where nobody knows.
    pub fn object(&self, process: u16, address: u64) -> String {
        // Places in shared memory are no image's; their names are kept with the first.
        let process = if address & SHARED_ADDRESS == 0 { usize::from(process) } else { 0 };
        let image = self.0.get(process);
        let known = image.and_then(|image| image.objects.get(&address)).cloned();
        let name = known.unwrap_or_else(|| format!("{address:#x}"));
        match image.and_then(|image| image.origins.get(&address)) {
            Some(origin) => format!("{name} {}", origin.short()),
            None => name,
        }
    }

    /// The runtime that waits on a word, and what the word is to it.
    pub fn runtime(&self, process: u16, address: u64) -> Option<&String> {
        self.0.get(usize::from(process))?.runtimes.get(&address)
    }

    /// Where an object without a symbol comes from.
    pub fn origin(&self, process: u16, address: u64) -> Option<&Origin> {
        let process = if address & SHARED_ADDRESS == 0 { usize::from(process) } else { 0 };
        self.0.get(process)?.origins.get(&address)
    }

    /// What cannot be named, and what would change that; a sentence each.
    pub fn missing(&self) -> Vec<String> {
        let of = |files: fn(&ImageNames) -> &BTreeSet<String>| -> Vec<String> {
            let all: BTreeSet<String> = self.0.iter().flat_map(files).cloned().collect();
            all.into_iter().collect()
        };
        let (lines, symbols) = (of(|image| &image.without.lines), of(|image| &image.without.symbols));
        let mut told = Vec::new();
        if !symbols.is_empty() {
            let files = symbols.join(", ");
            told.push(format!("Functions of {files} have no names: no symbols are left there (stripped)."));
        }
        if !lines.is_empty() {
            let files = lines.join(", ");
            told.push(format!(
                "Calls in {files} have no line: no debug information was found (compile with -g)."
            ));
        }
        if self.0.iter().any(|image| image.without.java) {
            told.push(NO_PERF_MAP.to_owned());
        }
        let unknown = self.0.iter().flat_map(|image| &image.chains.unknown);
        told.extend(unknown.map(|(reason, stacks)| {
            let stacks = Cell::several(*stacks, "stack");
            format!("Of {stacks} not all callers that are shown elsewhere are known: {reason}.")
        }));
        told
    }

    /// The functions of a chain of calls, innermost first.
    fn functions(&self, process: u16, chain: u64) -> Option<&Vec<String>> {
        self.0.get(usize::from(process))?.functions.get(&chain)
    }

    /// The function that a call returns into, and those that called it as far as they are known: `take (a.c:7) from run (a.c:20)`.
    pub fn calls(&self, process: u16, address: u64) -> String {
        let chain = self.functions(process, address).map(|functions| functions.join(" from "));
        chain.unwrap_or_else(|| self.function(process, address))
    }

    /// Which function a call returns into, and those that called it.
    pub fn caller(&self, process: u16, address: u64) -> String {
        if let Some(functions) = self.functions(process, address) {
            return functions.join(" from ");
        }
        let image = self.0.get(usize::from(process));
        let known = image.and_then(|image| image.lines.get(&address).or_else(|| image.callers.get(&address)));
        known
            .cloned()
            .unwrap_or_else(|| if address == 0 { "not known".to_owned() } else { format!("{address:#x}") })
    }

    /// The function that a call returns into, without the place in it.
    pub fn function(&self, process: u16, address: u64) -> String {
        match self.functions(process, address).and_then(|functions| functions.first()) {
            Some(function) => function.clone(),
            None => without_offset(self.caller(process, address)),
        }
    }

    /// What a thread is called, with its number.
    pub fn thread(&self, thread: ThreadId) -> String {
        // Of a thread that became another program, what it was last.
        let name = self.0.iter().rev().find_map(|image| image.threads.get(&thread.0));
        name.map_or_else(|| format!("thread {}", thread.0), |name| format!("{name} ({})", thread.0))
    }

    /// What a thread of this process image is called there.
    pub fn thread_of(&self, process: u16, thread: ThreadId) -> String {
        let name = self.0.get(usize::from(process)).and_then(|image| image.threads.get(&thread.0));
        name.map_or_else(|| self.thread(thread), |name| format!("{name} ({})", thread.0))
    }

    /// The names of a run that was analysed before.
    pub(super) fn stored(directory: &Path) -> anyhow::Result<Option<Self>> {
        path(directory).is_file().then(|| Self::read(directory)).transpose()
    }

    /// Reads the names of a run; none where it was killed before they were written.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = path(directory);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Writes them.
    pub(super) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let path = path(directory);
        let text = serde_json::to_vec_pretty(self)?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// `push (prog)` for `push+0x1f (prog)`.
fn without_offset(name: String) -> String {
    match name.split_once("+0x") {
        Some((function, rest)) => {
            let file = rest.split_once(' ').map_or("", |(_, file)| file);
            if file.is_empty() { function.to_owned() } else { format!("{function} {file}") }
        }
        None => name,
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("names.json")
}

/// Most futex words of which is kept who uses them; those that come later go without the name of their runtime.
const MOST_WORDS: usize = 65_536;

/// Futex words and semaphores of a run, by process image and address.
#[derive(Debug, Default)]
pub(super) struct FutexWords(BTreeMap<(u16, u64), FutexWord>);

impl FutexWords {
    /// Keeps who calls, where the event is the entry of a futex call or of a wait on a semaphore.
    pub(super) fn event(&mut self, event: &SyncEvent) {
        let wakes = event.kind == SyncKind::FutexWakeEntry;
        let waits = matches!(event.kind, SyncKind::FutexWaitEntry | SyncKind::SemWaitEntry);
        if !wakes && !waits || event.call_site == 0 {
            return;
        }
        let key = (event.process, event.object);
        if self.0.len() >= MOST_WORDS && !self.0.contains_key(&key) {
            return;
        }
        let new = FutexWord { call_site: event.call_site, ..FutexWord::default() };
        let word = self.0.entry(key).or_insert(new);
        if waits && !word.by_waiter {
            (word.call_site, word.by_waiter) = (event.call_site, true);
        }
        word.wakes_one += u64::from(wakes && event.detail <= 1);
        word.wakes_all += u64::from(wakes && event.detail > 1);
    }

    fn label(&self, process: u16, address: u64, is_signal: bool, symbols: &mut Symbolizer) -> Option<String> {
        let word = self.0.get(&(process, address))?;
        let file = symbols.file(word.call_site - 1)?;
        let function = symbols.caller(word.call_site)?;
        word.label(&file, &function, is_signal)
    }
}

/// What is to be named.
pub(super) struct Sources<'a> {
    pub(super) images: &'a [Image],
    pub(super) results: &'a SyncResults,
    pub(super) contention: &'a Contention,
    pub(super) spans: &'a [Span],
    pub(super) words: &'a FutexWords,
    pub(super) beginnings: &'a Beginnings,
    pub(super) chains: &'a [Chains],
    /// Threads of Quaver itself.
    pub(super) own_threads: &'a [u32],
}

impl Sources<'_> {
    /// Image and address of each object.
    fn objects(&self) -> impl Iterator<Item = (u16, u64)> {
        let locks = &self.contention.locks;
        let of_locks = locks.iter().map(|one| (one.process, one.address));
        let nested = locks.iter().chain(&self.contention.given_back);
        let nested = nested.flat_map(|one| &one.waited_for).map(|one| (one.process, one.address));
        let late = self.results.objects.iter().map(|one| (one.process, one.address));
        let longest = self.results.longest.iter().map(|wait| (wait.process, wait.object));
        let drawn = self.spans.iter().map(|span| (span.process, span.object));
        let words = self.contention.words.iter().map(|one| (one.process, one.address));
        let conditions = self.contention.conditions.iter().map(|one| (one.process, one.address));
        let barriers = self.contention.barriers.iter().map(|one| (one.process, one.address));
        let unended = self.contention.unended.iter().map(|one| (one.process, one.address));
        let others = words.chain(conditions).chain(barriers).chain(unended);
        late.chain(longest).chain(drawn).chain(of_locks).chain(nested).chain(others)
    }

    /// Image and address of each place that a call returns to.
    fn callers(&self) -> impl Iterator<Item = (u16, u64)> {
        let locks = self.contention.locks.iter().chain(&self.contention.given_back);
        let words = self.contention.words.iter().flat_map(|one| &one.waiter_sites);
        let conditions = self.contention.conditions.iter().flat_map(|one| &one.waiter_sites);
        let barriers = self.contention.barriers.iter().flat_map(|one| &one.waiter_sites);
        let rounds = &self.contention.word_rounds;
        let rounds = rounds.iter().flat_map(|one| one.waiter_sites.iter().chain(&one.last_sites));
        let words = words.chain(conditions).chain(barriers).chain(rounds);
        let sites = locks.flat_map(|one| one.owner_sites.iter().chain(&one.waiter_sites)).chain(words);
        let of_locks = sites.map(|one| (one.process, one.address));
        let late = self.results.call_sites.iter().map(|one| (one.process, one.address));
        let waits = self.results.longest.iter();
        let longest =
            waits.flat_map(|one| [(one.process, one.call_site), (one.process, one.waker_call_site)]);
        let unended = self.contention.unended.iter().map(|one| (one.process, one.call_site));
        late.chain(longest).chain(of_locks).chain(unended)
    }

    /// A futex word by which threads wake others and do not wait themselves.
    fn is_signal(&self, process: u16, address: u64) -> bool {
        let word = self.contention.words.iter().find(|one| (one.process, one.address) == (process, address));
        word.is_some_and(|word| word.used_like() == WordUse::Signal)
    }

    /// A lock, a condition or a barrier of the thread library. Of some locks a call goes into the kernel unrecorded, and is no runtime's.
    fn is_recorded(&self, process: u16, address: u64) -> bool {
        let Contention { locks, conditions, barriers, .. } = self.contention;
        locks.iter().any(|one| (one.process, one.address) == (process, address))
            || conditions.iter().any(|one| (one.process, one.address) == (process, address))
            || barriers.iter().any(|one| (one.process, one.address) == (process, address))
    }

    /// Threads of others that kept owners from their CPUs.
    fn strangers(&self) -> impl Iterator<Item = ThreadId> {
        let locks = self.contention.locks.iter().chain(&self.contention.given_back);
        locks.flat_map(|one| &one.preempted_by).map(|one| one.thread)
    }

    /// The label of a futex word that is part of a barrier: who waits on it and who wakes is in functions of that, as far as callers
    /// are known.
    fn barrier(&self, process: u16, address: u64, symbols: &mut Symbolizer) -> Option<&'static str> {
        let mut rounds = self.contention.word_rounds.iter().filter(|one| one.rounds > 0);
        let one = rounds.find(|one| (one.process, one.address) == (process, address))?;
        let [waits, wakes] = [&one.waiter_sites, &one.last_sites].map(|sites| {
            let parts = sites.iter().map(|site| self.part_of_barrier(process, site.address, symbols));
            parts.collect::<Vec<_>>()
        });
        let label = waits.iter().find_map(|part| part.label())?;
        let fits =
            |part: &PartOf| !matches!(part, PartOf::Program) && part.label().is_none_or(|one| one == label);
        let woken = wakes.iter().any(|part| part.label().is_some());
        (woken && waits.iter().chain(&wakes).all(fits)).then_some(label)
    }

    fn part_of_barrier(&self, process: u16, site: u64, symbols: &mut Symbolizer) -> PartOf {
        let chain = self.chains.get(usize::from(process)).and_then(|chains| chains.of(site));
        for at in chain.unwrap_or(&[site]) {
            let functions = symbols.of_libraries(*at);
            if let Some(label) = functions.iter().find_map(|function| runtimes::barrier_of(function)) {
                return PartOf::Barrier(label);
            }
            if symbols.is_own(*at) {
                return PartOf::Program;
            }
        }
        PartOf::Unknown
    }
}

/// What calls the kernel.
enum PartOf {
    /// A barrier with this label.
    Barrier(&'static str),
    /// The program, by no barrier.
    Program,
    /// A library, whose caller is not known.
    Unknown,
}

impl PartOf {
    const fn label(&self) -> Option<&'static str> {
        match self {
            Self::Barrier(label) => Some(label),
            Self::Program | Self::Unknown => None,
        }
    }
}

/// Looks up all addresses that the results and the drawn waits show. `maps_of` tells where the memory of an image is described.
pub(super) fn look_up(
    sources: &Sources<'_>,
    shared: &SharedMemory,
    maps_of: impl Fn(usize) -> Option<PathBuf>,
) -> SyncNames {
    let mut objects: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); sources.images.len().max(1)];
    let mut callers = objects.clone();
    let add = |to: &mut Vec<BTreeSet<u64>>, process: u16, address: u64| {
        if let Some(set) = to.get_mut(usize::from(process)).filter(|_| address != 0) {
            set.insert(address);
        }
    };
    sources.objects().for_each(|(process, address)| add(&mut objects, process, address));
    sources.callers().for_each(|(process, address)| add(&mut callers, process, address));
    let mut names = SyncNames::default();
    for (at, (objects, callers)) in objects.into_iter().zip(callers).enumerate() {
        let text = maps_of(at).and_then(|path| std::fs::read_to_string(path).ok());
        let mut symbols = Symbolizer::new(MemoryMap::parse(&text.unwrap_or_default()));
        let mut image = ImageNames::default();
        if let Some(recorded) = sources.images.get(at) {
            image.threads = thread_names(recorded, sources.images.len() == 1, &mut symbols);
        }
        let chains = sources.chains.get(at);
        let generated = sources.images.get(at).map(generated).unwrap_or_default();
        for address in callers {
            match chains.and_then(|chains| chains.of(address)) {
                Some(sites) => image.name_chain(address, sites, &generated, &mut symbols),
                None => image.name_call(address, &mut symbols),
            }
        }
        for address in objects {
            let is_signal = sources.is_signal(at as u16, address);
            let barrier = sources.barrier(at as u16, address, &mut symbols).map(str::to_owned);
            let is_word = !sources.is_recorded(at as u16, address);
            let of_word = || sources.words.label(at as u16, address, is_signal, &mut symbols);
            let label = barrier.or_else(|| is_word.then(of_word).flatten());
            image.runtimes.extend(label.clone().map(|label| (address, label)));
            let name = symbols.name(address);
            let is_pooled = name.as_ref().is_some_and(|name| name.contains("__waiter_pool_base"));
            let name = if is_pooled { Some(POOL_WORD.to_owned()) } else { name };
            let parts: Vec<String> = [label, name].into_iter().flatten().collect();
            let named = !is_pooled && symbols.is_named(address) || address & SHARED_ADDRESS != 0;
            let begun = sources.beginnings.of(at as u16, address).filter(|_| !named);
            let origin = begun.map(|begun| {
                let site = begun.sites.first().filter(|(image, _)| usize::from(*image) == at)?.1;
                if let Some(sites) = chains.and_then(|chains| chains.of(site)) {
                    image.name_chain(site, sites, &generated, &mut symbols);
                }
                image.origin(begun, site, &mut symbols)
            });
            image.origins.extend(origin.flatten().map(|origin| (address, origin)));
            if !parts.is_empty() {
                image.objects.insert(address, parts.join(", "));
            }
        }
        // Its start code has none in any program.
        let lined: BTreeSet<String> = image.lines.keys().filter_map(|at| symbols.file(*at - 1)).collect();
        image.without.lines.retain(|file| !lined.contains(file));
        names.0.push(image);
    }
    // What is no image's is kept with the first.
    if let Some(first) = names.0.first_mut() {
        let places = sources.objects().map(|(_, address)| address).filter(|at| at & SHARED_ADDRESS != 0);
        first.objects.extend(places.filter_map(|place| Some((place, shared.name(place)?))));
        for thread in sources.strangers().filter(|thread| thread.0 != 0) {
            let name = || std::fs::read_to_string(format!("/proc/{}/comm", thread.0)).ok();
            let missing =
                !sources.images.iter().any(|image| image.threads().iter().any(|one| one.tid == thread.0));
            let is_own = sources.own_threads.contains(&thread.0);
            let name = missing.then(name).flatten().map(|name| name.trim().to_owned());
            // Its number says whose it is: a program may call its threads what it likes.
            let named = if is_own { Some(own_name(name.as_deref())) } else { name };
            first.threads.extend(named.map(|name| (thread.0, name)));
        }
    }
    names
}

/// What a thread of Quaver itself is called. It may have ended since.
fn own_name(name: Option<&str>) -> String {
    format!("Quaver's own thread{}", name.map_or_else(String::new, |name| format!(" {name}")))
}

impl ImageNames {
    /// Names a place that a call returns to.
    fn name_call(&mut self, address: u64, symbols: &mut Symbolizer) {
        let Some(name) = symbols.caller(address) else { return };
        if let Some(file) = symbols.file(address - 1) {
            match symbols.line(address) {
                Some(line) => drop(self.lines.insert(address, line.words)),
                None => drop(self.without.lines.insert(file.clone())),
            }
            if !symbols.is_named(address - 1) {
                self.without.symbols.insert(file);
            }
        }
        self.callers.insert(address, name);
    }

    /// Names a chain of calls by the functions of the program itself: nobody asks for a lock but those.
    /// Of Java they are what the call is for, and functions that a perf map names.
    fn name_chain(&mut self, chain: u64, sites: &[u64], generated: &PerfMap, symbols: &mut Symbolizer) {
        let machine = |site: &u64| {
            let is_machine = symbols.file(*site - 1).is_some_and(|file| file.starts_with("libjvm."));
            is_machine.then(|| symbols.caller(*site)).flatten()
        };
        let of_machine: Vec<String> = sites.iter().filter(|site| **site > 0).filter_map(machine).collect();
        if let Some(deed) = java::deed(of_machine.iter().map(String::as_str)) {
            self.without.java |= generated.is_empty();
            let own =
                sites.iter().filter_map(|site| java::own_function(generated.name(site.checked_sub(1)?)?));
            self.functions.insert(chain, std::iter::once(deed.to_owned()).chain(own.take(SHOWN)).collect());
            return;
        }
        let own = sites.iter().copied().filter(|site| symbols.is_own(*site)).take(SHOWN);
        let mut shown: Vec<u64> = own.collect();
        if shown.is_empty() {
            shown.extend(sites.first());
        }
        let mut name = |site: &u64| {
            self.name_call(*site, symbols);
            let line = self.lines.get(site).cloned();
            line.or_else(|| self.callers.get(site).cloned().map(without_offset))
        };
        let functions = shown.iter().filter_map(&mut name).collect();
        self.functions.insert(chain, functions);
    }

    /// Where an object comes from.
    fn origin(&mut self, begun: &Beginning, site: u64, symbols: &mut Symbolizer) -> Option<Origin> {
        let site = match self.functions.get(&site).and_then(|functions| functions.first()) {
            Some(function) => function.clone(),
            None => {
                self.name_call(site, symbols);
                self.lines.get(&site).or_else(|| self.callers.get(&site))?.clone()
            }
        };
        let thread = match self.threads.get(&begun.thread.0) {
            Some(name) => format!("{name} ({})", begun.thread.0),
            None => format!("thread {}", begun.thread.0),
        };
        let others = begun.sites.len() - 1;
        Some(Origin { how: begun.how, site, thread, others })
    }
}

/// By number, what the threads of an image are called: by their own name where it is not that of the program, else by the
/// function that they started in. The initial thread of each of several programs has the program's name.
fn thread_names(image: &Image, is_only_one: bool, symbols: &mut Symbolizer) -> BTreeMap<u32, String> {
    let program = image.threads().iter().find(|thread| thread.initial).map(|thread| thread.name.clone());
    let mut named = BTreeMap::new();
    for thread in image.threads() {
        let own =
            (!thread.name.is_empty() && Some(&thread.name) != program.as_ref()).then(|| thread.name.clone());
        let name = own.or_else(|| match thread.initial {
            true if is_only_one || thread.name.is_empty() => Some("main".to_owned()),
            true => Some(thread.name.clone()),
            false => start_routine(thread.start_routine, symbols),
        });
        if let Some(name) = name {
            named.insert(thread.tid, name);
        }
    }
    named
}

/// The function that a thread starts in; none where it is one that all threads of a language start in.
fn start_routine(address: u64, symbols: &mut Symbolizer) -> Option<String> {
    let name = symbols.name(address).filter(|_| address != 0)?;
    let says_nothing =
        ["+0x", "thread_start", "native_thread_routine"].iter().any(|part| name.contains(part));
    (!says_nothing).then_some(name)
}

/// Where threads wait for an object of C++ that has no word for it, such as a barrier.
const POOL_WORD: &str = "word of the library's pool";
/// Why functions of Java have no names.
const NO_PERF_MAP: &str = "Functions of Java have no names: it left no map of its code (start it with \
                           -XX:+UnlockDiagnosticVMOptions -XX:+PreserveFramePointer -XX:+DumpPerfMapAtExit).";
/// Longest perf map that is read.
const MOST_MAP_BYTES: u64 = 64 << 20;

/// Said to Java, its code keeps frame pointers.
const KEEPS_FRAMES: &str = "-XX:+PreserveFramePointer";

/// What puts chains of calls into the events of the images. `stored`: names of an analysis before.
pub(super) fn callers(images: &[Image], stored: Option<&SyncNames>) -> Vec<Callers> {
    let of_image = |(at, image): (usize, &Image)| match stored {
        Some(names) => Callers::kept(names.0.get(at).map(|image| image.chains.clone()).unwrap_or_default()),
        None => {
            let keeps_frames = image.facts().argv.iter().any(|word| word == KEEPS_FRAMES);
            Callers::new(Unwinder::new(map_of(image), keeps_frames))
        }
    };
    images.iter().enumerate().map(of_image).collect()
}

/// Names of the code that the image made, if it left any. Its number is that of its own namespace.
fn generated(image: &Image) -> PerfMap {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", image.facts().pid));
    // A process before it may have had the number, and anybody may put anything there.
    let began = UNIX_EPOCH + Duration::from_nanos(image.facts().created_realtime_ns.max(0).unsigned_abs());
    let is_its = |kept: &Metadata| {
        kept.is_file()
            && kept.len() <= MOST_MAP_BYTES
            && kept.modified().is_ok_and(|written| written >= began)
    };
    let text =
        std::fs::symlink_metadata(&path).ok().filter(is_its).and_then(|_| std::fs::read_to_string(path).ok());
    PerfMap::parse(&text.unwrap_or_default())
}

/// The memory of an image; empty where nothing tells.
pub(super) fn map_of(image: &Image) -> MemoryMap {
    MemoryMap::parse(&std::fs::read_to_string(maps_of(image)).unwrap_or_default())
}

/// Where the memory of an image is described.
pub(super) fn maps_of(image: &Image) -> PathBuf {
    image.stem.with_extension("maps")
}

/// Runtimes in the images that wait by futex calls of their own.
pub(super) fn runtimes(images: &[Image]) -> Vec<&'static str> {
    let mut files = BTreeSet::new();
    for image in images {
        let map = map_of(image);
        let paths = map.iter().filter(|mapped| mapped.executable).filter_map(|mapped| mapped.name.as_deref());
        files.extend(
            paths.filter_map(|path| Some(Path::new(path).file_name()?.to_string_lossy().into_owned())),
        );
    }
    runtimes::of_files(files.iter().map(String::as_str))
}
