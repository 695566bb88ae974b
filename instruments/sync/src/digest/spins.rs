//! Which samples are of loops that wait for others.

use super::images::Image;
use super::names::{self, SyncNames};
use crate::record::symbols::Symbolizer;
use quaver_sync_analysis::sync::{AnyEvent, KernelEvent, KernelKind, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses of one image that are kept.
const KEPT: usize = 262_144;

/// Tells them by the code of the program's files, or by what is kept beside the recordings.
#[derive(Debug, Default)]
pub(super) struct Spins {
    images: Vec<ImageSpins>,
    by_thread: BTreeMap<ThreadId, usize>,
}

#[derive(Debug)]
struct ImageSpins {
    /// None where the run was analysed before: other files may be in the place of its own.
    symbols: Option<Symbolizer>,
    known: BTreeMap<u64, bool>,
}

impl Spins {
    /// For the images of a run. `stored`: names of an analysis before.
    pub(super) fn of(images: &[Image], stored: Option<&SyncNames>) -> Self {
        let mut spins = Self::default();
        for (at, image) in images.iter().enumerate() {
            let found =
                stored.map(|names| names.0.get(at).map(|image| image.spins.clone()).unwrap_or_default());
            let symbols = found.is_none().then(|| Symbolizer::new(names::map_of(image)));
            let known = found.into_iter().flatten().map(|address| (address, true)).collect();
            spins.images.push(ImageSpins { symbols, known });
            spins.by_thread.extend(image.threads().iter().map(|thread| (ThreadId(thread.tid), at)));
        }
        spins
    }

    /// Completes a sample.
    pub(super) fn complete(&mut self, event: &mut AnyEvent) {
        let AnyEvent::Kernel(KernelEvent { kind: KernelKind::Sample { thread, address, spins }, .. }) = event
        else {
            return;
        };
        if *spins {
            return;
        }
        let Some(image) = self.by_thread.get(thread).and_then(|at| self.images.get_mut(*at)) else { return };
        *spins = match (image.known.get(address), &image.symbols) {
            (Some(known), _) => *known,
            (None, None) => false,
            (None, Some(symbols)) => {
                let found = symbols.spins(*address);
                if image.known.len() < KEPT {
                    image.known.insert(*address, found);
                }
                found
            }
        };
    }

    /// Addresses in such loops that were met, by image.
    pub(super) fn found(&self) -> Vec<BTreeSet<u64>> {
        let of = |image: &ImageSpins| {
            let spins = image.known.iter().filter(|(_, spins)| **spins);
            spins.map(|(address, _)| *address).collect()
        };
        self.images.iter().map(of).collect()
    }
}
