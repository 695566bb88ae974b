//! Lines that a prefetcher put into the second level: when they come, and that nobody has used them yet.

use super::{Asked, Core, Question};

/// Lines that are kept in mind; the oldest gives way.
const MOST: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The line plus one; 0 where there is none.
    line: u64,
    at_fs: u64,
}

/// Those lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetched {
    lines: [Line; MOST],
    next: usize,
    /// How many there are.
    count: usize,
}

impl Fetched {
    /// Whether it is one of them.
    #[inline]
    pub(super) fn has(&self, second_line: u64) -> bool {
        self.count > 0 && self.lines.iter().any(|line| line.line == second_line + 1)
    }

    fn take(&mut self, second_line: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let found = self.lines.iter_mut().find(|line| line.line == second_line + 1)?;
        self.count -= 1;
        Some(std::mem::take(found).at_fs)
    }
}

impl Core {
    /// A prefetcher put this line into the second level; it comes at `at_fs`.
    pub(crate) fn prefetched(&mut self, second_line: u64, at_fs: u64) {
        let fetched = &mut self.fetched;
        let before =
            std::mem::replace(&mut fetched.lines[fetched.next], Line { line: second_line + 1, at_fs });
        fetched.count += usize::from(before.line == 0);
        fetched.next = (fetched.next + 1) % MOST;
        self.state.counts.prefetches += 1;
    }

    /// A load by the instruction `source` found a line in the second level; how much longer it takes if the line is still on
    /// its way. Its first use asks the prefetcher for more.
    #[inline]
    pub(super) fn used_fetched(
        &mut self,
        first_line: u64,
        source: u64,
        (now_fs, data_fs): (u64, u64),
    ) -> u64 {
        if self.fetched.count == 0 {
            return 0;
        }
        let second_line = self.second_line(first_line);
        let Some(at_fs) = self.fetched.take(second_line) else { return 0 };
        self.state.counts.prefetches_used += 1;
        self.questions.ask(Question {
            at_fs: now_fs,
            late_fs: 0,
            what: Asked::Prefetch { second_line, source },
        });
        at_fs.saturating_sub(data_fs)
    }

    /// Which instruction an access is of, among all of the program.
    #[inline]
    pub(super) fn source(&self, instruction: u16) -> u64 {
        u64::from(self.state.block) << 16 | u64::from(instruction)
    }
}
