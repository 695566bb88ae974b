//! Steps of a thread in few bytes. Writer and reader keep the same state, so that only what was not expected is written.
//!
//! ```text
//! frame      length of control, varint │ control │ differences of addresses
//! control    0nnnnnnn                  n + 1 blocks, each the one that followed last time after the two before it
//!            0x80 number               a block that was not expected
//!            0x81 count shape…         the next block's accesses are these from now on: instruction, bytes + 0x80 for a write
//!            0x90 + kind fields…       a step of synchronisation
//!            0xff                      the thread's end
//! differences  zigzag varints, one an access: from the address that is expected there
//! ```
//! Two addresses may be expected at a place of a block: the one before it there plus a step, which is the last that came twice
//! in a row; and the thread's last address plus what lay between the two when this place was last seen. Of these the one that
//! was right more often lately counts (a counter from -4 to 3, up where only the first was right, down where only the second
//! was; below 0 the second counts). At a place that was not seen yet it is the thread's last address.
//!
//! Every frame begins with an empty state, so that it can be read by itself.

mod read;
mod write;

pub use read::FrameReader;
pub use write::FrameWriter;

use crate::step::Access;

/// Most accesses of one block in one execution.
pub const MOST_ACCESSES: usize = 1 << 16;

/// Where the block that follows is expected: by the two blocks before it.
const PREDICTIONS: usize = 1 << 14;

const UNEXPECTED: u8 = 0x80;
const SHAPE: u8 = 0x81;
const SYNC: u8 = 0x90;
const END: u8 = 0xff;
/// Most blocks in one byte of control.
const LONGEST_RUN: u8 = 0x80;
/// In an access's octets: that it writes.
const WRITES: u8 = 0x80;

/// What is static of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
    instruction: u16,
    octets: u8,
    write: bool,
}

impl Shape {
    fn of(access: &Access) -> Self {
        Self { instruction: access.instruction, octets: access.octets, write: access.write }
    }
}

/// What is known of an access's place.
#[derive(Clone, Copy, Debug, Default)]
struct Site {
    /// The address before.
    last: u64,
    /// The last step that came twice in a row, and the last step.
    step: u64,
    last_step: u64,
    /// What the address before lay behind the thread's address before it.
    gap: u64,
    /// Below 0 the gap counts, else the step.
    trust: i8,
    seen: bool,
    /// What the access there is.
    shape: Shape,
}

impl Site {
    const LEAST_TRUST: i8 = -4;
    const MOST_TRUST: i8 = 3;

    /// The address that is expected here.
    #[inline]
    fn expected(&self, last_of_thread: u64) -> u64 {
        if !self.seen {
            last_of_thread
        } else if self.trust < 0 {
            last_of_thread.wrapping_add(self.gap)
        } else {
            self.last.wrapping_add(self.step)
        }
    }

    #[inline]
    fn saw(&mut self, address: u64, last_of_thread: u64) {
        let (step, gap) = (address.wrapping_sub(self.last), address.wrapping_sub(last_of_thread));
        if self.seen {
            match (step == self.step, gap == self.gap) {
                (true, false) => self.trust = (self.trust + 1).min(Self::MOST_TRUST),
                (false, true) => self.trust = (self.trust - 1).max(Self::LEAST_TRUST),
                _ => {}
            }
            if step == self.last_step {
                self.step = step;
            }
            self.last_step = step;
        }
        self.gap = gap;
        self.last = address;
        self.seen = true;
    }
}

/// What is known of a block within a frame.
#[derive(Clone, Debug, Default)]
struct Known {
    sites: Vec<Site>,
    /// How many of them it accesses now.
    count: usize,
}

impl Known {
    /// The places that it accesses.
    #[inline]
    fn sites(&self) -> &[Site] {
        &self.sites[..self.count]
    }

    #[inline]
    fn sites_mut(&mut self) -> &mut [Site] {
        &mut self.sites[..self.count]
    }

    /// Its accesses are these from now on; of places that it had before, something is known.
    fn reshape(&mut self, shapes: impl ExactSizeIterator<Item = Shape>) {
        self.count = shapes.len();
        if self.count > self.sites.len() {
            self.sites.resize(self.count, Site::default());
        }
        for (site, shape) in self.sites.iter_mut().zip(shapes) {
            site.shape = shape;
        }
    }
}

/// What writer and reader know alike.
#[derive(Clone, Debug)]
struct Expectations {
    follows: Box<[u32; PREDICTIONS]>,
    way: [u32; 2],
    /// Where in `follows` the way leads.
    place: usize,
    blocks: Vec<Known>,
    last_address: u64,
}

impl Expectations {
    fn new() -> Self {
        Self {
            follows: Box::new([0; PREDICTIONS]),
            way: [0; 2],
            place: 0,
            blocks: Vec::new(),
            last_address: 0,
        }
    }

    fn clear(&mut self) {
        self.follows.fill(0);
        self.way = [0; 2];
        self.place = 0;
        self.blocks.clear();
        self.last_address = 0;
    }

    /// The block that is expected, plus one; 0 where none is.
    #[inline]
    fn expected(&self) -> u32 {
        self.follows[self.place % PREDICTIONS]
    }

    #[inline]
    fn saw(&mut self, block: u32) {
        self.follows[self.place % PREDICTIONS] = block + 1;
        self.way = [self.way[1], block + 1];
        let mixed = (self.way[0].wrapping_mul(0x85eb_ca6b) ^ self.way[1]).wrapping_mul(0x9e37_79b1);
        self.place = (mixed >> (32 - PREDICTIONS.trailing_zeros())) as usize;
    }

    #[inline]
    fn block(&mut self, number: u32) -> &mut Known {
        let number = number as usize;
        if number >= self.blocks.len() {
            self.blocks.resize_with(number + 1, Known::default);
        }
        &mut self.blocks[number]
    }
}
