//! The numbers of a flow: unwrapped, and what they tell of loss, copies and order.

use super::figures::{DelayFigures, DelayKind, RecentFigures, SequenceCounts};
use super::recent::Recent;
use super::settings::Room;
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::offset::{Evidence, FlowTimes, timed};
use quaver_arrivals::path::rolling::Rolling;

/// In a shorter time clocks drift apart by less than anybody asks for: 50 ppm make 0.25 ms.
const LEAST_SPAN_NS: i64 = 5_000_000_000;
/// Packets of one pressed key bear one time for so long at most: 65,535 ticks of 8 kHz (RFC 4733, section 2.5.1.3).
const LONGEST_EVENT_NS: i64 = 8_192_000_000;

/// Numbers of a sender that wrap at so many bits, as they come.
#[derive(Debug)]
pub(super) struct Sequence {
    bits: u32,
    rolling: Rolling,
    /// Number from which counting begins, and the highest that came; both unwrapped.
    base: u64,
    highest: u64,
    /// Came with a number below the base.
    before_base: u64,
    /// Delay of the last packet in order that had both times.
    before_delay_ns: Option<i64>,
    /// Latest time by the media clock.
    media_ns: Option<i64>,
    /// The packets, as long as all of them have times and there is room.
    kept: Option<Vec<Arrival>>,
    recent: Recent,
}

impl Sequence {
    /// Of numbers of `bits` bits, the least of the first of which is `base`.
    pub(super) fn new(bits: u32, first: &[u64], window: usize) -> Self {
        // The first packet gets a wrap above zero, so that those that it overtook have room below it.
        let near = first.first().copied().unwrap_or(0).saturating_add(wrap(bits));
        let base = first.iter().filter_map(|number| unwrap(*number, near, bits)).min().unwrap_or(near);
        Self {
            bits,
            rolling: Rolling::new(window),
            base,
            highest: near,
            before_base: 0,
            before_delay_ns: None,
            media_ns: None,
            kept: Some(Vec::new()),
            recent: Recent::new(base),
        }
    }

    /// As [`Self::push`] for a packet of RTP, with its times by the media clock and of arrival. All packets of a frame or of a pressed
    /// key bear the time of the first, which alone was sent then. Frames that others need go before these with later times. So a
    /// packet whose number goes on, and whose time does not, takes the delay of the packet before it.
    pub(super) fn push_media(
        &mut self,
        number: u64,
        (media_ns, received_ns): (i64, i64),
        room: &mut Room,
    ) -> Option<u64> {
        let goes_on =
            unwrap(number, self.highest, self.bits).is_some_and(|unwrapped| unwrapped > self.highest);
        let ahead_ns = media_ns.saturating_sub(self.media_ns.unwrap_or(i64::MIN));
        let shared = goes_on && (-LONGEST_EVENT_NS..=0).contains(&ahead_ns);
        if !shared && (goes_on || self.media_ns.is_none()) {
            self.media_ns = Some(media_ns);
        }
        let sent_ns =
            if shared { received_ns.saturating_sub(self.before_delay_ns.unwrap_or(0)) } else { media_ns };
        self.push(number, Some((sent_ns, received_ns)), room)
    }

    /// The next packet in order of arrival, with both its times where they are known: else it counts alone. Gives its
    /// unwrapped number.
    pub(super) fn push(&mut self, number: u64, times_ns: Option<(i64, i64)>, room: &mut Room) -> Option<u64> {
        let unwrapped = unwrap(number, self.highest, self.bits)?;
        let in_order = unwrapped > self.highest || self.before_delay_ns.is_none();
        self.highest = self.highest.max(unwrapped);
        let Some(sequence) = unwrapped.checked_sub(self.base) else {
            self.before_base += 1;
            return Some(unwrapped);
        };
        // Without times it stands where the packet before it stood, so that it moves no figure of delay.
        let (sent_ns, received_ns) = times_ns.unwrap_or((0, self.before_delay_ns.unwrap_or(0)));
        if in_order {
            self.before_delay_ns = Some(received_ns.saturating_sub(sent_ns));
        }
        let arrival = Arrival { sequence, sent_ns, received_ns };
        self.rolling.push(&arrival);
        if times_ns.is_none() || room.arrivals == 0 {
            self.kept = None;
        }
        if let Some(kept) = &mut self.kept {
            kept.push(arrival);
            room.arrivals -= 1;
        }
        Some(unwrapped)
    }

    /// The end: what is missing is lost.
    pub(super) fn finish(&mut self) {
        self.rolling.finish(None);
    }

    /// Delay by the sender's times. At the end the drift of the two clocks is taken out, where it shows.
    pub(super) fn delay(&mut self, kind: DelayKind, ended: bool) -> Option<DelayFigures> {
        let long = |arrivals: &&Vec<Arrival>| match arrivals[..] {
            [first, .., last] => last.received_ns.saturating_sub(first.received_ns) >= LEAST_SPAN_NS,
            _ => false,
        };
        let clocks = self.kept.as_ref().filter(|_| ended).filter(long).and_then(|arrivals| {
            let flows = &[FlowTimes { direction: Direction::Up, arrivals, period_ns: None }];
            let found = timed(&Evidence { flows, ..Evidence::default() });
            let flow = found
                .flows
                .into_iter()
                .next()
                .filter(|flow| flow.edge.as_ref().is_some_and(|edge| edge.drifts))?;
            Some((found.clocks?.skew_ppm?, flow))
        });
        let Some((skew_ppm, flow)) = clocks else { return figures(&mut self.rolling, kind) };
        let mut rolling = Rolling::new(self.rolling.window());
        flow.arrivals.iter().for_each(|arrival| rolling.push(arrival));
        rolling.finish(None);
        let (skew_ppm, drift_bound_ns) = (Some(skew_ppm), Some(flow.drift_bound_ns));
        Some(DelayFigures { skew_ppm, drift_bound_ns, ..figures(&mut rolling, kind)? })
    }

    /// The last seconds, if this is asked for each second; none before the first packet.
    pub(super) fn recent(&mut self, payload_type: Option<u8>) -> Option<RecentFigures> {
        let stretch = self.rolling.take_interval()?;
        let interarrival_ns = self.rolling.interarrival_jitter_ns();
        Some(self.recent.look(&stretch, self.highest, interarrival_ns, payload_type))
    }

    /// None before the first packet.
    pub(super) fn counts(&mut self) -> Option<SequenceCounts> {
        let certain = self.rolling.total()?.counts();
        let expected = (self.highest - self.base).saturating_add(1);
        let lost = expected.saturating_sub(certain.unique);
        Some(SequenceCounts {
            bits: self.bits,
            expected,
            unique: certain.unique,
            lost,
            loss_share: lost as f64 / expected as f64,
            loss_periods: certain.loss_periods,
            longest_loss_period: certain.longest_loss_period,
            duplicate: certain.duplicate,
            reordered: certain.reordered,
            beyond_window: certain.beyond_window + self.before_base,
        })
    }
}

fn figures(rolling: &mut Rolling, kind: DelayKind) -> Option<DelayFigures> {
    let interarrival_ns = rolling.interarrival_jitter_ns();
    let figures = rolling.total()?.summary();
    Some(DelayFigures { kind, figures, interarrival_ns, skew_ppm: None, drift_bound_ns: None })
}

/// How far numbers go before they begin again; 0 of 64 bits, which do not.
fn wrap(bits: u32) -> u64 {
    1u64.checked_shl(bits).unwrap_or(0)
}

/// The number nearest to `near` of which `number` are the low bits (RFC 1982, section 3.2); none below zero.
fn unwrap(number: u64, near: u64, bits: u32) -> Option<u64> {
    let shift = 64 - bits.clamp(1, 64);
    let ahead = (number.wrapping_sub(near) << shift).cast_signed() >> shift;
    if bits >= 64 { Some(number) } else { near.checked_add_signed(ahead) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_near_a_wrap() {
        assert_eq!(unwrap(3, 65_534, 16), Some(65_539));
        assert_eq!(unwrap(65_530, 65_539, 16), Some(65_530));
        assert_eq!(unwrap(65_530, 3, 16), None);
        assert_eq!(unwrap(1, u64::MAX, 64), Some(1));
        assert_eq!(unwrap(0, (1 << 32) - 1, 32), Some(1 << 32));
        assert_eq!((wrap(16), wrap(64)), (65_536, 0));
    }

    #[test]
    fn the_least_of_the_first_is_where_counting_begins() {
        let mut sequence = Sequence::new(16, &[2, 65_535, 0], 64);
        // 65534 came before all that was counted from; 1 is missing.
        for number in [2, 65_535, 0, 0, 65_534, 3] {
            sequence.push(number, None, &mut Room { packets: 0, arrivals: 0 });
        }
        let counts = sequence.counts().unwrap();
        assert_eq!((counts.expected, counts.unique, counts.lost), (5, 4, 1));
        assert_eq!((counts.duplicate, counts.reordered, counts.beyond_window), (1, 2, 1));
    }
}
