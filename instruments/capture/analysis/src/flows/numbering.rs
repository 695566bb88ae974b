//! Senders of RTP that begin their numbers anew: an encoder that was restarted, or another that took over with the same source.
//!
//! RFC 3550, appendix A.1, takes two packets in sequence far from the others for a restart. It cannot tell that from an outage of
//! more than 3,000 packets. Timestamps can: after an outage they have gone on as far as the numbers.

use super::flow::FlowPacket;
use super::{FlowKey, Payload};
use std::collections::{HashMap, VecDeque};

/// A gap of so many numbers is no mere loss (MAX_DROPOUT), and so many back no mere reordering (MAX_MISORDER).
const MAX_DROPOUT: i32 = 3_000;
const MAX_MISORDER: i32 = 100;
/// Timestamps have gone on as far as numbers if the two differ by no more than this part.
const NEAR_SHARE: f64 = 0.25;
/// Restarts of one stream; later ones are told by no row of their own.
const MOST_RESTARTS: u32 = 16;
/// Senders of one stream that may go on at the same time.
const MOST_AT_ONCE: usize = 4;

/// Where packets of one stream go.
#[derive(Debug, Default)]
pub(super) struct Numberings {
    streams: HashMap<FlowKey, Stream>,
}

/// One stream: its latest numberings, each of which may go on.
#[derive(Debug)]
struct Stream {
    /// The latest first.
    numberings: VecDeque<Numbering>,
    /// A packet far from all, until the next tells what it is.
    held: Option<FlowPacket>,
    /// Numbers of the last such packets that the next one did not follow. A later packet that does begins a restart.
    far: VecDeque<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Numbering {
    restart: u32,
    sequence: u16,
    timestamp: u32,
    /// How far numbers and timestamps went.
    numbers: f64,
    ticks: f64,
}

fn head(taken: &FlowPacket) -> Option<(u16, u32)> {
    match taken.network.payload {
        Payload::Rtp { sequence, fields, ours: None } if !taken.unnumbered => {
            Some((sequence, fields.timestamp))
        }
        _ => None,
    }
}

/// How far a number is from the one that follows `latest`.
fn from_next(latest: u16, number: u16) -> u16 {
    latest.wrapping_add(1).wrapping_sub(number).cast_signed().unsigned_abs()
}

impl Numbering {
    fn new(restart: u32, (sequence, timestamp): (u16, u32)) -> Self {
        Self { restart, sequence, timestamp, numbers: 0.0, ticks: 0.0 }
    }

    /// Whether a loss may lie between the latest packet and this one, by its number alone.
    fn may_have_lost(&self, (sequence, _): (u16, u32)) -> bool {
        i32::from(sequence.wrapping_sub(self.sequence)) < MAX_DROPOUT
    }

    /// Whether the packet is one of its own: by its number alone, or as far away by its timestamp as by its number.
    fn has(&self, (sequence, timestamp): (u16, u32)) -> bool {
        let ahead = i32::from(sequence.wrapping_sub(self.sequence));
        let back = ahead - 65_536;
        if ahead <= MAX_MISORDER || -back <= MAX_MISORDER {
            return true;
        }
        let ticks = f64::from(timestamp.wrapping_sub(self.timestamp).cast_signed());
        let of_number = if self.numbers > 0.0 { self.ticks / self.numbers } else { return false };
        [ahead, back]
            .into_iter()
            .map(|numbers| of_number * f64::from(numbers))
            .any(|expected| (ticks - expected).abs() <= NEAR_SHARE * expected.abs())
    }

    fn take(&mut self, (sequence, timestamp): (u16, u32)) {
        let ahead = sequence.wrapping_sub(self.sequence).cast_signed();
        if ahead > 0 && i32::from(ahead) < MAX_DROPOUT {
            self.numbers += f64::from(ahead);
            self.ticks += f64::from(timestamp.wrapping_sub(self.timestamp).cast_signed());
        }
        if ahead > 0 || i32::from(ahead) < -MAX_MISORDER {
            (self.sequence, self.timestamp) = (sequence, timestamp);
        }
    }
}

impl Stream {
    fn begin(first: (u16, u32)) -> Self {
        let numberings = VecDeque::from([Numbering::new(0, first)]);
        Self { numberings, held: None, far: VecDeque::new() }
    }

    /// How often it began anew.
    fn restarts(&self) -> u32 {
        self.numberings.front().map_or(0, |latest| latest.restart)
    }

    /// The nearest numbering of those that pass.
    fn nearest(
        &mut self,
        head: (u16, u32),
        passes: fn(&Numbering, (u16, u32)) -> bool,
    ) -> Option<&mut Numbering> {
        let passing = self.numberings.iter_mut().filter(|numbering| passes(numbering, head));
        passing.min_by_key(|numbering| from_next(numbering.sequence, head.0))
    }

    /// A numbering begins, unless there were too many.
    fn restart(&mut self, begun: (u16, u32)) -> Option<u32> {
        let restart = self.restarts() + 1;
        (restart <= MOST_RESTARTS).then(|| {
            self.numberings.truncate(MOST_AT_ONCE - 1);
            self.numberings.push_front(Numbering::new(restart, begun));
            restart
        })
    }

    /// Says what the packet was that was held, by the one after it: its numbering, and the packet.
    fn settle(&mut self, held: FlowPacket, next: Option<(u16, u32)>) -> (u32, FlowPacket) {
        let Some(begun) = head(&held) else { return (self.restarts(), held) };
        let goes_back = next.is_some_and(|next| {
            let own = self.nearest(next, Numbering::has);
            own.is_some_and(|own| from_next(own.sequence, next.0) < from_next(begun.0, next.0))
        });
        // A loss lies before it, unless the next goes on where the numbers were.
        let after_loss = self.nearest(begun, Numbering::may_have_lost).filter(|_| !goes_back);
        if let Some(numbering) = after_loss {
            numbering.take(begun);
            return (numbering.restart, held);
        }
        if next.is_some_and(|next| begun.0.wrapping_add(1) == next.0)
            && let Some(restart) = self.restart(begun)
        {
            return (restart, held);
        }
        self.far.truncate(MOST_AT_ONCE - 1);
        self.far.push_front(begun.0);
        // Counted, but its number is none of the stream's: what it is ahead by is no loss.
        (self.restarts(), FlowPacket { unnumbered: true, ..held })
    }

    /// The numbering of the packet, unless that is to be seen.
    fn place(&mut self, now: (u16, u32)) -> Option<u32> {
        if let Some(numbering) = self.nearest(now, Numbering::has) {
            numbering.take(now);
            return Some(numbering.restart);
        }
        let follows = self.far.iter().position(|far| far.wrapping_add(1) == now.0)?;
        self.far.remove(follows);
        self.restart(now)
    }
}

impl Numberings {
    /// The next packet of the stream `key`, whose restart is 0. The answer is the packet that was held, with its flow, where one was,
    /// and the flow of this packet, unless it is held now.
    pub(super) fn place(
        &mut self,
        key: FlowKey,
        taken: &FlowPacket,
    ) -> (Option<(FlowKey, FlowPacket)>, Option<FlowKey>) {
        let Some(now) = head(taken) else { return (None, Some(self.current(key))) };
        let stream = self.streams.entry(key).or_insert_with(|| Stream::begin(now));
        let of = |restart| FlowKey { restart, ..key };
        let held = stream.held.take().map(|held| stream.settle(held, Some(now)));
        let place = stream.place(now);
        if place.is_none() {
            stream.held = Some(*taken);
        }
        (held.map(|(restart, held)| (of(restart), held)), place.map(of))
    }

    fn current(&self, key: FlowKey) -> FlowKey {
        FlowKey { restart: self.streams.get(&key).map_or(0, Stream::restarts), ..key }
    }

    /// Forgets streams that `stays` does not name.
    pub(super) fn retain(&mut self, stays: impl Fn(&FlowKey) -> bool) {
        self.streams.retain(|key, stream| {
            stream.held.is_some() || stays(&FlowKey { restart: stream.restarts(), ..*key })
        });
    }

    /// The end: packets that were held, with their flows.
    pub(super) fn finish(&mut self) -> Vec<(FlowKey, FlowPacket)> {
        let streams = self.streams.iter_mut();
        let held = streams.filter_map(|(key, stream)| {
            let held = stream.held.take()?;
            let (restart, held) = stream.settle(held, None);
            Some((FlowKey { restart, ..*key }, held))
        });
        let mut held: Vec<(FlowKey, FlowPacket)> = held.collect();
        held.sort_by_key(|(_, taken)| taken.number);
        held
    }
}
