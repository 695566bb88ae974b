//! The clock: raw cycles for the hot paths, anchors that tie them to the kernel's clocks, and the conversion
//! afterwards with its error bound.
//!
//! A hot loop stamps with a [`CycleCounter`] and writes raw cycles. A housekeeping thread lets an
//! [`AnchorKeeper`] collect [`quaver_abi::record::AnchorRecord`]s. When the measured part is over, a
//! [`Timebase`] built from these converts cycles to CLOCK_MONOTONIC nanoseconds.
//!
//! Where times are wanted while readings come in, a [`live::LiveClock`] converts them at once. A network interface's own clock
//! is tied to CLOCK_REALTIME in [`phc`].
//!
//! Where the hardware counter cannot be trusted ([`CounterSupport`]), CLOCK_MONOTONIC nanoseconds take the
//! place of cycles and everything else stays as it is.

mod anchor;
mod counter;
mod cross_core;
mod daemons;
mod kernel;
pub mod live;
mod look;
pub mod phc;
mod support;
mod timebase;

pub use anchor::{
    AnchorKeeper, ClockSource, FLAG_STEPPED, STEP_MIN_NS, SystemClocks, take_anchor, take_anchor_from,
};
pub use counter::{
    Counter, CycleCounter, HardwareCounter, MonotonicCounter, cycles, cycles_and_cpu, monotonic_ns,
    realtime_ns, suspended_ns,
};
pub use cross_core::{CrossCore, CrossCoreError, PairOffset, check_cross_core, compare_allowed_cpus};
pub use daemons::ClockDaemons;
pub use kernel::{KernelState, LeapState, TaiState};
pub use look::{ClockLook, CrossCoreLook, PhcLook};
pub use support::{CounterSupport, nominal_scale};
pub use timebase::{Converted, Timebase, TimebaseError};
