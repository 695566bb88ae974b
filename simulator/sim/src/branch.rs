//! What a core expects to run next.

/// A table of the blocks that followed last, by the block and the way to it; with a way back, as [`crate::private`] has one.
#[derive(Clone, Debug)]
pub struct Predictor {
    entries: Box<[Expected]>,
    /// The last few blocks, mixed.
    way: u32,
    old: Vec<(u32, Expected)>,
    old_way: u32,
}

/// A block above, and how sure it is in the two lowest bits.
#[derive(Clone, Copy, Debug, Default)]
struct Expected(u32);

impl Expected {
    #[inline]
    fn next(self) -> u32 {
        self.0 >> 2
    }

    #[inline]
    fn sure(self) -> u32 {
        self.0 & 3
    }
}

/// Entries of the table; a power of two.
const ENTRIES: usize = 4096;

/// How sure an entry can be: a loop's end does not make it forget the loop.
const SUREST: u32 = 3;

impl Default for Predictor {
    fn default() -> Self {
        Self { entries: vec![Expected::default(); ENTRIES].into(), way: 0, old: Vec::new(), old_way: 0 }
    }
}

impl Predictor {
    /// `next` followed `block`; whether that was expected.
    #[inline]
    pub fn follow(&mut self, block: u32, next: u32) -> bool {
        let place = (block ^ self.way).wrapping_mul(0x9e37_79b1) as usize >> 20;
        let entry = self.entries[place];
        let right = entry.next() == next;
        self.way = (self.way << 5 ^ next) & 0xf_ffff;
        if right && entry.sure() == SUREST {
            return true;
        }
        self.old.push((place as u32, entry));
        self.entries[place] = match (right, entry.sure()) {
            (true, _) => Expected(entry.0 + 1),
            (false, 1..) => Expected(entry.0 - 1),
            (false, 0) => Expected(next << 2),
        };
        right
    }

    /// From now on old values are kept, back to here.
    #[inline]
    pub fn keep(&mut self) {
        self.old.clear();
        self.old_way = self.way;
    }

    /// Everything is as it was at the last [`keep`](Self::keep).
    pub fn go_back(&mut self) {
        while let Some((place, old)) = self.old.pop() {
            self.entries[place as usize] = old;
        }
        self.way = self.old_way;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_loop_is_learnt_with_its_end() {
        let mut predictor = Predictor::default();
        let mut wrong = 0;
        for _ in 0..1000 {
            for (block, next) in [(1, 1), (1, 1), (1, 2), (2, 1)] {
                wrong += u32::from(!predictor.follow(block, next));
            }
        }
        assert!(wrong < 20, "{wrong} of 4000");
    }

    #[test]
    fn an_entry_forgets_after_as_many_wrong_as_it_was_sure_and_goes_back_when_asked() {
        // Block and follower 0 keep the way at 0, so that all of it is one entry.
        let mut predictor = Predictor::default();
        let place = (5u32.wrapping_mul(0x9e37_79b1) >> 20) as usize;
        let follow = |predictor: &mut Predictor, next| {
            predictor.way = 0;
            let right = predictor.follow(5, next);
            let entry = predictor.entries[place];
            (right, entry.next(), entry.sure())
        };
        assert_eq!(follow(&mut predictor, 9), (false, 9, 0), "learnt at once");
        let rights: Vec<u32> = (0..4).map(|_| follow(&mut predictor, 9).2).collect();
        assert_eq!(rights, [1, 2, 3, 3]);
        predictor.keep();
        let wrongs: Vec<(bool, u32, u32)> = (0..4).map(|_| follow(&mut predictor, 6)).collect();
        assert_eq!(wrongs, [(false, 9, 2), (false, 9, 1), (false, 9, 0), (false, 6, 0)]);
        assert_eq!(predictor.way, 6);
        predictor.go_back();
        assert_eq!((predictor.entries[place].next(), predictor.entries[place].sure()), (9, 3));
        // The way is the last followers, five bits each.
        predictor.way = 0b1_00000_00001;
        predictor.follow(5, 3);
        assert_eq!(predictor.way, 0b1_00000_00001_00011);
    }
}
