//! Packets that a socket dropped itself.

use quaver_host::counters::PathCounters;
use quaver_host::root::HostRoot;
use quaver_probe::socket::drops;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a UDP socket dropped for want of buffer.
#[derive(Debug)]
pub struct SocketDrops {
    /// Drops at the socket that have been reported.
    dropped: AtomicU32,
    /// Datagrams with a wrong checksum that this namespace had seen then.
    damaged: AtomicU64,
}

impl SocketDrops {
    /// Counts what `socket` drops from now on.
    pub fn of(socket: BorrowedFd<'_>) -> Self {
        Self { dropped: AtomicU32::new(drops(socket).unwrap_or(0)), damaged: AtomicU64::new(damaged()) }
    }

    /// Packets that `socket` dropped since the last call, or since the count began; none where the kernel cannot tell. The kernel
    /// counts those with a wrong checksum as well, and by socket only together: as many as came to this namespace are left out,
    /// and so are too many rather than too few.
    pub fn since(&self, socket: BorrowedFd<'_>) -> Option<u64> {
        let (dropped, damaged) = (drops(socket)?, damaged());
        let new = u64::from(dropped.wrapping_sub(self.dropped.swap(dropped, Ordering::Relaxed)));
        Some(new.saturating_sub(damaged.saturating_sub(self.damaged.swap(damaged, Ordering::Relaxed))))
    }
}

impl Clone for SocketDrops {
    fn clone(&self) -> Self {
        Self {
            dropped: AtomicU32::new(self.dropped.load(Ordering::Relaxed)),
            damaged: AtomicU64::new(self.damaged.load(Ordering::Relaxed)),
        }
    }
}

/// Datagrams with a wrong checksum that the calling thread's network has seen.
fn damaged() -> u64 {
    PathCounters::read(&HostRoot::system()).checksum_errors()
}
