//! The jitter units: the shared protocol of sync jitter inside the limits of the paper's hardware (4.1, appendix C.2).
//!
//! ```text
//!              core 0                                        core 1 …
//!   jitter-reg, time-reg, thread-list            the same
//!   wait buffer 8 × (id, thread, time, valid)        ▲
//!   lock buffer 8 × (id, thread, time, valid)        │ s_e, b_e, u_e, queries, states: 30 cycles, latched in order
//!        │ one transaction at a time  ───────────────┘
//!        └─> quaver_analysis::sync::Protocol with 8 entries: classes, N, fork and join, the rest of the books
//! ```
//! The protocol decides what counts. The hardware beside it does each operation on real buffers, slot by slot, counts
//! cycles and messages, and holds the times that the paper's registers would give against the protocol's.

mod buffer;
mod hardware;
mod registers;
mod units;

pub use buffer::{Buffer, Entry, Outcome};
pub use hardware::{Hardware, HardwareReport, MessageCounts};
pub use registers::{Registers, RegistersReport};
pub use units::{UnitConfig, UnitResults, Units};
