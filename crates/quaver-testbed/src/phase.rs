//! When injection is on. Injector and judge need not talk: both read the answer off CLOCK_MONOTONIC.
//!
//! Blocks of [`BLOCK_NS`] alternate, on in the odd ones. What a machine does anyway happens in both kinds of
//! block, so the difference between them is what was injected.

/// Length of a block.
pub const BLOCK_NS: u64 = 100_000_000;
/// Part at the start of each block that is judged as neither: the injector is still starting or stopping.
pub const MARGIN_NS: u64 = 12_000_000;

/// What an instant belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Injection on.
    On,
    /// Injection off.
    Off,
    /// Too close to a change.
    Between,
}

/// Whether an injector should be at work at this CLOCK_MONOTONIC instant.
pub fn is_on(monotonic_ns: u64) -> bool {
    (monotonic_ns / BLOCK_NS) % 2 == 1
}

/// How a judge counts something that started at this instant.
pub fn phase_of(monotonic_ns: u64) -> Phase {
    if monotonic_ns % BLOCK_NS < MARGIN_NS {
        Phase::Between
    } else if is_on(monotonic_ns) {
        Phase::On
    } else {
        Phase::Off
    }
}

/// CLOCK_MONOTONIC now.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until a CLOCK_MONOTONIC instant.
pub fn sleep_until(monotonic_ns: u64) {
    let wait = monotonic_ns.saturating_sub(now_ns());
    std::thread::sleep(std::time::Duration::from_nanos(wait));
}

/// First instant of the next block.
pub fn next_block(monotonic_ns: u64) -> u64 {
    (monotonic_ns / BLOCK_NS + 1) * BLOCK_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_alternate_and_their_starts_count_for_neither() {
        assert_eq!(phase_of(0), Phase::Between);
        assert_eq!(phase_of(MARGIN_NS), Phase::Off);
        assert_eq!(phase_of(BLOCK_NS + MARGIN_NS), Phase::On);
        assert_eq!(phase_of(2 * BLOCK_NS - 1), Phase::On);
        assert_eq!(next_block(BLOCK_NS), 2 * BLOCK_NS);
    }
}
