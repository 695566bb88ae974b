//! What a receiver makes of what it is given: packets of the flow with their flags, sentinels, and the rest.

use super::inbox::Datagram;
use super::packet::{Content, PacketForm};
use super::report::Received;
use super::spec::{AcceptFrom, FlowSpec};
use super::summary::ReceiverSummary;
use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, FLAG_INVALID, Singleton};
use std::net::SocketAddr;

/// Invalid packets that are handed on; more are only counted, so that nobody can fill the receiver's memory.
const MOST_INVALID: u64 = 1 << 16;
/// Packets that can be told from copies: as many of the latest.
const MOST_REMEMBERED: u64 = 1 << 22;
/// Largest jump that a flow without end may make; a number further off is not of this flow.
const LARGEST_JUMP: u64 = 1 << 28;

/// What to do with a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Hand it on.
    Keep(Received),
    /// The sender has sent all.
    Sentinel,
    /// Counted, and that is all.
    Ignore,
}

/// Judges the packets of one flow in their order of arrival.
pub(super) struct Judge {
    form: PacketForm,
    accept_from: AcceptFrom,
    first: u64,
    /// First sequence beyond the flow.
    end: u64,
    seen: RecentPackets,
    /// Counts of what was judged.
    pub(super) tally: ReceiverSummary,
}

impl Judge {
    pub(super) fn new(spec: &FlowSpec) -> Self {
        let first = spec.first_sequence;
        Self {
            form: PacketForm::of(spec),
            accept_from: spec.accept_from,
            first,
            end: spec.packets.map_or(u64::MAX, |packets| first.saturating_add(packets)),
            seen: RecentPackets::new(first, spec.packets.unwrap_or(MOST_REMEMBERED)),
            tally: ReceiverSummary::default(),
        }
    }

    /// Whether senders' addresses have to be known.
    pub(super) fn needs_addresses(&self) -> bool {
        self.accept_from != AcceptFrom::Anyone
    }

    /// See [`PacketForm::heard_error`].
    pub(super) fn heard_error(&self) -> Option<u16> {
        self.form.heard_error()
    }

    /// Judges a packet.
    #[inline]
    pub(super) fn judge(&mut self, datagram: &Datagram<'_>) -> Verdict {
        let Datagram { octets, length, from, received_ns, stamped_by, of_train, .. } = *datagram;
        if !self.admits(from) {
            self.tally.foreign += 1;
            return Verdict::Ignore;
        }
        let (packet, sequence) = match self.form.read(octets, length, self.seen.highest) {
            Content::Unreadable => {
                self.tally.unreadable += 1;
                return Verdict::Ignore;
            }
            Content::Foreign => {
                self.tally.foreign += 1;
                return Verdict::Ignore;
            }
            Content::Packet { packet, right_length, right_code, .. }
                if packet.is_sentinel() && right_code =>
            {
                // The document does not say how long a sentinel is.
                let _ = right_length;
                self.tally.sentinels += 1;
                return Verdict::Sentinel;
            }
            Content::Packet { packet, sequence, right_length, right_code } => {
                (packet, sequence.filter(|_| right_length && right_code))
            }
        };
        let flags = match sequence.filter(|sequence| self.is_possible(*sequence)) {
            None => FLAG_INVALID,
            Some(sequence) => match self.seen.note(sequence) {
                Note::New => 0,
                Note::Copy => FLAG_DUPLICATE,
                // It may be a copy that somebody plays back.
                Note::TooOld if self.form.is_keyed() => FLAG_INVALID,
                // Or a wrong bit in a number before made all that came after it seem old: then each is its own.
                Note::TooOld => 0,
            },
        };
        if flags == FLAG_INVALID {
            if self.tally.invalid == MOST_INVALID {
                self.tally.unreadable += 1;
                return Verdict::Ignore;
            }
            self.tally.invalid += 1;
        }
        self.tally.received += 1;
        self.tally.duplicates += u64::from(flags == FLAG_DUPLICATE);
        self.tally.stamped_by[stamped_by as usize] += 1;
        self.tally.of_trains += u64::from(of_train);
        let singleton = Singleton {
            tx_real_time_ns: packet.tx_real_time_ns,
            tx_seq: packet.tx_seq,
            rx_real_time_ns: received_ns,
            flags,
        };
        Verdict::Keep(Received { singleton, stamped_by, of_train })
    }

    fn admits(&self, from: Option<SocketAddr>) -> bool {
        match (self.accept_from, from) {
            (AcceptFrom::Anyone, _) => true,
            (AcceptFrom::Host(host), Some(from)) => from.ip().to_canonical() == host.to_canonical(),
            (AcceptFrom::Socket(socket), Some(from)) => {
                from.ip().to_canonical() == socket.ip().to_canonical() && from.port() == socket.port()
            }
            (_, None) => false,
        }
    }

    fn is_possible(&self, sequence: u64) -> bool {
        (self.first..self.end).contains(&sequence)
            && sequence <= self.seen.highest.saturating_add(LARGEST_JUMP)
    }
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    New,
    Copy,
    /// Further behind the latest one than is remembered.
    TooOld,
}

/// 64 neighbouring packets, and which round of the ring they are of. A word of an earlier round counts as empty, so
/// nothing ever has to be cleared, however far a number jumps.
#[derive(Clone, Copy, Default)]
struct Word {
    round: u64,
    bits: u64,
}

/// Which of the latest packets have been seen: a bit each, in a ring.
struct RecentPackets {
    words: Vec<Word>,
    highest: u64,
}

impl RecentPackets {
    /// For a flow that begins with `first` and has so many packets.
    fn new(first: u64, packets: u64) -> Self {
        // One more, as the latest packet and the oldest one remembered may lie in the middle of theirs.
        let words = packets.clamp(1, MOST_REMEMBERED).div_ceil(64) + 1;
        // Nothing below the first is possible, so the first may count as the highest before it is there.
        Self { words: vec![Word::default(); words as usize], highest: first }
    }

    fn remembered(&self) -> u64 {
        (self.words.len() as u64 - 1) * 64
    }

    /// Notes a packet; what was known of it before.
    #[inline]
    fn note(&mut self, sequence: u64) -> Note {
        let (number, words) = (sequence / 64, self.words.len() as u64);
        let (round, bit) = (number / words, 1 << (sequence % 64));
        if self.highest.saturating_sub(sequence) >= self.remembered() {
            return Note::TooOld;
        }
        let word = &mut self.words[(number % words) as usize];
        if word.round < round {
            *word = Word { round, bits: 0 };
        }
        let known = word.bits & bit != 0;
        word.bits |= bit;
        self.highest = self.highest.max(sequence);
        if known { Note::Copy } else { Note::New }
    }
}

#[cfg(test)]
mod tests;
