//! Prefetchers of the second level: which lines come next, by the loads that missed it or first used a prefetched line.

use crate::config::PrefetchKind;

/// Entries of the table of strides; a power of two.
const ENTRIES: usize = 64;

/// What is known of a load instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    source: u64,
    line: u64,
    stride: i64,
    /// Whether it had this stride twice.
    sure: bool,
}

/// The prefetcher of a core.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    kind: PrefetchKind,
    lines: u64,
    entries: Box<[Entry]>,
}

impl Prefetcher {
    /// One that has seen nothing; it asks for so many lines.
    pub fn new(kind: PrefetchKind, lines: u64) -> Self {
        let entries = if kind == PrefetchKind::Stride { ENTRIES } else { 0 };
        Self { kind, lines, entries: vec![Entry::default(); entries].into() }
    }

    /// The load instruction `source` needed this line: which others to bring, nearest first.
    pub fn needed(&mut self, line: u64, source: u64) -> impl Iterator<Item = u64> + use<> {
        let stride = match self.kind {
            PrefetchKind::None => 0,
            PrefetchKind::NextLine => 1,
            PrefetchKind::Stride => self.stride(line, source),
        };
        let lines = if stride == 0 { 0 } else { self.lines as i64 };
        (1..=lines).filter_map(move |ahead| line.checked_add_signed(stride * ahead))
    }

    fn stride(&mut self, line: u64, source: u64) -> i64 {
        let place = (source.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize;
        let entry = &mut self.entries[place];
        if entry.source != source {
            *entry = Entry { source, line, ..Entry::default() };
            return 0;
        }
        let stride = line.wrapping_sub(entry.line) as i64;
        if stride == 0 {
            return 0;
        }
        entry.sure = stride == entry.stride;
        (entry.stride, entry.line) = (stride, line);
        if entry.sure { stride } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(prefetcher: &mut Prefetcher, line: u64, source: u64) -> Vec<u64> {
        prefetcher.needed(line, source).collect()
    }

    #[test]
    fn a_stride_is_followed_once_it_came_twice_and_each_load_has_its_own() {
        let mut stride = Prefetcher::new(PrefetchKind::Stride, 2);
        let seen: Vec<Vec<u64>> =
            [100, 103, 106, 106, 109, 200, 197, 194].map(|line| needed(&mut stride, line, 1)).into();
        let none = Vec::new;
        let expected =
            [none(), none(), vec![109, 112], none(), vec![112, 115], none(), none(), vec![191, 188]];
        assert_eq!(seen, expected);
        assert_eq!(needed(&mut stride, 112, 2), none(), "another load");
        assert_eq!(needed(&mut stride, 191, 1), [188, 185], "the first goes on");
        let downwards: Vec<Vec<u64>> = [4, 2, 0].map(|line| needed(&mut stride, line, 3)).into();
        assert_eq!(downwards, [none(), none(), none()], "there is nothing below the first line");
    }

    #[test]
    fn next_lines_follow_each_and_none_does_nothing() {
        let mut next = Prefetcher::new(PrefetchKind::NextLine, 3);
        assert_eq!(needed(&mut next, 7, 1), [8, 9, 10]);
        assert_eq!(needed(&mut next, u64::MAX - 1, 1), [u64::MAX], "there is nothing above the last line");
        assert!(needed(&mut Prefetcher::new(PrefetchKind::None, 3), 7, 1).is_empty());
    }
}
