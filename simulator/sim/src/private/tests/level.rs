//! The model of a second level that knows of each line who brought it and when it was used.

use super::super::epochs::Privilege;

/// What the tag array has of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelLine {
    /// The line.
    pub(super) line: u64,
    /// Who used it last.
    pub(super) owner: Privilege,
    /// When, in cycles.
    pub(super) used: u64,
    /// Place among all uses, so that two of one cycle have an order.
    pub(super) order: u64,
    /// It was written.
    pub(super) dirty: bool,
}

/// The sets.
#[derive(Clone, Debug)]
pub(super) struct Level {
    slots: Vec<Option<LevelLine>>,
    ways: usize,
    mask: usize,
    order: u64,
}

impl Level {
    /// Empty, of `sets` (a power of two).
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "sets are a power of two");
        Self { slots: vec![None; sets * ways], ways, mask: sets - 1, order: 0 }
    }

    fn places(&self, line: u64) -> std::ops::Range<usize> {
        let start = (line as usize & self.mask) * self.ways;
        start..start + self.ways
    }

    /// The line, if it is here.
    pub(super) fn peek(&self, line: u64) -> Option<&LevelLine> {
        self.slots[self.places(line)].iter().flatten().find(|slot| slot.line == line)
    }

    /// Uses a line; whether it is here.
    pub(super) fn hit(&mut self, line: u64, owner: Privilege, now: u64, write: bool) -> bool {
        let places = self.places(line);
        self.order += 1;
        let order = self.order;
        let found = self.slots[places].iter_mut().flatten().find(|slot| slot.line == line);
        if let Some(slot) = found {
            *slot = LevelLine { owner, used: now, order, dirty: slot.dirty || write, ..*slot };
            return true;
        }
        false
    }

    /// Takes in a line that is not here, in a free place or that of the line for which `rank` is least. The line that had
    /// to go is given back.
    pub(super) fn insert<R: Ord>(
        &mut self,
        new: LevelLine,
        rank: impl Fn(&LevelLine) -> R,
    ) -> Option<LevelLine> {
        let place = self.victim(new.line, rank)?;
        self.order += 1;
        self.slots[place].replace(LevelLine { order: self.order, ..new })
    }

    /// Where a line would go.
    pub(super) fn victim<R: Ord>(&self, line: u64, rank: impl Fn(&LevelLine) -> R) -> Option<usize> {
        self.places(line).min_by_key(|place| self.slots[*place].as_ref().map(&rank))
    }

    /// What is at a place.
    pub(super) fn at(&self, place: usize) -> Option<&LevelLine> {
        self.slots[place].as_ref()
    }

    /// All lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &LevelLine> {
        self.slots.iter().flatten()
    }
}
