//! When injection is on. Injector and judge need not talk: both read the answer off CLOCK_MONOTONIC.
//!
//! Blocks of [`BLOCK_NS`] come in pairs, one on and one off. Which comes first is a coin thrown for each pair (the same
//! in every run: it is a function of the pair's number), so that nothing that a machine does at regular times, each
//! second say, falls into one kind of block only. What it does anyway happens in both kinds, so the difference between
//! the blocks of a pair is what was injected.

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

/// Number of the block that a CLOCK_MONOTONIC instant lies in.
pub fn block_of(monotonic_ns: u64) -> u64 {
    monotonic_ns / BLOCK_NS
}

/// Number of the pair of blocks that an instant lies in.
pub fn pair_of(monotonic_ns: u64) -> u64 {
    block_of(monotonic_ns) / 2
}

/// Whether the first block of a pair is the one with injection: a bit of the pair's number, mixed as in splitmix64
/// (Steele, Lea, Flood 2014).
fn first_is_on(pair: u64) -> bool {
    let mut mixed = pair.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) & 1 == 1
}

/// Whether an injector should be at work at this CLOCK_MONOTONIC instant.
pub fn is_on(monotonic_ns: u64) -> bool {
    let is_first = block_of(monotonic_ns).is_multiple_of(2);
    is_first == first_is_on(pair_of(monotonic_ns))
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
    (block_of(monotonic_ns) + 1) * BLOCK_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_of_each_pair_is_on_and_starts_count_for_neither() {
        for pair in 0..1_000 {
            let [first, second] = [2 * pair * BLOCK_NS, (2 * pair + 1) * BLOCK_NS];
            assert_ne!(is_on(first), is_on(second));
            assert_eq!(pair_of(second + BLOCK_NS - 1), pair);
            assert_eq!(phase_of(first), Phase::Between);
            assert_eq!(phase_of(second + MARGIN_NS - 1), Phase::Between);
            let phases = [phase_of(first + MARGIN_NS), phase_of(second + BLOCK_NS - 1)];
            assert!(phases.contains(&Phase::On) && phases.contains(&Phase::Off));
        }
        assert_eq!(next_block(BLOCK_NS), 2 * BLOCK_NS);
    }

    #[test]
    fn nothing_regular_falls_into_one_kind_of_block() {
        // Each 0.2 s, 0.5 s, 1 s, 2 s for 400 s: about half of it is on.
        for period in [2, 5, 10, 20] {
            let beats = 4_000 / period;
            let on = (0..beats).filter(|beat| is_on(beat * period * BLOCK_NS + BLOCK_NS / 2)).count() as i64;
            // Four standard deviations of a fair coin.
            let allowed = 4.0 * (beats as f64 / 4.0).sqrt();
            assert!(((on - beats as i64 / 2).abs() as f64) < allowed, "{on} of {beats} each {period} blocks");
        }
    }
}
