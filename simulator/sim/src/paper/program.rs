//! A traced program in memory, whose parallel part can be done several times over.
//!
//! The paper ran its programs for tens of milliseconds; traces that a tree can hold end before the first subframe does. A
//! program of the Splash kind does the same over and over (time steps, sweeps, passes), so a longer run of it is the same
//! parallel part again. What lies before the last thread is created and after the first one is joined is done once:
//!
//! ```text
//! thread 0   start ─ creates ─┬─ part ─ all meet ─ part ─ all meet ─ … ─ part ─┬─ joins ─ end
//! others                      └─ all ─── all meet ─ all ── all meet ─ … ─ all ─┘
//! ```
//! Between two rounds all threads meet at a barrier that the trace does not have; waits and their signals are of one round.
//!
//! What thread 0 computes before it creates the first thread and after it joined the last is left out, as the authors of Splash-2
//! advise (Woo and others, ISCA 1995, section 3): it makes the input and checks the result, and there is nobody whom it could
//! keep waiting. Of a small problem it would be most of the run.

use quaver_trace::block::Dictionary;
use quaver_trace::step::{Access, Step, Steps, Sync, TraceError, Wakeup};
use std::ops::Range;
use std::sync::Arc;

/// Where threads meet between two rounds: an address that no program has.
const BETWEEN_ROUNDS: u64 = 0xffff_8000_0000_0000;
/// A code with this bit is a step of synchronisation, else the number of a block.
const IS_SYNC: u32 = 1 << 31;

/// The steps of one thread, packed.
#[derive(Clone, Debug, Default)]
struct Recorded {
    codes: Vec<u32>,
    /// By step, where its accesses end.
    ends: Vec<u32>,
    accesses: Vec<Access>,
    syncs: Vec<Sync>,
}

impl Recorded {
    fn read(steps: &mut impl Steps) -> Result<Self, TraceError> {
        let mut own = Self::default();
        loop {
            match steps.append(&mut own.accesses)? {
                Step::End => return Ok(own),
                Step::Block { number } => own.push(number & !IS_SYNC),
                Step::Sync(sync) => own.push_sync(sync),
            }
        }
    }

    /// The same without the blocks of the first thread in which it is alone.
    fn read_first(steps: &mut impl Steps) -> Result<Self, TraceError> {
        let mut own = Self::default();
        let mut created = false;
        // Where the last join stands.
        let mut joined = None;
        loop {
            match steps.append(&mut own.accesses)? {
                Step::End => break,
                Step::Block { number } => own.push(number & !IS_SYNC),
                Step::Sync(sync) => {
                    if matches!(sync, Sync::Create { .. }) && !created {
                        own.leave_out_blocks(0);
                        created = true;
                    }
                    if matches!(sync, Sync::Join { .. }) && created {
                        joined = Some(own.codes.len());
                    }
                    own.push_sync(sync);
                }
            }
        }
        if let Some(joined) = joined {
            own.leave_out_blocks(joined);
        }
        Ok(own)
    }

    fn push(&mut self, code: u32) {
        self.codes.push(code);
        self.ends.push(self.accesses.len() as u32);
    }

    fn push_sync(&mut self, sync: Sync) {
        self.push(IS_SYNC | self.syncs.len() as u32);
        self.syncs.push(sync);
    }

    /// Takes the blocks from this step on out, and leaves what synchronises.
    fn leave_out_blocks(&mut self, from: usize) {
        let accesses = from.checked_sub(1).map_or(0, |before| self.ends[before]);
        let syncs: Vec<u32> = self.codes[from..].iter().copied().filter(|code| code & IS_SYNC != 0).collect();
        self.codes.truncate(from);
        self.ends.truncate(from);
        self.accesses.truncate(accesses as usize);
        for code in syncs {
            self.push(code);
        }
    }

    fn sync(&self, step: usize) -> Option<Sync> {
        let code = *self.codes.get(step)?;
        (code & IS_SYNC != 0).then(|| self.syncs[(code & !IS_SYNC) as usize])
    }

    fn syncs(&self) -> impl DoubleEndedIterator<Item = (usize, Sync)> {
        (0..self.codes.len()).filter_map(|step| Some((step, self.sync(step)?)))
    }
}

/// Why a program is done only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnlyOnce {
    /// Somebody else than thread 0 creates or joins.
    #[error("other threads than the first create or join threads")]
    OthersCreate,
    /// A thread is created after another was joined.
    #[error("threads are created after others were joined")]
    CreatesLate,
    /// A wait in the part was ended from outside of it.
    #[error("a thread waits for what happens once, before the part that all do together")]
    WaitsForOnce,
}

/// A program: blocks, and the steps of its threads.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Blocks; those of kernel activity stand behind its own.
    pub dictionary: Arc<Dictionary>,
    threads: Arc<[Recorded]>,
    /// By thread: the steps that are done in every round.
    part: Result<Arc<[Range<usize>]>, OnlyOnce>,
    wakeups: u64,
    instructions: (u64, u64),
}

impl Program {
    /// Reads a trace; thread `i` does `steps[i]`, and of the first what it computes alone is left out.
    ///
    /// # Errors
    /// When the trace is wrong.
    pub fn read<S: Steps>(
        name: &str,
        dictionary: Dictionary,
        steps: impl IntoIterator<Item = S>,
    ) -> Result<Self, TraceError> {
        let read = |(thread, mut steps): (usize, S)| match thread {
            0 => Recorded::read_first(&mut steps),
            _ => Recorded::read(&mut steps),
        };
        let threads: Result<Vec<Recorded>, TraceError> = steps.into_iter().enumerate().map(read).collect();
        let threads = threads?;
        let part = part(&threads);
        let count = |thread: &Recorded, range: Range<usize>| -> u64 {
            let codes = thread.codes[range].iter().filter(|code| *code & IS_SYNC == 0);
            codes
                .map(|code| dictionary.blocks.get(*code as usize).map_or(0, |b| b.instructions.len() as u64))
                .sum()
        };
        let whole = threads.iter().map(|thread| count(thread, 0..thread.codes.len())).sum();
        let round = part.as_ref().map_or(0, |part| {
            threads.iter().zip(part.iter()).map(|(thread, range)| count(thread, range.clone())).sum()
        });
        let wakeups = threads.iter().flat_map(|thread| &thread.syncs).filter_map(|sync| made(*sync)).max();
        Ok(Self {
            name: name.to_owned(),
            dictionary: Arc::new(dictionary),
            wakeups: wakeups.map_or(0, |last| last + 1),
            threads: threads.into(),
            part,
            instructions: (whole, round),
        })
    }

    /// Threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Instructions of a run of so many rounds.
    pub fn instructions(&self, rounds: u32) -> u64 {
        self.instructions.0 + self.instructions.1 * u64::from(rounds.saturating_sub(1))
    }

    /// Whether it can be done in several rounds.
    ///
    /// # Errors
    /// Why not.
    pub fn repeats(&self) -> Result<(), OnlyOnce> {
        self.part.as_ref().map(|_| ()).map_err(|reason| *reason)
    }

    /// The steps of all threads, with the common part done in so many rounds; once where it cannot be repeated.
    pub fn steps(&self, rounds: u32) -> Vec<Rounds> {
        let of = |thread: usize| {
            let whole = 0..self.threads[thread].codes.len();
            let part = self.part.as_ref().map_or(whole, |part| part[thread].clone());
            Rounds {
                threads: Arc::clone(&self.threads),
                thread,
                part,
                rounds: if self.part.is_ok() { rounds.max(1) } else { 1 },
                round: 0,
                next: 0,
                wakeups: self.wakeups,
            }
        };
        (0..self.threads.len()).map(of).collect()
    }
}

/// The occasion that a step makes.
fn made(sync: Sync) -> Option<u64> {
    match sync {
        Sync::Signal { wakeup, .. } | Sync::Broadcast { wakeup, .. } => Some(wakeup.0),
        _ => None,
    }
}

/// Which steps of each thread all threads do together.
fn part(threads: &[Recorded]) -> Result<Arc<[Range<usize>]>, OnlyOnce> {
    let starts = |sync: Sync| matches!(sync, Sync::Create { .. });
    let ends = |sync: Sync| matches!(sync, Sync::Join { .. });
    if threads.iter().skip(1).any(|thread| thread.syncs.iter().any(|sync| starts(*sync) || ends(*sync))) {
        return Err(OnlyOnce::OthersCreate);
    }
    let mut parts: Vec<Range<usize>> = threads.iter().map(|thread| 0..thread.codes.len()).collect();
    if let Some(first) = threads.first() {
        let from = first.syncs().rfind(|(_, sync)| starts(*sync)).map_or(0, |(step, _)| step + 1);
        let to = first.syncs().find(|(_, sync)| ends(*sync)).map_or(first.codes.len(), |(step, _)| step);
        if from > to {
            return Err(OnlyOnce::CreatesLate);
        }
        parts[0] = from..to;
    }
    let inside = |of: &dyn Fn(Sync) -> Option<u64>| -> Vec<u64> {
        let each = threads.iter().zip(&parts).flat_map(|(thread, part)| {
            part.clone().filter_map(|step| thread.sync(step).and_then(of)).collect::<Vec<_>>()
        });
        let mut all: Vec<u64> = each.collect();
        all.sort_unstable();
        all
    };
    let all_made = inside(&made);
    let waited = inside(&|sync| match sync {
        Sync::Wait { by: Some(wakeup), .. } => Some(wakeup.0),
        _ => None,
    });
    if waited.iter().any(|wakeup| all_made.binary_search(wakeup).is_err()) {
        return Err(OnlyOnce::WaitsForOnce);
    }
    Ok(parts.into())
}

/// The steps of a thread in so many rounds.
#[derive(Clone, Debug)]
pub struct Rounds {
    threads: Arc<[Recorded]>,
    thread: usize,
    part: Range<usize>,
    rounds: u32,
    round: u32,
    next: usize,
    wakeups: u64,
}

impl Rounds {
    /// The same of this round: each has its own signals.
    fn of_this_round(&self, sync: Sync) -> Sync {
        let shift = u64::from(self.round) * self.wakeups;
        let shifted = |wakeup: Wakeup| Wakeup(wakeup.0 + shift);
        match sync {
            Sync::Signal { object, wakeup } => Sync::Signal { object, wakeup: shifted(wakeup) },
            Sync::Broadcast { object, wakeup } => Sync::Broadcast { object, wakeup: shifted(wakeup) },
            Sync::Wait { object, mutex, by } => Sync::Wait { object, mutex, by: by.map(shifted) },
            other => other,
        }
    }
}

impl Steps for Rounds {
    #[inline]
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        let recorded = &self.threads[self.thread];
        if self.next == self.part.end && self.round + 1 < self.rounds {
            self.round += 1;
            self.next = self.part.start;
            let parties = self.threads.len() as u32;
            return Ok(Step::Sync(Sync::Barrier { object: BETWEEN_ROUNDS, parties }));
        }
        let step = self.next;
        let Some(&code) = recorded.codes.get(step) else { return Ok(Step::End) };
        self.next += 1;
        if code & IS_SYNC != 0 {
            let sync = recorded.syncs[(code & !IS_SYNC) as usize];
            return Ok(Step::Sync(if self.part.contains(&step) { self.of_this_round(sync) } else { sync }));
        }
        let from = step.checked_sub(1).map_or(0, |before| recorded.ends[before]);
        accesses.extend_from_slice(&recorded.accesses[from as usize..recorded.ends[step] as usize]);
        Ok(Step::Block { number: code })
    }
}

#[cfg(test)]
mod tests;
