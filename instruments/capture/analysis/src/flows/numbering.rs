//! Senders of RTP that begin their numbers anew: an encoder that was restarted, or another that took over with the same source.
//!
//! RFC 3550, appendix A.1, takes two packets in sequence far from the others for a restart. It cannot tell that from an outage of
//! more than 3,000 packets. Timestamps can: after an outage they have gone on as far as the numbers.

use super::flow::FlowPacket;
use super::{FlowKey, Payload};
use std::collections::HashMap;

/// A gap of so many numbers is no mere loss (MAX_DROPOUT), and so many back no mere reordering (MAX_MISORDER).
const MAX_DROPOUT: i32 = 3_000;
const MAX_MISORDER: i32 = 100;
/// Timestamps have gone on as far as numbers if the two differ by no more than this part.
const NEAR_SHARE: f64 = 0.25;
/// Restarts of one stream; later ones are told by no row of their own.
const MOST_RESTARTS: u32 = 16;

/// Where packets of one stream go.
#[derive(Debug, Default)]
pub(super) struct Numberings {
    streams: HashMap<FlowKey, Stream>,
}

/// One stream: its numberings since the first, of which the latest two may both go on.
#[derive(Debug)]
struct Stream {
    latest: Numbering,
    before: Option<Numbering>,
    /// A packet far from both, until the next tells what it is.
    held: Option<FlowPacket>,
    /// Number of the last such packet that the next one did not follow. A later packet that does begins a restart.
    far: Option<u16>,
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

impl Numbering {
    fn new(restart: u32, (sequence, timestamp): (u16, u32)) -> Self {
        Self { restart, sequence, timestamp, numbers: 0.0, ticks: 0.0 }
    }

    /// Whether the packet is one of its own: by its number alone, or as far away by its timestamp as by its number.
    fn has(&self, (sequence, timestamp): (u16, u32)) -> bool {
        let ahead = i32::from(sequence.wrapping_sub(self.sequence));
        let back = ahead - 65_536;
        if ahead < MAX_DROPOUT || -back <= MAX_MISORDER {
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
    /// A numbering begins; its number.
    fn restart(&mut self, begun: (u16, u32)) -> u32 {
        let next = Numbering::new(self.latest.restart + 1, begun);
        self.before = Some(std::mem::replace(&mut self.latest, next));
        self.far = None;
        next.restart
    }
}

impl Numberings {
    /// The first packets of a stream, which are of one flow.
    pub(super) fn begin(&mut self, key: FlowKey, first: &[FlowPacket]) {
        let mut heads = first.iter().filter_map(head);
        let Some(one) = heads.next() else { return };
        let mut latest = Numbering::new(0, one);
        heads.for_each(|head| latest.take(head));
        self.streams.insert(key, Stream { latest, before: None, held: None, far: None });
    }

    /// The next packet of the stream `key`, whose restart is 0. The answer is the packet that was held, with its flow, where one was,
    /// and the flow of this packet, unless it is held now.
    pub(super) fn place(
        &mut self,
        key: FlowKey,
        taken: &FlowPacket,
    ) -> (Option<(FlowKey, FlowPacket)>, Option<FlowKey>) {
        let Some(now) = head(taken) else { return (None, Some(self.current(key))) };
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            latest: Numbering::new(0, now),
            before: None,
            held: None,
            far: None,
        });
        let of = |restart| FlowKey { restart, ..key };
        let may_restart = stream.latest.restart < MOST_RESTARTS;
        let held = stream.held.take();
        if let Some(held) = held {
            let begun = head(&held).filter(|before| before.0.wrapping_add(1) == now.0);
            if let Some(begun) = begun.filter(|_| may_restart) {
                let restart = stream.restart(begun);
                stream.latest.take(now);
                return (Some((of(restart), held)), Some(of(restart)));
            }
            stream.far = head(&held).map(|(sequence, _)| sequence);
        }
        // Counted, but its number is none of the stream's: what it is ahead by is no loss.
        let held = held.map(|held| (of(stream.latest.restart), FlowPacket { unnumbered: true, ..held }));
        let own = [Some(&mut stream.latest), stream.before.as_mut()].into_iter().flatten();
        if let Some(numbering) = own.into_iter().find(|numbering| numbering.has(now)) {
            numbering.take(now);
            return (held, Some(of(numbering.restart)));
        }
        if may_restart && stream.far.is_some_and(|far| far.wrapping_add(1) == now.0) {
            return (held, Some(of(stream.restart(now))));
        }
        stream.held = Some(*taken);
        (held, None)
    }

    fn current(&self, key: FlowKey) -> FlowKey {
        FlowKey { restart: self.streams.get(&key).map_or(0, |stream| stream.latest.restart), ..key }
    }

    /// Forgets streams that `stays` does not name.
    pub(super) fn retain(&mut self, stays: impl Fn(&FlowKey) -> bool) {
        self.streams.retain(|key, stream| {
            stream.held.is_some() || stays(&FlowKey { restart: stream.latest.restart, ..*key })
        });
    }

    /// The end: packets that were held, with their flows.
    pub(super) fn finish(&mut self) -> Vec<(FlowKey, FlowPacket)> {
        let streams = self.streams.iter_mut();
        let held = streams.filter_map(|(key, stream)| {
            let held = FlowPacket { unnumbered: true, ..stream.held.take()? };
            Some((FlowKey { restart: stream.latest.restart, ..*key }, held))
        });
        let mut held: Vec<(FlowKey, FlowPacket)> = held.collect();
        held.sort_by_key(|(_, taken)| taken.number);
        held
    }
}
