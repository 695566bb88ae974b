//! Steps of a thread, read some way ahead, so that a core may go on without asking for each, and go back.

use quaver_trace::step::{Access, Step, Steps, TraceError};
use std::ops::{Deref, DerefMut};

/// Steps that are read ahead at most.
const AHEAD: usize = 512;
/// Accesses that are read ahead, about: a block's are read whole.
const AHEAD_ACCESSES: usize = 4096;
/// Fewer steps than this are filled up when there is an occasion.
const FEW: usize = 64;

/// From this number on, a step is none of a block but the one of the number's rest among the special ones.
const SPECIAL: u32 = 1 << 31;

/// A step and where its accesses end; they begin where those of the step before end.
#[derive(Clone, Copy, Debug)]
struct Read {
    number: u32,
    accesses_end: u32,
    /// When it was begun in simulated time, if it was.
    start_fs: u64,
}

/// The next step, as a core sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A block; its accesses are those of these places.
    Block { number: u32, accesses: (u32, u32) },
    /// Another step.
    Special(Step),
    /// It must be filled first.
    Empty,
}

/// Where a core was in its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedPosition(usize);

/// The steps, and where they come from.
#[derive(Clone, Debug)]
pub(crate) struct Feed<S> {
    source: S,
    ahead: Ahead,
}

/// Steps that were read ahead: all that a core sees of its thread, wherever they come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    steps: Vec<Read>,
    accesses: Vec<Access>,
    special: Vec<Step>,
    at: usize,
    /// Since here a core may go back.
    kept: usize,
    ended: bool,
}

impl<S: Steps> Feed<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, ahead: Ahead::default() }
    }

    /// Reads ahead if there is little left. Only between two steps, where nobody will go back.
    ///
    /// # Errors
    /// When the trace is wrong.
    #[inline]
    pub(crate) fn fill(&mut self) -> Result<(), TraceError> {
        if self.steps.len() - self.at < FEW && !self.ended { self.read() } else { Ok(()) }
    }

    fn read(&mut self) -> Result<(), TraceError> {
        let ahead = &mut self.ahead;
        ahead.drop_done();
        while ahead.steps.len() < AHEAD && ahead.accesses.len() < AHEAD_ACCESSES && !ahead.ended {
            let number = match self.source.append(&mut ahead.accesses)? {
                Step::Block { number } => number,
                special => {
                    ahead.ended = special == Step::End;
                    ahead.special.push(special);
                    SPECIAL | (ahead.special.len() - 1) as u32
                }
            };
            let accesses_end = ahead.accesses.len() as u32;
            ahead.steps.push(Read { number, accesses_end, start_fs: 0 });
        }
        Ok(())
    }
}

impl<S> Deref for Feed<S> {
    type Target = Ahead;

    #[inline]
    fn deref(&self) -> &Ahead {
        &self.ahead
    }
}

impl<S> DerefMut for Feed<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Ahead {
        &mut self.ahead
    }
}

impl Ahead {
    fn drop_done(&mut self) {
        let accesses = self.accesses_start(self.at);
        let special = self.steps[..self.at].iter().filter(|step| step.number & SPECIAL != 0).count();
        self.accesses.drain(..accesses as usize);
        self.special.drain(..special);
        self.steps.drain(..self.at);
        for step in &mut self.steps {
            step.accesses_end -= accesses;
            if step.number & SPECIAL != 0 {
                step.number -= special as u32;
            }
        }
        self.at = 0;
        self.kept = 0;
    }

    #[inline]
    fn accesses_start(&self, step: usize) -> u32 {
        if step == 0 { 0 } else { self.steps[step - 1].accesses_end }
    }

    /// Takes a step, which begins at `now_fs`.
    #[inline]
    pub(crate) fn next(&mut self, now_fs: u64) -> Next {
        let Some(step) = self.steps.get_mut(self.at) else { return Next::Empty };
        step.start_fs = now_fs;
        let (number, end) = (step.number, step.accesses_end);
        let start = self.accesses_start(self.at);
        self.at += 1;
        if number & SPECIAL != 0 {
            return Next::Special(self.special[(number - SPECIAL) as usize]);
        }
        Next::Block { number, accesses: (start, end) }
    }

    /// The step that was taken last.
    pub(crate) fn last(&self) -> Option<Step> {
        let step = self.steps.get(self.at.checked_sub(1)?)?;
        let special = step.number.checked_sub(SPECIAL);
        Some(match special {
            Some(special) => self.special[special as usize],
            None => Step::Block { number: step.number },
        })
    }

    #[inline]
    pub(crate) fn accesses(&self, (start, end): (u32, u32)) -> &[Access] {
        &self.accesses[start as usize..end as usize]
    }

    #[inline]
    pub(crate) fn access(&self, place: u32) -> Access {
        self.accesses[place as usize]
    }

    /// A core may come back to here: where it is, or to the step that it is in.
    #[inline]
    pub(crate) fn keep(&mut self) -> FeedPosition {
        self.kept = self.at;
        FeedPosition(self.at)
    }

    /// The core is there again.
    pub(crate) fn go_back(&mut self, place: FeedPosition) {
        self.at = place.0;
    }

    /// Where accesses begin of the step that is taken next.
    pub(crate) fn next_access(&self) -> u32 {
        self.accesses_start(self.at)
    }

    /// Where accesses began of the step that was taken next at the last [`keep`](Self::keep).
    pub(crate) fn kept_access(&self) -> u32 {
        self.accesses_start(self.kept)
    }

    /// Blocks and accesses, of those from one place to another, of the steps that were taken since, and may have done
    /// something at `since_fs` or later: also the one that was under way at the last [`keep`](Self::keep).
    pub(crate) fn since(
        &self,
        since_fs: u64,
        (from, to): (u32, u32),
    ) -> (impl Iterator<Item = u32>, &[Access]) {
        let least = self.kept.saturating_sub(1);
        let taken = &self.steps[least..self.at];
        let before = taken.iter().rposition(|step| step.start_fs <= since_fs).unwrap_or(0);
        let first = least + before;
        let numbers = self.steps[first..self.at].iter().map(|step| step.number);
        let start = self.accesses_start(first).max(from) as usize;
        let accesses = self.accesses.get(start..to as usize).unwrap_or_default();
        (numbers.filter(|number| number & SPECIAL == 0), accesses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_trace::step::{Sync, Thread};

    /// Blocks with as many accesses as their number says, for ever; each seventh step is one of synchronisation.
    struct Endless(u32);

    impl Steps for Endless {
        fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
            self.0 += 1;
            if self.0.is_multiple_of(7) {
                return Ok(Step::Sync(Sync::Join { thread: Thread(self.0) }));
            }
            let access = Access { address: u64::from(self.0), instruction: 0, octets: 1, write: false };
            accesses.extend(std::iter::repeat_n(access, self.0 as usize % 40));
            Ok(Step::Block { number: self.0 })
        }
    }

    #[test]
    fn steps_come_in_their_order_and_few_are_held() {
        let mut feed = Feed::new(Endless(0));
        for number in 1..100_000_u32 {
            feed.fill().unwrap();
            let next = feed.next(u64::from(number));
            if number.is_multiple_of(7) {
                assert_eq!(next, Next::Special(Step::Sync(Sync::Join { thread: Thread(number) })));
                assert_eq!(feed.last(), Some(Step::Sync(Sync::Join { thread: Thread(number) })));
                continue;
            }
            let Next::Block { number: found, accesses } = next else { panic!("{next:?}") };
            assert_eq!((found, accesses.1 - accesses.0), (number, number % 40));
            assert!(feed.accesses(accesses).iter().all(|access| access.address == u64::from(number)));
            assert!(feed.steps.len() <= AHEAD && feed.accesses.len() < AHEAD_ACCESSES + 40);
        }
    }

    #[test]
    fn who_goes_back_gets_the_same_steps_again_and_knows_what_was_done_since() {
        let mut feed = Feed::new(Endless(0));
        feed.fill().unwrap();
        (1..=3).for_each(|at| _ = feed.next(at * 10));
        let place = feed.keep();
        let first: Vec<Next> = (4..=6).map(|at| feed.next(at * 10)).collect();
        let since = |feed: &Feed<Endless>, at_fs| {
            let (numbers, accesses) = feed.since(at_fs, (0, feed.next_access()));
            (numbers.collect::<Vec<_>>(), accesses.len())
        };
        assert_eq!(since(&feed, 55), (vec![5, 6], 11), "the fifth began before and may last");
        assert_eq!(since(&feed, 0), (vec![3, 4, 5, 6], 18), "the third may have been under way");
        feed.go_back(place);
        assert_eq!((4..=6).map(|at| feed.next(at * 10)).collect::<Vec<_>>(), first);
    }
}
