//! Twins of the structures in `c/shared.h`, through which programs and user space share mapped memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries of [`CpuState::vector_ns`].
pub(crate) const VECTORS: usize = 12;
/// UDP ports of a flow.
pub(crate) const PORTS: usize = 8;
/// Receive queues of another process that are followed, and the packets in one.
pub(crate) const QUEUES: (u32, u32) = (16, 65_536);
/// Different stacks that are kept, and the addresses in one.
pub(crate) const STACKS: u32 = 16_384;
pub(crate) const STACK_DEPTH: usize = 48;
/// Drop reasons counted for each subsystem of `skb_drop_reason`.
pub(crate) const DROP_REASONS: usize = 256;

/// An interval whose end has not been seen.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct OpenInterval {
    pub(crate) key: u64,
    pub(crate) start_ns: u64,
    pub(crate) aux: u64,
}

/// What one CPU's programs remember between two trace points.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CpuState {
    pub(crate) produced: u64,
    pub(crate) lost: u64,
    pub(crate) ring_base: u64,
    pub(crate) ring_mask: u64,
    pub(crate) ring_limit: u64,
    pub(crate) recorded: u32,
    pub(crate) poll: u32,
    pub(crate) thread_ns: u64,
    pub(crate) thread_id: u32,
    pub(crate) thread_priority: u32,
    pub(crate) irq_ns: u64,
    pub(crate) irq_number: u32,
    pub(crate) softirq_vector: u32,
    pub(crate) softirq_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) idle_state: u32,
    pub(crate) in_net_rx: u32,
    pub(crate) vector_ns: [u64; VECTORS],
    pub(crate) hrtimer: [OpenInterval; 2],
    pub(crate) timer: OpenInterval,
    pub(crate) cross_call: [OpenInterval; 2],
    pub(crate) raised_irq_ns: u64,
    pub(crate) batch_irq_ns: u64,
    pub(crate) batch_ns: u64,
    pub(crate) last_enqueued: u64,
    pub(crate) pending_head: u64,
    pub(crate) pending_tail: u64,
    pub(crate) pending: [u64; 64],
    pub(crate) scratch: [u64; 4],
    pub(crate) woken_ns: u64,
    pub(crate) stream_enters: u32,
    pub(crate) woken_thread: u32,
    pub(crate) steal_page: u64,
    pub(crate) seen_ns: u64,
    pub(crate) steal_ns: u64,
    pub(crate) sampling_timer: u64,
    pub(crate) consumed: u64,
    pub(crate) reserved: [u64; 7],
}
const _: () = assert!(size_of::<CpuState>() == 1024 && std::mem::offset_of!(CpuState, consumed) == 960);

/// Shared by all CPUs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Control {
    pub(crate) arrivals: u64,
    pub(crate) reserved: [u64; 7],
    pub(crate) recording_ns: u64,
    pub(crate) recordings: u64,
    pub(crate) sockets: u64,
    pub(crate) fill: [u64; 5],
}
const _: () = assert!(size_of::<Control>() == 128);

/// The receive queue of one socket of an observed process.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Queue {
    pub(crate) recording: u64,
    pub(crate) places: [u64; 4],
    pub(crate) came: u64,
    pub(crate) taken: u64,
    pub(crate) length: u64,
}
const _: () = assert!(size_of::<Queue>() == 64);

/// Fixed before loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Config {
    pub(crate) stamp_mask: u64,
    pub(crate) observed_process: u32,
    pub(crate) payload: u32,
    pub(crate) payload_offset: u32,
    pub(crate) address_family: u32,
    pub(crate) address: [u8; 16],
    pub(crate) ports: [u16; PORTS],
    pub(crate) port_count: u32,
    pub(crate) ready_by_waking: u32,
    pub(crate) steal_counted: u64,
    pub(crate) steal_offset: i64,
}
const _: () = assert!(size_of::<Config>() == 80);
