//! What the addresses of a run's objects and call sites are called. Only the machine that ran the program can tell, so the
//! names are kept beside the recordings.

use super::images::Image;
use super::shared::SharedMemory;
use crate::record::maps::MemoryMap;
use crate::record::runtimes::{self, FutexWord};
use crate::record::symbols::Symbolizer;
use anyhow::Context;
use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::lanes::Span;
use quaver_sync_analysis::sync::{SHARED_ADDRESS, SyncEvent, SyncResults};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names of one process image's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageNames {
    /// Locks, conditions, semaphores, barriers.
    pub objects: BTreeMap<u64, String>,
    /// Functions that called.
    pub callers: BTreeMap<u64, String>,
}

/// Names by process image, in the order of the images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncNames(pub Vec<ImageNames>);

impl SyncNames {
    /// What an object is called; its address where nobody knows.
    pub fn object(&self, process: u16, address: u64) -> String {
        // Places in shared memory are no image's; their names are kept with the first.
        let process = if address & SHARED_ADDRESS == 0 { usize::from(process) } else { 0 };
        let known = self.0.get(process).and_then(|image| image.objects.get(&address));
        known.cloned().unwrap_or_else(|| format!("{address:#x}"))
    }

    /// Which function a call returns into.
    pub fn caller(&self, process: u16, address: u64) -> String {
        let known = self.0.get(usize::from(process)).and_then(|image| image.callers.get(&address));
        known
            .cloned()
            .unwrap_or_else(|| if address == 0 { "not known".to_owned() } else { format!("{address:#x}") })
    }

    /// Names the objects in shared memory.
    pub(super) fn add_shared(&mut self, results: &SyncResults, spans: &[Span], shared: &SharedMemory) {
        let Some(first) = self.0.first_mut() else { return };
        let objects = results.objects.iter().map(|one| one.address);
        let waits = results.longest.iter().map(|wait| wait.object);
        let places = objects.chain(waits).chain(spans.iter().map(|span| span.object));
        for place in places.filter(|address| address & SHARED_ADDRESS != 0) {
            if let Some(name) = shared.name(place) {
                first.objects.insert(place, name);
            }
        }
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

fn path(directory: &Path) -> PathBuf {
    directory.join("names.json")
}

/// Most futex words of which is kept who uses them; those that come later go without the name of their runtime.
const MOST_WORDS: usize = 65_536;

/// Futex words of a run, by process image and address.
#[derive(Debug, Default)]
pub(super) struct FutexWords(BTreeMap<(u16, u64), FutexWord>);

impl FutexWords {
    /// Keeps who calls, where the event is the entry of a futex call.
    pub(super) fn event(&mut self, event: &SyncEvent) {
        let wakes = event.kind == SyncKind::FutexWakeEntry;
        if !wakes && event.kind != SyncKind::FutexWaitEntry || event.call_site == 0 {
            return;
        }
        let key = (event.process, event.object);
        if self.0.len() >= MOST_WORDS && !self.0.contains_key(&key) {
            return;
        }
        let new = FutexWord { call_site: event.call_site, ..FutexWord::default() };
        let word = self.0.entry(key).or_insert(new);
        word.wakes_one += u64::from(wakes && event.detail <= 1);
        word.wakes_all += u64::from(wakes && event.detail > 1);
    }

    fn label(&self, process: u16, address: u64, symbols: &mut Symbolizer) -> Option<String> {
        let word = self.0.get(&(process, address))?;
        let file = symbols.file(word.call_site - 1)?;
        let function = symbols.caller(word.call_site)?;
        word.label(&file, &function)
    }
}

/// Looks up all addresses that the results and the drawn waits show. `maps_of` tells where the memory of an image is described.
pub(super) fn look_up(
    images: usize,
    results: &SyncResults,
    spans: &[Span],
    words: &FutexWords,
    maps_of: impl Fn(usize) -> Option<PathBuf>,
) -> SyncNames {
    let mut objects: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); images];
    let mut callers = objects.clone();
    let add = |to: &mut Vec<BTreeSet<u64>>, process: u16, address: u64| {
        if let Some(set) = to.get_mut(usize::from(process)).filter(|_| address != 0) {
            set.insert(address);
        }
    };
    results.objects.iter().for_each(|one| add(&mut objects, one.process, one.address));
    results.call_sites.iter().for_each(|one| add(&mut callers, one.process, one.address));
    for wait in &results.longest {
        add(&mut objects, wait.process, wait.object);
        add(&mut callers, wait.process, wait.call_site);
        add(&mut callers, wait.process, wait.waker_call_site);
    }
    spans.iter().for_each(|span| add(&mut objects, span.process, span.object));
    let mut names = SyncNames::default();
    for (at, (objects, callers)) in objects.into_iter().zip(callers).enumerate() {
        let text = maps_of(at).and_then(|path| std::fs::read_to_string(path).ok());
        let mut symbols = Symbolizer::new(MemoryMap::parse(&text.unwrap_or_default()));
        names.0.push(ImageNames {
            objects: objects
                .into_iter()
                .filter_map(|address| {
                    let label = words.label(at as u16, address, &mut symbols);
                    let name = symbols.name(address);
                    let parts: Vec<String> = [label, name].into_iter().flatten().collect();
                    (!parts.is_empty()).then(|| (address, parts.join(", ")))
                })
                .collect(),
            callers: callers.into_iter().filter_map(|at| Some((at, symbols.caller(at)?))).collect(),
        });
    }
    names
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
