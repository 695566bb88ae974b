//! What a cache may do with a line.

/// What a cache may do with its line: MESI, in the order of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LineState {
    /// Others may have it too; it may be read.
    Shared = 1,
    /// Nobody else has it, and memory has the same.
    Exclusive = 2,
    /// Nobody else has it, and memory has an older one.
    Modified = 3,
}
