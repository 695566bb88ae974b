//! What a receiver makes of what it is given: packets of the flow with their flags, sentinels, and the rest.

use super::packet::{Content, PacketForm, sequence_near};
use super::report::Received;
use super::spec::{AcceptFrom, FlowSpec, StampSource};
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

/// Counts of what was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) received: u64,
    pub(super) duplicates: u64,
    pub(super) invalid: u64,
    pub(super) sentinels: u64,
    pub(super) foreign: u64,
    pub(super) unreadable: u64,
    pub(super) stamped_by: [u64; 3],
}

/// Judges the packets of one flow in their order of arrival.
pub(super) struct Judge {
    form: PacketForm,
    accept_from: AcceptFrom,
    first: u64,
    /// First sequence beyond the flow.
    end: u64,
    seen: Seen,
    pub(super) tally: Tally,
}

impl Judge {
    pub(super) fn new(spec: &FlowSpec) -> Self {
        let first = spec.first_sequence;
        Self {
            form: PacketForm::of(spec),
            accept_from: spec.accept_from,
            first,
            end: spec.packets.map_or(u64::MAX, |packets| first.saturating_add(packets)),
            seen: Seen::new(first, spec.packets.unwrap_or(MOST_REMEMBERED)),
            tally: Tally::default(),
        }
    }

    /// Whether senders' addresses have to be known.
    pub(super) fn needs_addresses(&self) -> bool {
        self.accept_from != AcceptFrom::Anyone
    }

    /// Judges a packet of `length` octets, of which the first are there.
    #[inline]
    pub(super) fn judge(
        &mut self,
        octets: &[u8],
        length: usize,
        from: Option<SocketAddr>,
        received_ns: i64,
        stamped_by: StampSource,
    ) -> Verdict {
        if !self.admits(from) {
            self.tally.foreign += 1;
            return Verdict::Ignore;
        }
        let (packet, sound) = match self.form.read(octets, length) {
            Content::Unreadable => {
                self.tally.unreadable += 1;
                return Verdict::Ignore;
            }
            Content::Foreign => {
                self.tally.foreign += 1;
                return Verdict::Ignore;
            }
            Content::Packet { packet, right_length, right_code } if packet.is_sentinel() && right_code => {
                // The document does not say how long a sentinel is.
                let _ = right_length;
                self.tally.sentinels += 1;
                return Verdict::Sentinel;
            }
            Content::Packet { packet, right_length, right_code } => (packet, right_length && right_code),
        };
        let sequence = sequence_near(packet.tx_seq, self.seen.highest)
            .filter(|sequence| sound && !packet.is_sentinel() && self.is_possible(*sequence));
        let flags = match sequence.map(|sequence| self.seen.note(sequence)) {
            None => FLAG_INVALID,
            Some(true) => FLAG_DUPLICATE,
            Some(false) => 0,
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
        let singleton = Singleton {
            tx_real_time_ns: packet.tx_real_time_ns,
            tx_seq: packet.tx_seq,
            rx_real_time_ns: received_ns,
            flags,
        };
        Verdict::Keep(Received { singleton, stamped_by })
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

/// Which of the latest packets have been seen: a bit each, in a ring.
struct Seen {
    bits: Vec<u64>,
    highest: u64,
}

impl Seen {
    /// For a flow that begins with `first` and has so many packets.
    fn new(first: u64, packets: u64) -> Self {
        let words = packets.clamp(1, MOST_REMEMBERED).div_ceil(64).next_power_of_two();
        // Nothing below the first is possible, so the first may count as the highest before it is there.
        Self { bits: vec![0; words as usize], highest: first }
    }

    fn remembered(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    /// Notes a packet; whether it had been noted before. One that is too old to tell counts as new.
    #[inline]
    fn note(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            self.forget(self.highest + 1, sequence);
            self.highest = sequence;
        } else if self.highest - sequence >= self.remembered() {
            return false;
        }
        let (word, bit) = self.place(sequence);
        let known = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        known
    }

    /// Clears the places of the sequences from `first` to `last`.
    #[inline]
    fn forget(&mut self, first: u64, last: u64) {
        if last - first >= self.remembered() {
            self.bits.fill(0);
            return;
        }
        for sequence in first..=last {
            let (word, bit) = self.place(sequence);
            self.bits[word] &= !bit;
        }
    }

    #[inline]
    fn place(&self, sequence: u64) -> (usize, u64) {
        let place = sequence & (self.remembered() - 1);
        ((place / 64) as usize, 1 << (place % 64))
    }
}
