//! From a frame to steps.

use super::{END, Expectations, MOST_ACCESSES, SHAPE, SYNC, Shape, UNEXPECTED, WRITES};
use crate::step::{Access, Step, Sync, Thread, Wakeup};
use crate::varint::{Cursor, unzigzag};

/// Reads the steps of a frame.
#[derive(Clone, Debug)]
pub struct FrameReader {
    frame: Vec<u8>,
    expect: Expectations,
    /// Place in the frame of the next byte of control, where control ends, and of the next difference.
    control: usize,
    control_end: usize,
    differences: usize,
    /// Expected blocks that are still to come.
    run: u8,
    /// Blocks there are in the dictionary, and the instructions of each.
    instructions: std::sync::Arc<[u16]>,
}

impl FrameReader {
    /// A reader without a frame, for a dictionary whose blocks have so many instructions each.
    pub fn new(instructions: std::sync::Arc<[u16]>) -> Self {
        Self {
            frame: Vec::new(),
            expect: Expectations::new(),
            control: 0,
            control_end: 0,
            differences: 0,
            run: 0,
            instructions,
        }
    }

    /// Goes on with this frame.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn open(&mut self, frame: Vec<u8>) -> Result<(), &'static str> {
        let mut cursor = Cursor::new(&frame, 0);
        let length = cursor.bounded(frame.len() as u64, "its control is longer than the frame")? as usize;
        self.control = cursor.at();
        cursor.take(length)?;
        self.control_end = cursor.at();
        self.differences = cursor.at();
        self.frame = frame;
        self.run = 0;
        self.expect.clear();
        Ok(())
    }

    /// The next step; none at the frame's end. The accesses of a block come behind those that are in `accesses`.
    ///
    /// # Errors
    /// What is wrong with the frame, in words.
    #[inline]
    pub fn step(&mut self, accesses: &mut Vec<Access>) -> Result<Option<Step>, &'static str> {
        if self.run > 0 {
            self.run -= 1;
            return self.expected(accesses).map(Some);
        }
        self.token(accesses)
    }

    fn expected(&mut self, accesses: &mut Vec<Access>) -> Result<Step, &'static str> {
        let number =
            self.expect.expected().checked_sub(1).ok_or("it expects a block where none was before")?;
        self.block(number, accesses)
    }

    fn token(&mut self, accesses: &mut Vec<Access>) -> Result<Option<Step>, &'static str> {
        let mut shape = None;
        loop {
            let mut cursor = Cursor::new(&self.frame[..self.control_end], self.control);
            if cursor.is_at_end() {
                let whole = shape.is_none() && self.differences == self.frame.len();
                return whole.then_some(None).ok_or("it has more addresses than its blocks access");
            }
            let token = cursor.octet()?;
            match token {
                0..UNEXPECTED => {
                    self.control = cursor.at();
                    self.run = token;
                    let number = self.expect.expected().checked_sub(1);
                    let number = number.ok_or("it expects a block where none was before")?;
                    self.reshape(number, shape)?;
                    return self.block(number, accesses).map(Some);
                }
                UNEXPECTED => {
                    let most =
                        (self.instructions.len() as u64).checked_sub(1).ok_or("there are no blocks")?;
                    let number = cursor.bounded(most, "it has a block that is not in the dictionary")? as u32;
                    self.control = cursor.at();
                    self.reshape(number, shape)?;
                    return self.block(number, accesses).map(Some);
                }
                SHAPE if shape.is_none() => {
                    let new = read_shape(&mut cursor)?;
                    self.control = cursor.at();
                    shape = Some(new);
                }
                SYNC..END if shape.is_none() => {
                    let sync = read_sync(token - SYNC, &mut cursor)?;
                    self.control = cursor.at();
                    return Ok(Some(Step::Sync(sync)));
                }
                END if shape.is_none() => {
                    self.control = cursor.at();
                    return Ok(Some(Step::End));
                }
                _ => return Err("it has a byte of control that means nothing"),
            }
        }
    }

    fn reshape(&mut self, number: u32, shape: Option<Vec<Shape>>) -> Result<(), &'static str> {
        let Some(shape) = shape else { return Ok(()) };
        let instructions = self.instructions.get(number as usize).copied().unwrap_or(0);
        if shape.iter().any(|access| access.instruction >= instructions) {
            return Err("an instruction that its block does not have accesses memory");
        }
        self.expect.block(number).reshape(shape.into_iter());
        Ok(())
    }

    #[inline]
    fn block(&mut self, number: u32, accesses: &mut Vec<Access>) -> Result<Step, &'static str> {
        self.expect.saw(number);
        let mut last = self.expect.last_address;
        let mut cursor = Cursor::new(&self.frame, self.differences);
        let known = self.expect.block(number);
        for site in known.sites_mut() {
            let difference = unzigzag(cursor.number()?);
            let address = site.expected(last).wrapping_add(difference as u64);
            site.saw(address, last);
            last = address;
            let Shape { instruction, octets, write } = site.shape;
            accesses.push(Access { address, instruction, octets, write });
        }
        self.differences = cursor.at();
        self.expect.last_address = last;
        Ok(Step::Block { number })
    }
}

fn read_shape(cursor: &mut Cursor<'_>) -> Result<Vec<Shape>, &'static str> {
    let count = cursor.bounded(MOST_ACCESSES as u64, "a block has more accesses than any can have")?;
    let each = (0..count).map(|_| {
        let instruction =
            cursor.bounded(u64::from(u16::MAX), "it has an instruction of too great a number")?;
        let octet = cursor.octet()?;
        let octets = octet & !WRITES;
        if !(1..=64).contains(&octets) {
            return Err("it has an access of no bytes, or of more than 64");
        }
        Ok(Shape { instruction: instruction as u16, octets, write: octet & WRITES != 0 })
    });
    each.collect()
}

/// The inverse of the writer's `fields`.
fn read_sync(kind: u8, cursor: &mut Cursor<'_>) -> Result<Sync, &'static str> {
    fn thread(cursor: &mut Cursor<'_>) -> Result<Thread, &'static str> {
        let number = cursor.bounded(u64::from(u32::MAX), "it has a thread of too great a number")?;
        Ok(Thread(number as u32))
    }
    fn wakeup(cursor: &mut Cursor<'_>) -> Result<Wakeup, &'static str> {
        cursor.number().map(Wakeup)
    }
    Ok(match kind {
        0 => Sync::Create { thread: thread(cursor)? },
        1 => Sync::Join { thread: thread(cursor)? },
        2 => Sync::Lock { object: cursor.number()? },
        3 => Sync::Unlock { object: cursor.number()? },
        4 => Sync::ReadLock { object: cursor.number()? },
        5 => Sync::ReadUnlock { object: cursor.number()? },
        6 => Sync::Signal { object: cursor.number()?, wakeup: wakeup(cursor)? },
        7 => Sync::Broadcast { object: cursor.number()?, wakeup: wakeup(cursor)? },
        8 => Sync::Wait { object: cursor.number()?, mutex: cursor.number()?, by: Some(wakeup(cursor)?) },
        9 => Sync::Wait { object: cursor.number()?, mutex: cursor.number()?, by: None },
        10 => {
            let object = cursor.number()?;
            let parties = cursor.bounded(u64::from(u32::MAX), "more meet at a barrier than there can be")?;
            Sync::Barrier { object, parties: parties as u32 }
        }
        _ => return Err("it has a step of synchronisation of an unknown kind"),
    })
}
