//! Sync jitter: the protocol of the jitter units (*Architectural Support for Handling Jitter in Shared Memory based Parallel
//! Applications*) as pure code.
//!
//! [`Protocol`] takes what threads did in their library, and what the kernel did to them, in time order, once.
//! It finds for each thread that woke who woke it, how long that took and why, and sums it up by class, object,
//! call site, thread and core. It keeps what is going on and sums, so that its memory does not grow with the
//! number of events. docs/methodology/sync.md has the definitions and what was chosen where the
//! paper is silent.

mod books;
mod cores;
mod event;
mod finish;
mod handlers;
mod kernel;
mod keys;
mod ledger;
mod objects;
mod observer;
mod protocol;
mod results;
mod settings;
mod settle;
mod threads;
mod timeline;
mod waiting;
mod waking;

#[cfg(test)]
mod tests;

pub use event::{AnyEvent, KernelEvent, KernelKind, KernelReason, SyncEvent, ThreadId};
pub use keys::SHARED_ADDRESS;
pub use ledger::{
    Activity, BarrierFigures, CallShare, ConditionFigures, Contention, LastShare, Ledger, LockFigures,
    PATTERN_SHARE, PairShare, Pattern, PlaceShare, RootShare, SoFar, Spending, Standstill, ThreadShare,
    ThreadTime, UnendedWait, WaiterShare, WakerShare, WordFigures, WordKind, WordUse,
};
pub use observer::{Buffer, Message, Observer, Operation, Timed, Wakeup};
pub use protocol::Protocol;
pub use results::{
    Bin, Cause, CauseFigures, ClassFigures, CoreFigures, Counts, Coverage, CriticalPath, Offender,
    OtherClass, OtherFigures, Oversubscription, Sums, SyncClass, SyncResults, SyncShare, ThreadFigures,
    UnitFigures, Wait, WaitPiece,
};
pub use settings::Settings;
