//! Two functions of our own, to see what a probe costs.

use super::probes::ProbeCost;
use crate::record::maps::MemoryMap;
use std::path::PathBuf;
use std::time::Instant;

/// Calls that are timed together, and how often.
const CALLS: u32 = 200;
const ROUNDS: usize = 5;

/// A function that begins with an instruction that the kernel does itself, and one that does not.
#[cfg(target_arch = "x86_64")]
mod functions {
    use std::arch::naked_asm;

    #[unsafe(naked)]
    pub(super) extern "C" fn emulated() {
        naked_asm!("push rbx", "pop rbx", "ret")
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn stepped() {
        naked_asm!("mov eax, 1", "ret")
    }
}

/// Where scratch functions lie in our own file: emulated, stepped.
#[cfg(target_arch = "x86_64")]
pub(crate) fn scratch_places() -> Option<(PathBuf, [u64; 2])> {
    let own = MemoryMap::of_process(std::process::id())?;
    let place = |function: extern "C" fn()| {
        let address = function as usize as u64;
        let mapped = own.find(address)?;
        Some((mapped.file()?, address - mapped.start + mapped.offset))
    };
    let ((file, emulated), (_, stepped)) = (place(functions::emulated)?, place(functions::stepped)?);
    Some((file, [emulated, stepped]))
}

/// Where scratch functions lie in our own file: nowhere, for nothing is probed on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn scratch_places() -> Option<(PathBuf, [u64; 2])> {
    None
}

/// Nanoseconds of a call of each scratch function, the middle of some rounds.
#[cfg(target_arch = "x86_64")]
pub(crate) fn time_scratch() -> [u64; 2] {
    [functions::emulated as extern "C" fn(), functions::stepped].map(|function| {
        let mut rounds: Vec<u64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                (0..CALLS).for_each(|_| std::hint::black_box(function)());
                start.elapsed().as_nanos() as u64 / u64::from(CALLS)
            })
            .collect();
        rounds.sort_unstable();
        rounds[ROUNDS / 2]
    })
}

/// Nothing is probed on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn time_scratch() -> [u64; 2] {
    let _ = (Instant::now(), CALLS, ROUNDS);
    [0; 2]
}

/// What the probes add to what the functions take without them.
pub(crate) fn cost(without: [u64; 2], with: [u64; 2]) -> ProbeCost {
    ProbeCost {
        emulated_ns: with[0].saturating_sub(without[0]),
        stepped_ns: with[1].saturating_sub(without[1]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::probes::is_emulated;
    use super::*;

    #[test]
    fn scratch_functions_are_of_the_two_kinds() {
        let Some((file, places)) = scratch_places() else { return };
        let octets = std::fs::read(file).unwrap();
        let first = places.map(|offset| is_emulated(&octets[offset as usize..]));
        assert_eq!(first, [true, false]);
        time_scratch();
        let cost = cost([2, 3], [600, 9_003]);
        assert_eq!((cost.emulated_ns, cost.stepped_ns), (598, 9_000));
    }
}
