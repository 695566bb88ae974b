//! The steps that a crash can fall between.

use std::fmt::Debug;
use std::io;

/// One effect on the disk or on the machine, about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A line is appended to the journal.
    Append,
    /// The journal is made durable.
    Sync,
    /// A new journal takes the place of one that is done with.
    Renew,
    /// A torn line at the end of the journal is cut off.
    Cut,
    /// A setting is written.
    Write,
    /// A process that holds a device open is started, let go on, or ended.
    Hold,
}

/// Looks at each step before it is taken. An error stops everything, as the end of the process would.
///
/// [`Unwatched`] lets all steps pass; tests end the world at each of them in turn.
pub trait Steps: Debug + Send + Sync {
    /// Called before the step.
    fn before(&self, step: Step) -> io::Result<()>;
}

/// Nobody looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Steps for Unwatched {
    fn before(&self, _: Step) -> io::Result<()> {
        Ok(())
    }
}
