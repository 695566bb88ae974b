//! Capturing packets: a ring shared with the kernel, a thread that stamps what it takes from it, and what each layer
//! below adds.

mod error;
mod filter;
mod frame;
mod hardware;
mod join;
mod layers;
pub(crate) mod libpcap;
mod nic_clock;
mod offset;
mod raw;
mod reader;
mod ring;
mod socket;
pub(crate) mod stamp_device;
mod user;

pub use error::{CAPTURE_SETCAP, CaptureError};
pub use filter::Filter;
pub use frame::{Frame, LinkKind, PacketKind, RingStamp};
pub use hardware::SetSetting;
pub use layers::{
    Early, HardwareWish, Joiner, LayerState, LayerWish, Layers, PutBack, TcWish, XdpWish, ring_layer,
};
pub use raw::{RawCounts, RawStamps};
pub use reader::{Blocks, Reading, StampedBlock, TapCounts, start};
pub use ring::{Block, Progress};
pub use socket::{ANY, Fanout, MOST_SNAP_BYTES, RingStatistics, Tap, TapInterface, TapOptions, Wanted};
pub use user::become_user;

#[cfg(test)]
mod tests;
