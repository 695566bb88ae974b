//! A wait buffer or lock buffer: content-addressed, but looked through one slot after the other to save power (C.2.1).

/// One slot.
///
/// ```text
///  0                  64          96        128   129     130
///  +------------------+-----------+---------+-----+-------+
///  | lock-id          | timestamp | thread  |valid|stamped|
///  +------------------+-----------+---------+-----+-------+
/// ```
/// The paper has lock-id, timestamp and valid. Looked up by the lock alone, two threads that wait for one lock on one core
/// cannot be told apart, so the thread is part of the key here; and a bit says whether somebody has let it go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Address of the lock, condition or barrier.
    pub id: u64,
    /// Low half of the time in nanoseconds: of the entry, then of the latest s_e, b_e or u_e. Differences up to 4.29 s
    /// are right.
    pub timestamp_ns: u32,
    /// Who waits.
    pub thread: u32,
    /// Something is here.
    pub valid: bool,
    /// The time is that of an s_e, b_e or u_e.
    pub stamped: bool,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The success line, and where it was.
    pub slot: Option<u8>,
    /// Slots looked at, a cycle each.
    pub looked_at: u32,
}

/// The slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    slots: Box<[Entry]>,
}

impl Buffer {
    /// So many free slots.
    pub fn new(slots: usize) -> Self {
        Self { slots: vec![Entry::default(); slots].into() }
    }

    /// Slots in use.
    pub fn used(&self) -> usize {
        self.slots.iter().filter(|slot| slot.valid).count()
    }

    fn search(&self, is_it: impl Fn(&Entry) -> bool) -> Outcome {
        let slot = self.slots.iter().position(is_it);
        let looked_at = slot.map_or(self.slots.len(), |slot| slot + 1) as u32;
        Outcome { slot: slot.map(|slot| slot as u8), looked_at }
    }

    /// Writes into the first free slot; without one the entry is dropped.
    pub fn write(&mut self, id: u64, thread: u32, timestamp_ns: u32) -> Outcome {
        let outcome = self.search(|slot| !slot.valid);
        if let Some(slot) = outcome.slot {
            self.slots[usize::from(slot)] = Entry { id, timestamp_ns, thread, valid: true, stamped: false };
        }
        outcome
    }

    /// Finds the entry of a thread, gives it back and clears it.
    pub fn look_up(&mut self, id: u64, thread: u32) -> (Option<Entry>, Outcome) {
        let outcome = self.search(|slot| slot.valid && slot.id == id && slot.thread == thread);
        let found = outcome.slot.map(|slot| std::mem::take(&mut self.slots[usize::from(slot)]));
        (found, outcome)
    }

    /// Stores a time in the entries of a lock: those of one thread, where the message names it, else all of them, for
    /// which every slot is looked at. How many there were is given back.
    pub fn modify_timestamp(&mut self, id: u64, thread: Option<u32>, timestamp_ns: u32) -> (u32, Outcome) {
        let hits =
            |slot: &Entry| slot.valid && slot.id == id && thread.is_none_or(|thread| slot.thread == thread);
        let mut outcome = self.search(hits);
        let mut count = 0;
        for slot in self.slots.iter_mut().filter(|slot| hits(slot)) {
            (slot.timestamp_ns, slot.stamped) = (timestamp_ns, true);
            count += 1;
            if thread.is_some() {
                return (count, outcome);
            }
        }
        outcome.looked_at = self.slots.len() as u32;
        (count, outcome)
    }

    /// The entries, by slot.
    pub fn entries(&self) -> &[Entry] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    #[test]
    fn the_first_free_slot_is_taken_and_a_full_buffer_drops() {
        let mut buffer = Buffer::new(8);
        for thread in 0..8 {
            let outcome = buffer.write(0x10, thread, 5);
            assert_eq!(outcome, Outcome { slot: Some(thread as u8), looked_at: thread + 1 });
        }
        assert_eq!(buffer.write(0x10, 9, 5), Outcome { slot: None, looked_at: 8 });
        let (found, outcome) = buffer.look_up(0x10, 3);
        assert_eq!((found.unwrap().thread, outcome.looked_at), (3, 4));
        assert_eq!(
            buffer.look_up(0x10, 3),
            (None, Outcome { slot: None, looked_at: 8 }),
            "cleared by the match"
        );
        assert_eq!(buffer.write(0x20, 1, 6).slot, Some(3));
        assert_eq!(buffer.used(), 8);
    }

    #[test]
    fn a_time_goes_to_one_thread_or_to_all() {
        let mut buffer = Buffer::new(4);
        for (thread, id) in [(0, 16), (1, 8), (2, 16)] {
            buffer.write(id, thread, 1);
        }
        assert_eq!(buffer.modify_timestamp(16, None, 99), (2, Outcome { slot: Some(0), looked_at: 4 }));
        assert_eq!(buffer.modify_timestamp(16, Some(2), 100), (1, Outcome { slot: Some(2), looked_at: 3 }));
        assert_eq!(buffer.modify_timestamp(24, None, 7), (0, Outcome { slot: None, looked_at: 4 }));
        let times: Vec<(u32, bool)> =
            buffer.entries().iter().map(|slot| (slot.timestamp_ns, slot.stamped)).collect();
        assert_eq!(times, [(99, true), (1, false), (100, true), (0, false)]);
    }

    #[test]
    fn it_equals_a_list_that_is_kept_by_hand() {
        let mut random = Pcg64Mcg::seed_from_u64(11);
        let mut buffer = Buffer::new(8);
        let mut list: Vec<Option<(u64, u32, u32)>> = vec![None; 8];
        for step in 0..20_000 {
            let word = random.next_u64();
            let (id, thread) = (word >> 8 & 3, (word >> 16 & 3) as u32);
            match word & 3 {
                0 | 1 => {
                    let free = list.iter().position(Option::is_none);
                    assert_eq!(buffer.write(id, thread, step).slot, free.map(|slot| slot as u8));
                    if let Some(slot) = free {
                        list[slot] = Some((id, thread, step));
                    }
                }
                2 => {
                    let hit =
                        list.iter().position(|own| own.is_some_and(|own| (own.0, own.1) == (id, thread)));
                    let expected = hit.and_then(|slot| list[slot].take());
                    let (found, outcome) = buffer.look_up(id, thread);
                    assert_eq!(outcome.slot, hit.map(|slot| slot as u8));
                    assert_eq!(found.map(|entry| (entry.id, entry.thread, entry.timestamp_ns)), expected);
                }
                _ => {
                    let mut count = 0;
                    for own in list.iter_mut().flatten().filter(|own| own.0 == id) {
                        own.2 = step;
                        count += 1;
                    }
                    assert_eq!(buffer.modify_timestamp(id, None, step).0, count);
                }
            }
        }
    }
}
