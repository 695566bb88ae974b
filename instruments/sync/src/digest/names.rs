//! What the addresses of a run's objects and call sites are called. Only the machine that ran the program can tell, so the
//! names are kept beside the recordings.

use super::images::Image;
use crate::record::maps::MemoryMap;
use crate::record::symbols::Symbolizer;
use anyhow::Context;
use quaver_sync_analysis::lanes::Span;
use quaver_sync_analysis::sync::SyncResults;
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
        let known = self.0.get(usize::from(process)).and_then(|image| image.objects.get(&address));
        known.cloned().unwrap_or_else(|| format!("{address:#x}"))
    }

    /// Which function a call returns into.
    pub fn caller(&self, process: u16, address: u64) -> String {
        let known = self.0.get(usize::from(process)).and_then(|image| image.callers.get(&address));
        known
            .cloned()
            .unwrap_or_else(|| if address == 0 { "not known".to_owned() } else { format!("{address:#x}") })
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

/// Looks up all addresses that the results and the drawn waits show. `maps_of` tells where the memory of an image is described.
pub(super) fn look_up(
    images: usize,
    results: &SyncResults,
    spans: &[Span],
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
            objects: objects.into_iter().filter_map(|at| Some((at, symbols.name(at)?))).collect(),
            callers: callers.into_iter().filter_map(|at| Some((at, symbols.caller(at)?))).collect(),
        });
    }
    names
}

/// Where the memory of an image is described.
pub(super) fn maps_of(image: &Image) -> PathBuf {
    image.stem.with_extension("maps")
}
