//! What a sink counted.

use crate::thread::ThreadUsage;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a running sink, for other threads to read at any time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct SinkLive {
    received: AtomicU64,
}

impl SinkLive {
    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// There is one writer, so a plain store does.
    #[inline(always)]
    pub(super) fn set(&self, received: u64) {
        self.received.store(received, Ordering::Relaxed);
    }
}

/// The accounts of a sink. Everything that reached the socket is in `received`, `receive_drops` or `unread`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkReport {
    /// Packets received.
    pub received: u64,
    /// Of these, packets of our sources.
    pub ours: u64,
    /// Of these, packets cut off because they were longer than the buffer.
    pub truncated: u64,
    /// Packets that found no room in the segment; received, not recorded.
    pub unrecorded: u64,
    /// Packets that the kernel dropped at this socket because its receive buffer was full, wrapping; none where
    /// the kernel cannot tell (before Linux 4.12).
    pub receive_drops: Option<u32>,
    /// Packets still in the socket's buffer at the stop.
    pub unread: u64,
    /// Receive calls that failed otherwise.
    pub errors: u64,
    /// Receive buffer as the kernel counts it, bytes.
    pub receive_buffer_bytes: usize,
    /// Identity of the device queue that packets came from (`SO_INCOMING_NAPI_ID`); 0 where the device has none,
    /// as loopback and veth: busy polling then has nothing to poll.
    pub napi_id: u32,
    /// What the kernel counted for the thread from go to end.
    pub usage: ThreadUsage,
}
