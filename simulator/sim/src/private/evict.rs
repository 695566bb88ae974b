//! What a line that comes into a second level with marks leads to: who has to go, and where to.

use super::second::{ALIEN, KERNEL, Layout, SENSITIVE, USED_SHIFT, used};
use super::side::Side;
use super::{Part, PrivateCaches, state, word};
use crate::cache::LineState;
use crate::cure_cache::CacheKind;

/// A line with its mark.
#[derive(Clone, Copy, Debug)]
struct Slot {
    word: u64,
    mark: u64,
}

impl Slot {
    fn line(self) -> u64 {
        self.word >> 2
    }
}

impl PrivateCaches {
    /// As [`fill_second`](Self::fill_second), where lines have marks.
    pub(super) fn fill_marked(&mut self, line: u64, new: LineState) -> Option<(u64, LineState)> {
        self.count_asked(line, false);
        let marked = self.marked.as_ref()?;
        let (kind, layout, request) = (marked.kind(), marked.layout, marked.request);
        let slot = Slot { word: word(line, new), mark: used(0, request.supervisor, request.at_fs) };
        let home = marked.home(line, request.supervisor);
        let gone = match kind {
            CacheKind::Unified => self.put_oldest(&layout, slot),
            CacheKind::OsCache => self.fill_home(&layout, home, slot),
            CacheKind::Prefetch => self.fill_buffered(&layout, slot),
            CacheKind::Pinned => self.fill_pinned(&layout, slot),
        }?;
        if let Some(marked) = &mut self.marked {
            let evicted = request.supervisor && gone.mark & SENSITIVE != 0;
            marked.counts.evicted_by_kernel += u64::from(evicted);
        }
        self.forget_first(gone.line());
        Some((gone.line(), state(gone.word)))
    }

    /// Puts a line at the front of its set; what was at `place` goes.
    fn put_over(&mut self, layout: &Layout, part: Part, slot: Slot, place: usize) -> Option<Slot> {
        let gone = Slot { word: self.words[place], mark: self.words[layout.mark(place)] };
        let set = part.set(slot.line());
        self.make_room(layout, set, place);
        self.put(set, slot.word);
        self.put(layout.mark(set), slot.mark);
        (gone.word != 0).then_some(gone)
    }

    fn put_oldest(&mut self, layout: &Layout, slot: Slot) -> Option<Slot> {
        let place = self.victim(layout.second, slot.line(), |_| false);
        self.put_over(layout, layout.second, slot, place)
    }

    /// Takes a line in where it belongs. What has to go for it goes to the other cache, where there is room for an alien; what
    /// has to go there leaves.
    fn fill_home(&mut self, layout: &Layout, home: Side, slot: Slot) -> Option<Slot> {
        let victim = self.put_before_natives(layout, home, slot)?;
        let sharing = self.marked.as_ref().is_some_and(|marked| marked.config.os_cache_sharing);
        if victim.mark & ALIEN != 0 || !sharing {
            return Some(victim);
        }
        let other = home.other();
        let part = layout.part(other);
        let set = part.set(victim.line());
        let is_alien =
            |place: &usize| self.words[*place] != 0 && self.words[layout.mark(*place)] & ALIEN != 0;
        let room = (set..set + part.ways).filter(is_alien).count() < part.ways / 2;
        let lent = if room { self.cleaned(victim) } else { victim };
        let marked = self.marked.as_mut()?;
        if !room {
            marked.counts.refused += 1;
            return Some(victim);
        }
        if lent.word != victim.word {
            marked.counts.copied += 1;
            marked.copied = Some(victim.line());
        }
        marked.counts.lent[home as usize] += 1;
        self.put(layout.overflow(home, victim.line()), 1);
        self.put_before_natives(layout, other, Slot { mark: lent.mark | ALIEN, ..lent })
    }

    /// Aliens go first.
    fn put_before_natives(&mut self, layout: &Layout, side: Side, slot: Slot) -> Option<Slot> {
        let part = layout.part(side);
        let place = self.victim(part, slot.line(), |mark| mark & ALIEN == 0);
        self.put_over(layout, part, slot, place)
    }

    /// Memory gets a copy of what is dirty, so that the line is as memory has it from now on, in the first level too.
    fn cleaned(&mut self, slot: Slot) -> Slot {
        if slot.word & 3 != LineState::Modified as u64 {
            return slot;
        }
        for first in self.first_lines(slot.line()) {
            if let Some(place) = self.find(self.data, first)
                && self.words[place] & 3 == LineState::Modified as u64
            {
                self.put(place, word(first, LineState::Exclusive));
            }
        }
        Slot { word: word(slot.line(), LineState::Exclusive), ..slot }
    }

    /// An active line of the other side that has to go is kept in the prefetch buffer.
    fn fill_buffered(&mut self, layout: &Layout, slot: Slot) -> Option<Slot> {
        let request = self.marked.as_ref()?.request;
        let gone = self.put_oldest(layout, slot);
        let by_kernel = request.supervisor;
        let active = gone.is_some_and(|gone| {
            let others = (gone.mark & KERNEL != 0) != by_kernel;
            let marked = self.marked.as_ref();
            others && marked.is_some_and(|marked| self.is_active(marked, gone.mark, request.at_fs))
        });
        let marked = self.marked.as_mut()?;
        marked.buffers[usize::from(by_kernel)].retain(|kept| *kept != slot.line());
        let kept = gone.filter(|_| active && !request.brings_back);
        if let Some(kept) = kept {
            marked.counts.kept += 1;
            let most = marked.config.prefetch_entries;
            let buffer = &mut marked.buffers[usize::from(!by_kernel)];
            let full = buffer.len() >= most && (most == 0 || buffer.pop_front().is_some());
            marked.counts.forgotten += u64::from(full);
            if most > 0 {
                buffer.push_back(kept.line());
            }
        }
        gone
    }

    /// Lines of the side that is favoured now stay.
    fn fill_pinned(&mut self, layout: &Layout, slot: Slot) -> Option<Slot> {
        let marked = self.marked.as_ref()?;
        let favours_kernel = marked.favours_kernel(slot.mark >> USED_SHIFT);
        let part = layout.second;
        let oldest = self.victim(part, slot.line(), |_| false);
        let place = self.victim(part, slot.line(), |mark| (mark & KERNEL != 0) == favours_kernel);
        if let Some(marked) = &mut self.marked {
            marked.counts.pinned += u64::from(place != oldest);
        }
        self.put_over(layout, part, slot, place)
    }

    /// The application changes: the OS cache is emptied, and with it all that the application cache had lent, so that its
    /// overflow bits are cleared at once. What left is given back with its state.
    pub(crate) fn flush(&mut self) -> Vec<(u64, LineState)> {
        let Some(marked) = &mut self.marked else { return Vec::new() };
        let layout = marked.layout;
        let Some(os) = layout.os else { return Vec::new() };
        marked.counts.flushes += 1;
        for set in 0..=layout.second.set_mask as u64 {
            self.put(layout.overflow(Side::Application, set), 0);
        }
        let mut gone = Vec::new();
        for place in os.start..os.end() {
            let word = self.words[place];
            if word != 0 {
                self.put(place, 0);
                self.put(layout.mark(place), 0);
                self.forget_first(word >> 2);
                gone.push((word >> 2, state(word)));
            }
        }
        gone
    }

    /// The dirty line that went to the other cache just now, if one did.
    pub(crate) fn take_copied(&mut self) -> Option<u64> {
        self.marked.as_mut()?.copied.take()
    }
}
