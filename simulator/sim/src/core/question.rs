//! What a core asks of the rest of the chip.

use crate::coherence::Purpose;
use crate::store_buffer::MOST_ENTRIES;

/// What is asked, and when the question is at the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// When it is at the directory.
    pub at_fs: u64,
    /// How much later it leaves the core: an out-of-order core asks before it has the address.
    pub late_fs: u64,
    /// What is asked.
    pub what: Asked,
}

/// See [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A line, by the first level's line size.
    Line {
        /// The line.
        first_line: u64,
        /// What for.
        purpose: Purpose,
        /// Whether the kernel asks.
        supervisor: bool,
    },
    /// What its prefetcher brings next: a load used this prefetched line for the first time.
    Prefetch {
        /// By the second level's line size.
        second_line: u64,
        /// The instruction.
        source: u64,
    },
    /// The step of synchronisation, or the end, that the core's steps are at.
    Special,
}

/// A core's questions on their way: of each place of the store buffer, one that it waits for, and those of its prefetcher, which
/// are answered before the core goes on.
const MOST: usize = MOST_ENTRIES + 4;

/// Questions in the order of their time.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    questions: [Question; MOST],
    count: usize,
}

impl Default for Questions {
    fn default() -> Self {
        Self { questions: [Question { at_fs: u64::MAX, late_fs: 0, what: Asked::Special }; MOST], count: 0 }
    }
}

impl Questions {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Takes back all but the first `count`.
    pub(crate) fn go_back(&mut self, count: usize) {
        while self.count > count {
            self.count -= 1;
            self.questions[self.count].at_fs = u64::MAX;
        }
    }

    /// When the first is at the directory; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn first_fs(&self) -> u64 {
        self.questions[0].at_fs
    }

    /// Asks; a question cannot pass those before it.
    pub(crate) fn ask(&mut self, mut question: Question) {
        if let Some(before) = self.count.checked_sub(1) {
            question.at_fs = question.at_fs.max(self.questions[before].at_fs);
        }
        self.questions[self.count] = question;
        self.count += 1;
    }

    /// Takes the first one away.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Question> {
        let first = (self.count > 0).then_some(self.questions[0])?;
        if self.count > 1 {
            self.questions.copy_within(1..self.count, 0);
        }
        self.count -= 1;
        self.questions[self.count].at_fs = u64::MAX;
        Some(first)
    }
}
