//! From steps to a frame.

use super::{END, Expectations, LONGEST_RUN, SHAPE, SYNC, Shape, UNEXPECTED, WRITES};
use crate::step::{Access, Sync};
use crate::varint::{put, zigzag};

/// Writes the steps of one thread, frame by frame.
#[derive(Clone, Debug)]
pub struct FrameWriter {
    expect: Expectations,
    control: Vec<u8>,
    differences: Vec<u8>,
    /// Expected blocks that are not written yet.
    run: u8,
    steps: u64,
}

impl Default for FrameWriter {
    fn default() -> Self {
        Self { expect: Expectations::new(), control: Vec::new(), differences: Vec::new(), run: 0, steps: 0 }
    }
}

impl FrameWriter {
    /// A block ran and did these accesses.
    pub fn block(&mut self, number: u32, accesses: &[Access]) {
        self.steps += 1;
        let known = self.expect.block(number);
        let same = known.count == accesses.len()
            && known.sites().iter().zip(accesses).all(|(site, access)| site.shape == Shape::of(access));
        if !same {
            known.reshape(accesses.iter().map(Shape::of));
            self.write_shape(accesses);
        }
        if self.expect.expected() == number + 1 {
            self.run += 1;
            if self.run == LONGEST_RUN {
                self.end_run();
            }
        } else {
            self.end_run();
            self.control.push(UNEXPECTED);
            put(&mut self.control, u64::from(number));
        }
        self.expect.saw(number);
        let mut last = self.expect.last_address;
        let known = self.expect.block(number);
        for (site, access) in known.sites_mut().iter_mut().zip(accesses) {
            let difference = access.address.wrapping_sub(site.expected(last)) as i64;
            put(&mut self.differences, zigzag(difference));
            site.saw(access.address, last);
            last = access.address;
        }
        self.expect.last_address = last;
    }

    fn write_shape(&mut self, accesses: &[Access]) {
        self.end_run();
        self.control.push(SHAPE);
        put(&mut self.control, accesses.len() as u64);
        for access in accesses {
            put(&mut self.control, u64::from(access.instruction));
            self.control.push(access.octets | if access.write { WRITES } else { 0 });
        }
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            self.control.push(self.run - 1);
            self.run = 0;
        }
    }

    /// A step of synchronisation.
    pub fn sync(&mut self, sync: Sync) {
        self.steps += 1;
        self.end_run();
        let (kind, fields) = fields(sync);
        self.control.push(SYNC + kind);
        fields.iter().for_each(|field| put(&mut self.control, *field));
    }

    /// The thread has ended.
    pub fn end(&mut self) {
        self.steps += 1;
        self.end_run();
        self.control.push(END);
    }

    /// Bytes so far.
    pub fn octets(&self) -> usize {
        self.control.len() + self.differences.len()
    }

    /// Steps in this frame so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The frame, with the number of its steps; the next begins empty.
    pub fn take(&mut self) -> (Vec<u8>, u64) {
        self.end_run();
        let mut frame = Vec::with_capacity(self.octets() + 10);
        put(&mut frame, self.control.len() as u64);
        frame.append(&mut self.control);
        frame.append(&mut self.differences);
        self.expect.clear();
        (frame, std::mem::take(&mut self.steps))
    }
}

/// The number of a kind of step, and its fields in their order. [`super::read`] holds the inverse.
fn fields(sync: Sync) -> (u8, Vec<u64>) {
    match sync {
        Sync::Create { thread } => (0, vec![u64::from(thread.0)]),
        Sync::Join { thread } => (1, vec![u64::from(thread.0)]),
        Sync::Lock { object } => (2, vec![object]),
        Sync::Unlock { object } => (3, vec![object]),
        Sync::ReadLock { object } => (4, vec![object]),
        Sync::ReadUnlock { object } => (5, vec![object]),
        Sync::Signal { object, wakeup } => (6, vec![object, wakeup.0]),
        Sync::Broadcast { object, wakeup } => (7, vec![object, wakeup.0]),
        Sync::Wait { object, mutex, by: Some(wakeup) } => (8, vec![object, mutex, wakeup.0]),
        Sync::Wait { object, mutex, by: None } => (9, vec![object, mutex]),
        Sync::Barrier { object, parties } => (10, vec![object, u64::from(parties)]),
    }
}
