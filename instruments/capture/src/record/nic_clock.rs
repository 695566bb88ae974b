//! Stamps of interfaces as CLOCK_REALTIME: each interface's own clock (PHC) is compared with it while a capture runs.

use super::socket::TapInterface;
use quaver_abi::stamp::{LayerStamp, StampClock};
use quaver_clock::phc::{Phc, PhcAnchor, PhcClock};
use quaver_host::ethtool;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two comparisons of a clock, each of which reads it some ten times over the bus.
const EACH: Duration = Duration::from_millis(100);

/// What can be compared with CLOCK_REALTIME.
pub(super) trait Compare {
    /// Both clocks at one instant; none where the kernel refuses now.
    fn compare(&self) -> Option<PhcAnchor>;
}

impl Compare for Phc {
    fn compare(&self) -> Option<PhcAnchor> {
        self.anchor().ok()
    }
}

/// The clock of one interface.
#[derive(Debug)]
struct NicClock<C> {
    interface: u32,
    device: C,
    clock: PhcClock,
    compared: Instant,
    /// One of the clocks was set between the last two comparisons, so that stamps from between belong to neither side.
    set: bool,
}

/// Clocks of the interfaces that stamp.
#[derive(Debug)]
pub(super) struct NicClocks<C = Phc> {
    clocks: Vec<NicClock<C>>,
}

impl NicClocks<Phc> {
    /// Takes the clock of an interface in, and says in a sentence how its stamps will be told.
    pub(super) fn add(&mut self, interface: &TapInterface) -> String {
        let number = ethtool::stamping(&interface.name).and_then(|offer| offer.clock);
        let opened = number.ok_or_else(|| "its driver names no PTP clock".to_owned()).and_then(|number| {
            let path = format!("/dev/ptp{number}");
            Phc::open(Path::new(&path)).map(|device| (path, device)).map_err(|error| error.to_string())
        });
        match opened {
            Ok((path, device)) => self.insert(interface.index, &path, device, Instant::now()),
            Err(why) => format!("the interface's own clock, as it counts, not tied to CLOCK_REALTIME: {why}"),
        }
    }
}

impl<C: Compare> NicClocks<C> {
    pub(super) fn new() -> Self {
        Self { clocks: Vec::new() }
    }

    fn insert(&mut self, interface: u32, path: &str, device: C, now: Instant) -> String {
        let Some(anchor) = device.compare() else {
            return format!(
                "the interface's own clock, as it counts: {path} cannot be compared with CLOCK_REALTIME"
            );
        };
        let clock = PhcClock::new(anchor);
        self.clocks.push(NicClock { interface, device, clock, compared: now, set: false });
        format!(
            "the interface's own clock, converted to CLOCK_REALTIME through {path}, which is {} ns ahead of it (within {} ns)",
            anchor.offset_ns(),
            anchor.half_bracket_ns
        )
    }

    /// Whether the interface with this index has a clock that is compared.
    pub(super) fn compares(&self, interface: u32) -> bool {
        self.clocks.iter().any(|clock| clock.interface == interface)
    }

    /// Compares again, where it is time.
    pub(super) fn refresh(&mut self, now: Instant) {
        for clock in self.clocks.iter_mut().filter(|clock| now.duration_since(clock.compared) >= EACH) {
            clock.compared = now;
            // Without, the bound goes on growing with the time since the last.
            if let Some(anchor) = clock.device.compare() {
                clock.set = clock.clock.anchor(anchor).is_some();
            }
        }
    }

    /// A stamp that the interface with this index took: CLOCK_REALTIME where its clock is known, else its own count.
    pub(super) fn stamp(&self, interface: u32, phc_ns: i64) -> LayerStamp {
        let Some(clock) = self.clocks.iter().find(|clock| clock.interface == interface) else {
            return LayerStamp { clock: StampClock::Phc, time_ns: phc_ns, bound_ns: u32::MAX, epoch: 0 };
        };
        let instant = clock.clock.realtime(phc_ns);
        let bound_ns = if clock.set { u32::MAX } else { instant.bound_ns };
        LayerStamp { clock: StampClock::Realtime, time_ns: instant.realtime_ns, bound_ns, epoch: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    const NOW_NS: i64 = 1_800_000_000_000_000_000;
    const TAI_NS: i64 = 37_000_000_000;

    /// A clock that runs 20 ppm fast and 37 s ahead, read within 400 ns; none while it refuses.
    #[derive(Clone)]
    struct Made(Rc<Cell<Option<i64>>>, Rc<Cell<i64>>);

    impl Made {
        fn count(&self, true_ns: i64) -> i64 {
            true_ns + (true_ns - NOW_NS) / 50_000 + TAI_NS + self.1.get()
        }
    }

    impl Compare for Made {
        fn compare(&self) -> Option<PhcAnchor> {
            let true_ns = self.0.get()?;
            let wobble_ns = (true_ns - NOW_NS) / 1_000_000 % 399;
            Some(PhcAnchor {
                phc_ns: self.count(true_ns),
                realtime_ns: true_ns + wobble_ns,
                half_bracket_ns: 400,
            })
        }
    }

    fn made() -> (Made, NicClocks<Made>, Instant, String) {
        let made = Made(Rc::new(Cell::new(Some(NOW_NS))), Rc::default());
        let (mut clocks, start) = (NicClocks::new(), Instant::now());
        let said = clocks.insert(3, "/dev/ptp7", made.clone(), start);
        (made, clocks, start, said)
    }

    #[test]
    fn stamps_lie_within_their_bounds_and_of_other_interfaces_are_left_as_they_are() {
        let (made, mut clocks, start, said) = made();
        assert!(said.contains("/dev/ptp7, which is 37000000000 ns ahead of it (within 400 ns)"), "{said}");
        for step in 1..300_i64 {
            let at_ns = NOW_NS + step * 50_000_000;
            made.0.set(Some(at_ns));
            clocks.refresh(start + Duration::from_millis(step as u64 * 50));
            for back_ns in [0, 1_000, 60_000_000] {
                let stamp = clocks.stamp(3, made.count(at_ns - back_ns));
                assert_eq!(stamp.clock, StampClock::Realtime);
                let error_ns = stamp.time_ns.abs_diff(at_ns - back_ns);
                assert!(error_ns <= stamp.bound_ns.into(), "{step}: {error_ns} {stamp:?}");
                assert!(step < 20 || stamp.bound_ns < 3_000, "{step}: {stamp:?}");
            }
        }
        assert!(clocks.compares(3) && !clocks.compares(4));
        let other = LayerStamp { clock: StampClock::Phc, time_ns: 77, bound_ns: u32::MAX, epoch: 0 };
        assert_eq!(clocks.stamp(4, 77), other);
    }

    #[test]
    fn a_clock_that_is_set_makes_bounds_unknown_until_it_was_compared_twice() {
        let (made, mut clocks, start, _) = made();
        let mut bounds = Vec::new();
        for step in 1..=6_i64 {
            let at_ns = NOW_NS + step * 100_000_000;
            made.0.set(Some(at_ns));
            if step == 4 {
                made.1.set(-TAI_NS);
            }
            clocks.refresh(start + Duration::from_millis(step as u64 * 100));
            bounds.push(clocks.stamp(3, made.count(at_ns)).bound_ns == u32::MAX);
        }
        assert_eq!(bounds, [false, false, false, true, false, false]);
    }

    #[test]
    fn a_clock_that_refuses_leaves_a_bound_that_grows_and_one_that_never_answered_its_own_count() {
        let (made, mut clocks, start, _) = made();
        made.0.set(None);
        clocks.refresh(start + EACH);
        let bound_ns = |after_ns| clocks.stamp(3, made.count(NOW_NS + after_ns)).bound_ns;
        assert!(bound_ns(1_000_000_000) > 10 * bound_ns(10_000_000) && bound_ns(1_000_000_000) < u32::MAX);
        let mut clocks = NicClocks::new();
        assert!(clocks.insert(3, "/dev/ptp0", made, start).contains("cannot be compared"));
        assert_eq!(clocks.stamp(3, 5).clock, StampClock::Phc);
    }

    #[test]
    fn an_interface_without_a_clock_is_told_so() {
        let Ok(interface) = TapInterface::find("lo") else { return };
        let said = NicClocks::new().add(&interface);
        assert!(said.contains("not tied to CLOCK_REALTIME: its driver names no PTP clock"), "{said}");
    }
}
