//! A first look at a stream before it is measured, and what its packets tell: sender, payload, rate.

use quaver_abi::wire::rtp::RtpHeader;
use quaver_abi::wire::stream::StreamHeader;
use quaver_host::trace::Payload;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_probe::sink::{SeenPacket, Sink};
use quaver_store::manifest::StreamPayload;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most packets of a first look that are kept; the last is kept always.
pub const MOST_SEEN: usize = 4_096;
/// RTP numbers may skip this many packets from one to the next and still pass for a sequence.
const LONGEST_SKIP: u16 = 100;
/// Shortest period that memory is planned for.
const SHORTEST_PERIOD_NS: f64 = 500.0;

/// A first look takes this long from the first packet on ...
const LOOK_NS: i64 = 300_000_000;
/// ... and longer for a slow stream, until so many packets came ...
const LOOK_PACKETS: u64 = 20;
/// ... or so much time has passed and there are two at least.
const LONGEST_LOOK_NS: i64 = 2_000_000_000;

/// A first look, while it goes on.
#[derive(Debug, Default)]
pub struct FirstLook {
    packets: Vec<SeenPacket>,
    senders: BTreeMap<SocketAddr, u64>,
}

/// What it told.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Who sends most.
    pub sender: SocketAddr,
    /// Others that send to the same place.
    pub others: Vec<SocketAddr>,
    /// Payload.
    pub payload: Payload,
    /// Identity of our source's stream.
    pub stream_id: Option<u32>,
    /// Mean period: exact from our header, else estimated from the arrivals.
    pub period_ns: f64,
    /// Length of the payload, where it is constant.
    pub payload_bytes: Option<u32>,
    /// Longest payload seen.
    pub longest_bytes: usize,
    /// Interface that it comes in on.
    pub interface: Option<u32>,
}

impl FirstLook {
    /// Adds a packet; of a flood the first ones and the last are kept.
    pub fn take(&mut self, packet: SeenPacket) {
        *self.senders.entry(packet.sender).or_default() += 1;
        if self.packets.len() == MOST_SEEN {
            self.packets.pop();
        }
        self.packets.push(packet);
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.senders.values().sum()
    }

    /// Time from the first packet to the last, nanoseconds.
    pub fn length_ns(&self) -> i64 {
        match (self.packets.first(), self.packets.last()) {
            (Some(first), Some(last)) => last.seen_ns - first.seen_ns,
            _ => 0,
        }
    }

    /// What is known; none before the busiest sender's second packet.
    pub fn learned(&self) -> Option<Learned> {
        let (&sender, &count) = self.senders.iter().max_by_key(|(_, count)| **count)?;
        let packets: Vec<&SeenPacket> =
            self.packets.iter().filter(|packet| packet.sender == sender).collect();
        let (first, last) = (packets.first()?, packets.last()?);
        if packets.len() < 2 {
            return None;
        }
        let payload = payload(&packets);
        let by_arrival = (last.seen_ns - first.seen_ns) as f64 / (count - 1) as f64;
        let period_ns = period_ns(payload, &packets).unwrap_or(by_arrival).max(SHORTEST_PERIOD_NS);
        let constant = packets.iter().all(|packet| packet.payload_bytes == first.payload_bytes);
        Some(Learned {
            sender,
            others: self.senders.keys().copied().filter(|other| *other != sender).collect(),
            payload,
            stream_id: header(payload, first).map(|header| header.stream_id.get()),
            period_ns,
            payload_bytes: constant.then_some(first.payload_bytes as u32),
            longest_bytes: packets.iter().map(|packet| packet.payload_bytes).max().unwrap_or(0),
            interface: packets.iter().find_map(|packet| packet.interface),
        })
    }
}

/// What three quarters of the packets look like; RTP only if their numbers also ascend.
fn payload(packets: &[&SeenPacket]) -> Payload {
    let most = |matching: usize, of: usize| matching * 4 >= of * 3 && of > 0;
    let kinds: Vec<Payload> = packets.iter().map(|packet| packet.payload()).collect();
    let candidate = kinds
        .iter()
        .copied()
        .find(|kind| most(kinds.iter().filter(|other| *other == kind).count(), kinds.len()))
        .unwrap_or(Payload::Opaque);
    if candidate != Payload::Rtp {
        return candidate;
    }
    let headers: Vec<RtpHeader> = packets
        .iter()
        .filter_map(|packet| RtpHeader::read(&packet.octets))
        .map(|(header, _)| header)
        .collect();
    let steps = headers.windows(2).filter(|pair| {
        let step = pair[1].sequence.get().wrapping_sub(pair[0].sequence.get());
        pair[0].ssrc == pair[1].ssrc && (1..=LONGEST_SKIP).contains(&step)
    });
    if most(steps.count(), headers.len().saturating_sub(1)) { Payload::Rtp } else { Payload::Opaque }
}

fn header(payload: Payload, packet: &SeenPacket) -> Option<StreamHeader> {
    let Payload::Ours { offset } = payload else { return None };
    StreamHeader::read(packet.octets.get(usize::from(offset)..)?)
}

/// From the numbers in the packets: our source's own schedule, or the time that so many RTP numbers took.
fn period_ns(payload: Payload, packets: &[&SeenPacket]) -> Option<f64> {
    let (first, last) = (packets.first()?, packets.last()?);
    let (time_ns, numbers) = match payload {
        Payload::Ours { .. } => return scheduled_period_ns(payload, packets),
        Payload::Rtp => {
            let number = |packet: &SeenPacket| Some(RtpHeader::read(&packet.octets)?.0.sequence.get());
            // A look is too short for more than one wrap of the numbers.
            (last.seen_ns - first.seen_ns, u64::from(number(last)?.wrapping_sub(number(first)?)))
        }
        Payload::Opaque => return None,
    };
    (time_ns > 0 && numbers > 0).then(|| time_ns as f64 / numbers as f64)
}

/// Periods in a step, at most, where it tells of the period: what was cut off of each adds up.
const LONGEST_STEP: f64 = 64.0;
/// A step of so many periods may be the shortest of a look, where the source missed slots all the time.
const LEAST_STEPS: u32 = 4;

/// The period of our source's schedule. Slots that it missed make steps of several periods.
fn scheduled_period_ns(payload: Payload, packets: &[&SeenPacket]) -> Option<f64> {
    let headers: Vec<StreamHeader> = packets.iter().filter_map(|packet| header(payload, packet)).collect();
    let mut steps: Vec<i64> = headers
        .windows(2)
        .filter(|pair| pair[0].seq.get().checked_add(1) == Some(pair[1].seq.get()))
        .filter_map(|pair| pair[1].deadline_ns.get().checked_sub(pair[0].deadline_ns.get()))
        .filter(|step| *step > 0)
        .collect();
    steps.sort_unstable();
    let (least, median) = (*steps.first()?, *steps.get(steps.len() / 2)?);
    let whole = (1..=LEAST_STEPS).find_map(|parts| period_of_whole(&steps, least as f64 / f64::from(parts)));
    whole.or_else(|| {
        // A schedule that is not regular.
        let usual: Vec<i64> = steps.iter().copied().filter(|step| step * 2 < median * 3).collect();
        Some(usual.iter().sum::<i64>() as f64 / usual.len() as f64)
    })
}

/// The mean period where every step is a whole number of periods of about that length.
fn period_of_whole(steps: &[i64], about_ns: f64) -> Option<f64> {
    let (mut time_ns, mut periods) = (0.0, 0.0);
    for step_ns in steps.iter().map(|step| *step as f64).filter(|step| *step <= LONGEST_STEP * about_ns) {
        let of_it = (step_ns / about_ns).round();
        // A nanosecond may be cut off of each.
        if (step_ns - of_it * about_ns).abs() > about_ns / 50.0 + of_it {
            return None;
        }
        time_ns += step_ns;
        periods += of_it;
    }
    (periods > 0.0).then(|| time_ns / periods)
}

/// Whether a first look has seen enough.
fn enough(look: &FirstLook) -> bool {
    let (packets, length_ns) = (look.packets(), look.length_ns());
    packets >= LOOK_PACKETS && length_ns >= LOOK_NS || packets >= 2 && length_ns >= LONGEST_LOOK_NS
}

/// Looks at what comes until that is enough or `limit` has passed. `waiting` is said until the first packet comes; packets
/// that are not `wanted` are let pass.
///
/// # Errors
/// The socket fails, or the user ends it meanwhile.
pub fn look(
    sink: &Sink,
    limit: Duration,
    interrupt: &Interrupt,
    progress: &Progress,
    waiting: &str,
    mut wanted: impl FnMut(&SeenPacket) -> bool,
) -> anyhow::Result<FirstLook> {
    let start = Instant::now();
    let mut look = FirstLook::default();
    let mut shown = None;
    sink.look(|packet| {
        let elapsed = start.elapsed();
        if let Some(packet) = packet.filter(|packet| wanted(packet)) {
            look.take(packet);
        }
        let tick = elapsed.as_millis() / 100;
        if shown != Some(tick) {
            shown = Some(tick);
            let words = if look.packets() == 0 { waiting } else { "learning the stream" };
            progress.show(elapsed, words.to_owned());
        }
        !enough(&look) && elapsed < limit && !interrupt.requested()
    })?;
    if interrupt.requested() {
        return Err(failure(ExitCode::Interrupted, "stopped while waiting for the stream"));
    }
    Ok(look)
}

/// A payload as manifests have it.
pub fn stored_payload(payload: Payload) -> StreamPayload {
    match payload {
        Payload::Ours { offset } => StreamPayload::Ours { offset },
        Payload::Rtp => StreamPayload::Rtp,
        Payload::Opaque => StreamPayload::Opaque,
    }
}

/// Name of a payload for people.
pub fn payload_words(payload: Payload) -> &'static str {
    match payload {
        Payload::Ours { .. } => "a quaver source's packets",
        Payload::Rtp => "RTP",
        Payload::Opaque => "UDP without known sequence numbers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::wire::stream::MAGIC;

    fn sender(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn seen(port: u16, seen_ns: i64, octets: Vec<u8>) -> SeenPacket {
        SeenPacket { seen_ns, sender: sender(port), interface: Some(3), payload_bytes: octets.len(), octets }
    }

    fn rtp(number: u16, ssrc: u8) -> Vec<u8> {
        [&[0x80, 96][..], &number.to_be_bytes(), &[0; 4], &[0, 0, 0, ssrc], &[7; 20]].concat()
    }

    fn ours(seq: u64, deadline_ns: i64) -> Vec<u8> {
        let mut octets = rtp(seq as u16, 1)[..12].to_vec();
        octets.extend(MAGIC);
        octets.extend(77u32.to_be_bytes());
        octets.extend(seq.to_be_bytes());
        octets.extend(deadline_ns.to_be_bytes());
        octets.extend(0i64.to_be_bytes());
        octets
    }

    fn learned(packets: impl IntoIterator<Item = SeenPacket>) -> Option<Learned> {
        let mut look = FirstLook::default();
        packets.into_iter().for_each(|packet| look.take(packet));
        look.learned()
    }

    #[test]
    fn rtp_over_the_wrap_of_its_numbers_and_a_loss() {
        let numbers = (65_500u32..65_600).filter(|number| number % 10 != 3);
        let found = learned(numbers.map(|n| seen(5, i64::from(n) * 1_000_000, rtp(n as u16, 1)))).unwrap();
        assert_eq!((found.payload, found.sender), (Payload::Rtp, sender(5)));
        assert_eq!(found.period_ns, 1e6, "the lost packets' time is theirs");
        assert_eq!((found.payload_bytes, found.interface, found.stream_id), (Some(32), Some(3), None));
    }

    #[test]
    fn octets_that_look_like_rtp_by_chance_are_opaque() {
        let found =
            learned((0u16..50).map(|n| seen(5, i64::from(n) * 1_000, rtp(n.wrapping_mul(40_503), 1))));
        assert_eq!(found.unwrap().payload, Payload::Opaque);
        let found = learned((0u8..50).map(|n| seen(5, i64::from(n) * 1_000, rtp(u16::from(n), n))));
        assert_eq!(found.unwrap().payload, Payload::Opaque, "each packet of another source");
    }

    #[test]
    fn our_own_header_tells_its_schedule_exactly() {
        let packets = (10..40).map(|n| seen(5, n * 9_999, ours(n as u64, 5_000_000_000 + n * 7_410)));
        let found = learned(packets.filter(|packet| packet.seen_ns % 7 != 0)).unwrap();
        assert_eq!((found.payload, found.stream_id), (Payload::Ours { offset: 12 }, Some(77)));
        assert_eq!(found.period_ns, 7_410.0);
    }

    #[test]
    fn a_source_that_misses_most_of_its_slots_tells_its_period_all_the_same() {
        let of_slots = |slots: &[i64]| {
            let due = |slot: i64| 5_000_000_000 + slot * 1_000_000;
            let packets = slots.iter().zip(0..).map(|(slot, seq)| seen(5, due(*slot), ours(seq, due(*slot))));
            learned(packets).unwrap().period_ns
        };
        assert_eq!(of_slots(&[0, 2, 4, 5, 8, 10, 12, 14, 15, 25, 125]), 1e6);
        assert_eq!(of_slots(&[0, 2, 5, 9, 11, 14]), 1e6, "no two neighbours");
        // Every other one is all that is known of it.
        assert_eq!(of_slots(&[0, 2, 4, 8]), 2e6);
    }

    #[test]
    fn the_busiest_of_several_senders_is_followed() {
        let packets =
            (0..90).map(|n| seen(if n % 3 == 0 { 6 } else { 5 }, n * 1_000_000, vec![1; 9 + n as usize % 3]));
        let found = learned(packets).unwrap();
        assert_eq!((found.sender, found.others.as_slice()), (sender(5), &[sender(6)][..]));
        assert_eq!((found.payload, found.payload_bytes, found.longest_bytes), (Payload::Opaque, None, 11));
        assert!((found.period_ns - 1.5e6).abs() < 2e4, "{}", found.period_ns);
    }

    #[test]
    fn one_packet_tells_no_rate_and_a_flood_is_held_in_bounds() {
        assert_eq!(learned([seen(5, 1, vec![1])]), None);
        assert_eq!(learned([]), None);
        let mut look = FirstLook::default();
        (0..20_000).for_each(|n| look.take(seen(5, n * 1_000, vec![1])));
        assert_eq!((look.packets.len(), look.packets(), look.length_ns()), (MOST_SEEN, 20_000, 19_999_000));
        assert_eq!(look.learned().unwrap().period_ns, 1_000.0);
    }
}
