//! Who called the caller, of calls that waited or woke somebody: events of such calls carry a chain of calls in the place of the one
//! that their call returns to.

use crate::record::unwind::{End, Stack, Unwinder};
use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::sync::SyncEvent;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Marks the number of a chain: no code has such an address.
const CHAIN: u64 = 1 << 62;
/// Functions of a chain that are named.
pub(super) const SHOWN: usize = 3;
/// Stacks of one image that are unwound.
const MOST_STACKS: usize = 262_144;

/// Chains of calls of one image, as they are kept beside the recordings: only the machine that ran the program can find them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chains {
    /// Each once: addresses that calls return to, innermost first.
    pub chains: Vec<Vec<u64>>,
    /// Of each stack in the order in which it was met first, the number of its chain; none where no caller was found.
    pub stacks: Vec<Option<u32>>,
    /// Stacks in which fewer callers were found than are named, by the reason.
    pub unknown: BTreeMap<String, u64>,
}

impl Chains {
    /// The chain that an event carries in the place of its call; none where that is an address.
    pub fn of(&self, call_site: u64) -> Option<&[u64]> {
        let number = call_site.checked_sub(CHAIN).filter(|_| call_site & CHAIN != 0)?;
        self.chains.get(usize::try_from(number).ok()?).map(Vec::as_slice)
    }
}

/// Puts chains into the events of one image.
#[derive(Debug, Default)]
pub(super) struct Callers {
    chains: Chains,
    /// None where the run was analysed before: other files may be in the place of its own.
    unwinder: Option<Unwinder>,
    numbers: BTreeMap<Vec<u64>, u32>,
    met: usize,
    threads: HashMap<u32, OfThread>,
}

#[derive(Debug, Default)]
struct OfThread {
    stacks: HashMap<u16, Met>,
    /// Call site and chain of the next event.
    coming: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Met {
    words: BTreeMap<u8, u64>,
    /// The number of its chain once it is known; none where no caller was found.
    chain: Option<Option<u32>>,
}

impl Callers {
    /// For an image whose stacks are unwound.
    pub(super) fn new(unwinder: Unwinder) -> Self {
        Self { unwinder: Some(unwinder), ..Self::default() }
    }

    /// For an image of a run that was analysed before.
    pub(super) fn kept(chains: Chains) -> Self {
        Self { chains, ..Self::default() }
    }

    /// For so many images, to leave out notes about stacks.
    pub(super) fn none(images: usize) -> Vec<Self> {
        (0..images).map(|_| Self::default()).collect()
    }

    /// What was found.
    pub(super) fn found(self) -> Chains {
        self.chains
    }

    /// Puts the chain into an event that has one. False for notes about stacks, which are no events.
    pub(super) fn complete(&mut self, event: &mut SyncEvent) -> bool {
        let number = event.detail as u16;
        match event.kind {
            SyncKind::StackWords => {
                let stacks = &mut self.threads.entry(event.thread.0).or_default().stacks;
                let [_, _, first, second] = event.detail.to_le_bytes();
                let met = stacks.entry(number).or_default();
                if met.chain.is_some() {
                    *met = Met::default();
                }
                met.words.extend([(first, event.object), (second, event.call_site)]);
                false
            }
            SyncKind::Stack => {
                let chain = self.chain(event, number);
                self.threads.entry(event.thread.0).or_default().coming =
                    chain.map(|chain| (event.call_site, CHAIN | u64::from(chain)));
                false
            }
            _ => {
                if let Some(thread) = self.threads.get_mut(&event.thread.0)
                    && let Some((_, chain)) = thread.coming.take_if(|(site, _)| *site == event.call_site)
                {
                    event.call_site = chain;
                }
                true
            }
        }
    }

    fn chain(&mut self, event: &SyncEvent, number: u16) -> Option<u32> {
        let met = self.threads.get_mut(&event.thread.0)?.stacks.get_mut(&number)?;
        if let Some(known) = met.chain {
            return known;
        }
        let words = std::mem::take(&mut met.words);
        let stack = Stack { site: event.call_site, pointer: event.object, words };
        let place = self.met;
        self.met += 1;
        let found = match &mut self.unwinder {
            None => self.chains.stacks.get(place).copied().flatten(),
            Some(_) if place >= MOST_STACKS => None,
            Some(unwinder) => {
                let frames = unwinder.frames(&stack);
                let is_short = frames.sites.len() < SHOWN;
                if let Some(reason) = reason(&frames.end).filter(|_| is_short) {
                    *self.chains.unknown.entry(reason).or_default() += 1;
                }
                let chains = &mut self.chains.chains;
                let number = (frames.sites.len() > 1).then(|| {
                    *self.numbers.entry(frames.sites).or_insert_with_key(|sites| {
                        chains.push(sites.clone());
                        chains.len() as u32 - 1
                    })
                });
                self.chains.stacks.push(number);
                number
            }
        };
        if let Some(met) = self.threads.get_mut(&event.thread.0).and_then(|one| one.stacks.get_mut(&number)) {
            met.chain = Some(found);
        }
        found
    }
}

/// Why the rest of a chain is not known, to end a sentence; none where it is.
fn reason(end: &End) -> Option<String> {
    match end {
        End::Whole | End::Enough => None,
        End::NoTable(file) => Some(format!("{file} has no unwinding table (.eh_frame) for its code")),
        End::NoFile => {
            Some("they are code that was made while the program ran, which no file describes".to_owned())
        }
        End::Deep => Some(
            "1,920 bytes of stack at most are kept, and of a stack of the program's own what is in one page"
                .to_owned(),
        ),
        End::Lost => Some("their frames do not follow one another, as in a handler".to_owned()),
    }
}
