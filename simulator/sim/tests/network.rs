//! The mesh: without others each transaction takes exactly what its way adds up to; with others it waits, and never less.

use quaver_sim::coherence::{Chip, Found, Purpose};
use quaver_sim::config::Config;

/// Femtoseconds; a cycle of the mesh in these tests.
const CYCLE: u64 = 1000;
/// Long after whatever was under way.
const LATER: u64 = 1_000_000_000_000;

fn chip(text: &str) -> Chip {
    Chip::new(&Config::from_toml(&format!("memory = '100 ns'\n{text}")).unwrap(), CYCLE, ())
}

/// Cycles over so many columns and rows: two a hop, and the rest of the message behind its head.
fn way(from: u64, to: u64, columns: u64, cycles_behind: u64) -> u64 {
    let hops = (from % columns).abs_diff(to % columns) + (from / columns).abs_diff(to / columns);
    if hops == 0 { 0 } else { 2 * hops + cycles_behind }
}

/// A line of 64 bytes is four cycles behind its head, on links of 16.
const LINE: u64 = 4;
const DIRECTORY: u64 = 4;
const SECOND_LEVEL: u64 = 12;

#[test]
fn a_transaction_that_meets_no_other_takes_what_its_way_adds_up_to() {
    for (cores, columns) in [(16, 4), (6, 3), (32, 6)] {
        let mut at = 0;
        for core in 0..cores {
            for owner in (0..cores).filter(|owner| *owner != core) {
                // A home at each distance, and both channels of memory.
                let mut chip = chip(&format!("chip.cores = {cores}"));
                for home in 0..cores {
                    let mut ask = |core: u64, line: u64, purpose| {
                        at += LATER;
                        let (found, done) = chip.transact(core as usize, line * 2, purpose, at);
                        assert_eq!((done - at) % CYCLE, 0);
                        (found, (done - at) / CYCLE)
                    };
                    let line = home + cores * 64;
                    let asked = |core| way(core, home, columns, 0) + DIRECTORY;
                    let corner = if line % 2 == 0 { 0 } else { columns - 1 };
                    let memory = way(home, corner, columns, 0) + 100_000_000 / CYCLE;
                    let read = asked(owner) + memory + way(corner, owner, columns, LINE);
                    assert_eq!(ask(owner, line, Purpose::Load), (Found::Memory, read));
                    let forwarded =
                        way(home, owner, columns, 0) + SECOND_LEVEL + way(owner, core, columns, LINE);
                    assert_eq!(ask(core, line, Purpose::Load), (Found::Remote, asked(core) + forwarded));
                    let gone = way(home, owner, columns, 0) + SECOND_LEVEL + way(owner, core, columns, 0);
                    let upgraded = asked(core) + gone;
                    assert_eq!(ask(core, line, Purpose::Store), (Found::Upgrade, upgraded));
                    assert_eq!(chip.network.counts().unwrap().waited_fs, 0);
                }
            }
        }
    }
}

#[test]
fn a_fixed_network_and_memory_take_table_2s_times_whoever_asks() {
    let mut chip = Chip::new(&Config::paper(), CYCLE, ());
    for (core, purpose, found, cycles) in [
        (3, Purpose::Load, Found::Memory, 300),
        (9, Purpose::Load, Found::Remote, 30),
        (9, Purpose::Store, Found::Upgrade, 30),
        (0, Purpose::Store, Found::Remote, 30),
        (0, Purpose::Store, Found::Here, 0),
    ] {
        assert_eq!(chip.transact(core, 46, purpose, 7), (found, 7 + cycles * CYCLE));
    }
    assert_eq!(chip.network.counts(), None);
}

#[test]
fn those_who_share_a_link_at_once_wait_for_each_other_and_others_do_not() {
    // Cores 0 and 1 ask core 3 for lines at home there, in the same instant: all links lie in the first row.
    let ask_both = |second: usize| {
        let mut chip = chip("");
        for line in [3, 19] {
            chip.transact(3, line * 2, Purpose::Load, 0);
        }
        chip.transact(0, 6, Purpose::Load, LATER);
        let (_, done) = chip.transact(second, 38, Purpose::Load, LATER);
        ((done - LATER) / CYCLE, chip.network.counts().unwrap().waited_fs / CYCLE)
    };
    let alone = |core: u64| way(core, 3, 4, 0) + DIRECTORY + SECOND_LEVEL + way(3, core, 4, LINE);
    // Core 1's line would be on the link to core 2 from cycle 20 on, for 5 cycles. But core 0 asked first, and its line has
    // the link from 22 to 27.
    assert_eq!(ask_both(1), (alone(1) + 7, 7));
    // Core 7 lies below core 3: it shares no link with core 0.
    assert_eq!(ask_both(7), (alone(7), 0));
    // The same core twice: the second line follows the first on every link.
    assert_eq!(ask_both(0).1, ask_both(0).0 - alone(0));
    assert!(ask_both(0).0 > alone(0));
}
