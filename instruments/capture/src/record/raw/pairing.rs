//! Which cycles of the kernel's trace ring belong to which packet.
//!
//! On each CPU the trace ring and the program see the same calls in the same order, the ring first:
//!
//! ```text
//! CPU 0   ring: T1   program: P1     ring: T2   program: (not ours)     ring: T3   program: P3
//! ```
//!
//! So a packet's cycles are the last before its record that have its address and its length. What either of the two lost
//! shifts nothing: times that no record claims are passed over, and a record whose times are gone finds none.

use std::collections::VecDeque;

/// Longest way by which two clocks may put the record before the times of the same call, nanoseconds: their bounds are below
/// it, and the way of a packet through the stack, until the next can come, is above.
const SLACK_NS: i64 = 250;
/// Longest time between both: an interrupt, or a host that took the CPU away.
const LONGEST_NS: i64 = 10_000_000;
/// Times that wait on a CPU; more are of interfaces that nobody captures.
const MOST_WAITING: usize = 1 << 16;

/// What the trace ring has of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traced {
    /// The processor's counter.
    pub(super) cycles: u64,
    /// The same, CLOCK_MONOTONIC.
    pub(super) monotonic_ns: i64,
    /// Address of the packet buffer.
    pub(super) packet: u64,
    /// Bytes behind the link header.
    pub(super) length: u32,
}

/// What the trace ring had and no record has claimed, by CPU.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    waiting: Vec<VecDeque<Traced>>,
}

impl Pairing {
    /// Of one CPU in their order.
    pub(super) fn put(&mut self, cpu: usize, traced: Traced) {
        if self.waiting.len() <= cpu {
            self.waiting.resize_with(cpu + 1, VecDeque::new);
        }
        let waiting = &mut self.waiting[cpu];
        if waiting.len() == MOST_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(traced);
    }

    /// The cycles of the packet of which the program wrote a record at that time. Records of one CPU in their order; all that
    /// the ring held then has been put in.
    pub(super) fn take(&mut self, cpu: usize, packet: u64, length: u32, monotonic_ns: i64) -> Option<u64> {
        let waiting = self.waiting.get_mut(cpu)?;
        let before = waiting.partition_point(|traced| traced.monotonic_ns <= monotonic_ns + SLACK_NS);
        let fits = |traced: &Traced| {
            (traced.packet, traced.length) == (packet, length)
                && monotonic_ns - traced.monotonic_ns <= LONGEST_NS
        };
        let found = waiting.iter().take(before).rposition(fits);
        let cycles = found.and_then(|at| waiting.get(at)).map(|traced| traced.cycles);
        // Later records belong to later times; one that the slack let in may be the next packet's.
        let gone = match found {
            Some(at) => at + 1,
            None => waiting.partition_point(|traced| traced.monotonic_ns < monotonic_ns - SLACK_NS),
        };
        waiting.drain(..gone);
        cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call at that time; 2 cycles a nanosecond.
    fn call(monotonic_ns: i64, packet: u64) -> Traced {
        Traced { cycles: 2 * monotonic_ns as u64, monotonic_ns, packet, length: 46 }
    }

    fn pairing(calls: &[(i64, u64)]) -> Pairing {
        let mut pairing = Pairing::default();
        calls.iter().for_each(|(at_ns, packet)| pairing.put(1, call(*at_ns, *packet)));
        pairing
    }

    #[test]
    fn each_packet_has_the_cycles_of_its_own_call_though_buffers_are_used_again() {
        let mut pairing = pairing(&[(1_000, 7), (2_000, 7), (3_000, 8), (4_000, 7)]);
        let of = |at_ns: i64, packet, pairing: &mut Pairing| pairing.take(1, packet, 46, at_ns + 90);
        assert_eq!(of(1_000, 7, &mut pairing), Some(2_000));
        // The packet at 2,000 ns went to another interface.
        assert_eq!(of(3_000, 8, &mut pairing), Some(6_000));
        assert_eq!(of(4_000, 7, &mut pairing), Some(8_000));
        assert_eq!(of(5_000, 7, &mut pairing), None);
    }

    #[test]
    fn what_the_ring_lost_leaves_that_packet_without_and_no_other() {
        let mut pairing = pairing(&[(1_000, 7), (3_000, 7)]);
        assert_eq!(pairing.take(1, 7, 46, 1_090), Some(2_000));
        assert_eq!(pairing.take(1, 7, 46, 2_090), None);
        assert_eq!(pairing.take(1, 7, 46, 3_090), Some(6_000));
    }

    #[test]
    fn what_the_program_lost_is_passed_over() {
        let mut pairing = pairing(&[(1_000, 7), (2_000, 7), (3_000, 9)]);
        assert_eq!(pairing.take(1, 7, 46, 2_090), Some(4_000));
        assert_eq!(pairing.take(1, 9, 46, 3_090), Some(6_000));
    }

    #[test]
    fn another_cpu_another_address_another_length_another_time_is_another_call() {
        let mut pairing = pairing(&[(1_000, 7)]);
        assert_eq!(pairing.take(0, 7, 46, 1_090), None);
        assert_eq!(pairing.take(5, 7, 46, 1_090), None);
        assert_eq!(pairing.take(1, 8, 46, 1_090), None);
        assert_eq!(pairing.take(1, 7, 47, 1_090), None);
        assert_eq!(pairing.take(1, 7, 46, 700), None, "the record was written before");
        assert_eq!(pairing.take(1, 7, 46, 900), Some(2_000), "clocks differ by their bounds");
    }

    #[test]
    fn times_of_what_nobody_captures_are_bounded() {
        let mut pairing = Pairing::default();
        (0..3 * MOST_WAITING as i64).for_each(|n| pairing.put(0, call(1_000 * n, 3)));
        assert_eq!(pairing.waiting[0].len(), MOST_WAITING);
        let last_ns = 1_000 * (3 * MOST_WAITING as i64 - 1);
        assert_eq!(pairing.take(0, 3, 46, last_ns + 50), Some(2 * last_ns as u64));
        assert!(pairing.waiting[0].is_empty());
    }
}
