//! Semaphores and futex words with names, and what each is used like.

use super::locks::LockSummary;
use super::names::SyncNames;
use super::shares::{Share, shares};
use crate::record::runtimes;
use quaver_sync_analysis::sync::{Sums, WordFigures, WordUse};
use quaver_view::Cell;
use schemars::JsonSchema;
use serde::Serialize;

/// What says how a word is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UseFrom {
    /// The runtime whose function waits on it.
    Runtime,
    /// Who woke whom on it.
    WakeUps,
}

/// One semaphore or futex word.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WordSummary {
    /// What it is called.
    pub name: String,
    /// The runtime that waits on it, where that is known, and what the word is to it: also part of `name`.
    pub runtime: Option<String>,
    /// How it is used. That is inferred, since no record says so.
    pub used_like: WordUse,
    /// From what.
    pub used_like_from: UseFrom,
    /// Functions that waited on it.
    pub waiter_functions: Vec<Share>,
    /// `waiter_functions`, each with who called it where that is known.
    #[serde(default)]
    pub waiter_chains: Vec<Share>,
    /// Of a lock of which the runtime is known: for whom threads waited until that one gave it back. That is inferred from who woke
    /// the next, for no record says who gets such a lock. Uses without a wait are not seen: `free` and `hold` say nothing.
    #[serde(default)]
    pub given_back: Option<LockSummary>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: WordFigures,
}

impl WordSummary {
    pub(super) fn of(figures: WordFigures, names: &SyncNames) -> Self {
        let runtime = names.runtime(figures.process, figures.address).cloned();
        let said = runtime.as_deref().and_then(runtimes::used_like);
        Self {
            name: names.object(figures.process, figures.address),
            used_like: said.unwrap_or_else(|| figures.used_like()),
            used_like_from: said.map_or(UseFrom::WakeUps, |_| UseFrom::Runtime),
            runtime,
            given_back: None,
            waiter_functions: shares(&figures.waiter_sites, &|process, at| names.function(process, at)),
            waiter_chains: shares(&figures.waiter_sites, &|process, at| names.calls(process, at)),
            figures,
        }
    }

    /// It is used like a lock.
    pub fn is_lock_like(&self) -> bool {
        self.used_like == WordUse::Lock
    }

    /// It is a lock with one owner at a time, which wakes the next when it has given the lock back.
    pub(super) fn is_mutex(&self) -> bool {
        let is_passed_on = self.figures.used_like() == WordUse::Lock;
        self.runtime.as_deref().is_some_and(|label| runtimes::is_mutex(label, is_passed_on))
    }

    /// It is a word of a barrier.
    pub fn is_barrier(&self) -> bool {
        self.runtime.as_deref().is_some_and(runtimes::is_barrier)
    }

    /// It was woken often, and may be a lock or not. A word that was hardly woken is somebody's sleep.
    pub fn may_be_lock(&self) -> bool {
        self.used_like == WordUse::Unknown && self.figures.is_woken_often()
    }

    /// Why it counts as a lock, in a sentence.
    pub(crate) fn why_a_lock(&self) -> String {
        let one = &self.figures;
        match self.used_like_from {
            UseFrom::Runtime => {
                "That it is a lock is inferred from the function that waits on it.".to_owned()
            }
            UseFrom::WakeUps => {
                let again = match one.again_at_once {
                    0 => String::new(),
                    again => format!(" (after {} it waited again at once)", Cell::Count(again)),
                };
                format!(
                    "That it is a lock is inferred: after {} of {}{again} the thread woke others on it next.",
                    Cell::Count(one.passed_on),
                    Cell::several(one.woken, "wake-up")
                )
            }
        }
    }
}

/// Waits on the words that are such.
pub(super) fn sum(words: &[WordSummary], is_such: fn(&WordSummary) -> bool) -> Sums {
    let mut wait = Sums::default();
    words.iter().filter(|word| is_such(word)).for_each(|word| wait.merge(&word.figures.wait));
    wait
}
