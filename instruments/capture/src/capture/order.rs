//! Several interfaces in one file: their blocks wait for each other, so that packets go out in the order of their stamps in the
//! rings.
//!
//! A packet is handed over at the latest when its ring's timer ran out twice: it closes a block only if that was open at its last
//! turn, too. So what is that old has no earlier packet of another interface before it, and goes out though that one is idle. A
//! timer may be late itself: a block that a ring has begun is waited for until half of another ring waits. One that it has handed
//! over is on its way by another capture thread, and is always waited for.
//!
//! A packet that another CPU stamped, and that reaches its ring later than that, comes too late, as it does within one ring.

use crate::record::{Block, Early, Progress};
use quaver_abi::stamp::LayerStamp;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How late the capture thread may take a block, beyond its ring's timer.
const LATE_LOOK: Duration = Duration::from_millis(10);
/// Between two looks at a ring whose timer is late.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

/// A block that waits, or what is left of it.
pub(super) struct Waiting {
    pub(super) block: Block,
    pub(super) early: Early,
    pub(super) application: LayerStamp,
    pub(super) came: Instant,
}

/// The blocks of each tap that wait.
pub(super) struct Order {
    taps: Vec<VecDeque<Waiting>>,
    /// Blocks of each tap that have come.
    came: Vec<usize>,
    /// How long a block may wait for an idle tap.
    longest: Duration,
    /// How many blocks of a tap may wait: half of its ring's.
    most: usize,
}

impl Order {
    /// Of rings that hand over after so long at the latest, each of so many blocks.
    pub(super) fn new(taps: usize, timeout: Duration, blocks: usize) -> Self {
        Self {
            taps: std::iter::repeat_with(VecDeque::new).take(taps).collect(),
            came: vec![0; taps],
            longest: 2 * timeout + LATE_LOOK,
            most: (blocks / 2).max(1),
        }
    }

    pub(super) fn push(&mut self, tap: usize, waiting: Waiting) {
        self.came[tap] += 1;
        self.taps[tap].push_back(waiting);
    }

    /// What is left of a block comes first again.
    pub(super) fn put_back(&mut self, tap: usize, waiting: Waiting) {
        self.taps[tap].push_front(waiting);
    }

    /// Time until a block need not wait any longer, or until the next look.
    pub(super) fn left(&self) -> Option<Duration> {
        let first = self.taps.iter().filter_map(VecDeque::front).map(|waiting| waiting.came).min()?;
        Some(self.longest.saturating_sub(first.elapsed()).max(LOOK_PERIOD))
    }

    /// The block whose next packet is the earliest, its tap, and the stamp up to which it is before those of the others. None
    /// while a tap may still have an earlier one, unless `all` are here. `progress` tells how far a tap's block of a number is.
    pub(super) fn next(
        &mut self,
        all: bool,
        progress: impl Fn(usize, usize) -> Progress,
    ) -> Option<(usize, Waiting, Option<i64>)> {
        if !(all || self.is_ready(progress)) {
            return None;
        }
        if let [only] = self.taps.as_mut_slice() {
            return only.pop_front().map(|waiting| (0, waiting, None));
        }
        let (mut first, mut until_ns) = (None, None);
        for (tap, waiting) in self.taps.iter().enumerate().filter_map(|(tap, of)| Some((tap, of.front()?))) {
            let head = (waiting.block.next_time_ns().unwrap_or(i64::MIN), tap);
            match first.replace(head) {
                Some(before) if before < head => {
                    first = Some(before);
                    until_ns = Some(until_ns.map_or(head.0, |until: i64| until.min(head.0)));
                }
                before => until_ns = before.map(|(time_ns, _)| time_ns),
            }
        }
        let (_, tap) = first?;
        Some((tap, self.taps[tap].pop_front()?, until_ns))
    }

    fn is_ready(&self, progress: impl Fn(usize, usize) -> Progress) -> bool {
        // Before the clock is asked: packets of several rings alternate.
        if self.taps.iter().all(|tap| !tap.is_empty()) {
            return true;
        }
        let is_old =
            |tap: &VecDeque<Waiting>| tap.front().is_some_and(|first| first.came.elapsed() >= self.longest);
        let old = self.taps.iter().any(is_old);
        let pressed = self.taps.iter().any(|tap| tap.len() > self.most);
        let may_go_on = |tap: usize| match progress(tap, self.came[tap]) {
            Progress::Empty => old || pressed,
            Progress::Begun => pressed,
            Progress::HandedOver => false,
        };
        self.taps.iter().enumerate().all(|(number, tap)| !tap.is_empty() || may_go_on(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{self, Convert, PipelineKind, PipelineSettings};
    use crate::record::{self, Tap, TapOptions, Wanted};
    use quaver_abi::stamp::StampClock;
    use quaver_clock::Counter;
    use quaver_host::netns::Lab;
    use quaver_probe::thread::ThreadSettings;
    use quaver_testbed::privileged::privileged;
    use std::net::{Ipv4Addr, UdpSocket};

    const APPLICATION: LayerStamp =
        LayerStamp { clock: StampClock::Cycles, time_ns: 0, bound_ns: 0, epoch: 0 };

    #[derive(Clone)]
    struct Unconverted;

    impl Convert for Unconverted {
        fn layer_stamp(&self, _: u64) -> LayerStamp {
            APPLICATION
        }
    }

    #[test]
    fn a_ring_whose_timer_is_late_is_waited_for() {
        if !privileged("a_ring_whose_timer_is_late_is_waited_for") {
            return;
        }
        let timeout = Duration::from_millis(10);
        let lab = Lab::create().unwrap();
        let open = |interface: String, block_timeout: Duration| {
            let filter = Some("udp dst port 9".to_owned());
            let options =
                TapOptions { wanted: Wanted::In, filter, block_timeout, ..TapOptions::new(interface) };
            lab.sink.within(|| Tap::open(&options).unwrap()).unwrap()
        };
        // As late as a timer is on a CPU that the host has stopped.
        let taps =
            vec![open("lo".to_owned(), timeout), open(lab.sink.interface.clone(), Duration::from_secs(1))];
        let mut order = Order::new(taps.len(), timeout, taps[0].blocks());
        let settings = PipelineSettings::new(PipelineKind::Batch, Counter::Hardware);
        let (stamper, _resolver) = pipeline::start(&settings, Unconverted).unwrap();
        let (_reading, mut blocks) =
            record::start(taps, vec![stamper], &ThreadSettings::default(), None, 1).unwrap();
        let link = lab.source.within(|| UdpSocket::bind((lab.source.ipv4, 0)).unwrap()).unwrap();
        let inside = lab.sink.within(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
        link.send_to(b"before", (lab.sink.ipv4, 9)).unwrap();
        while blocks.taps()[1].progress(0) == Progress::Empty {
            std::thread::yield_now();
        }
        inside.send_to(b"after", (Ipv4Addr::LOCALHOST, 9)).unwrap();
        let began = Instant::now();
        let mut went = Vec::new();
        while went.len() < 2 && began.elapsed() < Duration::from_secs(30) {
            if let Some(taken) = blocks.next(order.left().unwrap_or(timeout)) {
                let application = APPLICATION;
                order.push(
                    taken.tap,
                    Waiting { block: taken.block, early: taken.early, application, came: Instant::now() },
                );
            }
            while let Some((tap, _, _)) = order.next(false, |tap, block| blocks.taps()[tap].progress(block)) {
                went.push(tap);
            }
        }
        assert_eq!(went, [1, 0]);
    }
}
