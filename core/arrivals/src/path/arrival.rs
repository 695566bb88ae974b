//! From the receiver's records to the packets that enter the analysis, and how many there are of each kind.

use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, FLAG_INVALID, FLAG_UNSTAMPED, Singleton};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// One received test packet that enters the analysis: the first copy, not invalid.
///
/// Lists of arrivals stand in order of arrival unless a function says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Arrival {
    /// Number in the order of sending from 0, unwrapped.
    pub sequence: u64,
    /// When it was sent, by the sender's wall clock: nanoseconds since 1970 UTC.
    pub sent_ns: i64,
    /// When it arrived, by the receiver's wall clock: nanoseconds since 1970 UTC.
    pub received_ns: i64,
}

impl Arrival {
    /// One-way delay (RFC 7679, section 3) as both clocks say, so negative when they disagree by more than it.
    ///
    /// Differences beyond 64 bits are held at its ends: stamps come from the network and may be anything.
    pub fn delay_ns(&self) -> i64 {
        self.received_ns.saturating_sub(self.sent_ns)
    }
}

/// The delays of `arrivals`, in their order.
pub fn delays_ns(arrivals: &[Arrival]) -> Vec<i64> {
    arrivals.iter().map(Arrival::delay_ns).collect()
}

/// How many packets there were of each kind. `received` = `unique` + `duplicate` + `invalid`, `sent` = `unique` + `lost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets received, each copy counted.
    pub received: u64,
    /// Further copies of a packet that had arrived (RFC 5560).
    pub duplicate: u64,
    /// Packets that cannot be of this test: flagged so, or with a number that was never sent.
    pub invalid: u64,
    /// Different valid packets received: first copies.
    pub unique: u64,
    /// Packets sent of which no copy arrived (RFC 7680, section 2).
    pub lost: u64,
    /// First copies that arrived after one with a higher number (RFC 4737, section 3.3).
    pub out_of_sequence: u64,
}

/// How packet numbers of 32 bits go on after the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// 0 to 0xFFFF_FFFF, then 0 again: RTP-like counters, STAMP (RFC 8762).
    Full,
    /// 0 to 0xFFFF_FFFE, then 0 again. 0xFFFF_FFFF is -1, Jitlat's sentinel, and never a packet's number: packet
    /// 4,294,967,295 has number 0. A Jitlat peer cannot get there, since a workorder asks for at most 4,294,967,295
    /// packets, the last of which has number 0xFFFF_FFFE.
    Jitlat,
}

impl Numbering {
    const fn modulus(self) -> u64 {
        match self {
            Self::Full => 1 << 32,
            Self::Jitlat => (1 << 32) - 1,
        }
    }

    /// The packet number nearest to `near` that is `number` on the wire: the way of serial numbers (RFC 1982,
    /// section 3.2). None if that would lie below zero, or if `number` is the sentinel.
    ///
    /// Right as long as packets come within 2^31 - 1 numbers of `near`.
    pub const fn unwrap(self, number: u32, near: u64) -> Option<u64> {
        let modulus = self.modulus();
        if number as u64 >= modulus {
            return None;
        }
        let ahead = (number as u64 + modulus - near % modulus) % modulus;
        if ahead <= modulus / 2 { near.checked_add(ahead) } else { near.checked_sub(modulus - ahead) }
    }
}

/// What a received packet turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// First copy of a packet of this test.
    Unique(Arrival),
    /// Another copy of packet `sequence`, None if only the receiver's flag says so.
    Duplicate(Option<u64>),
    /// First copy of packet `sequence`, of which nobody knows when it arrived.
    Unstamped(u64),
    /// Not of this test.
    Invalid,
}

/// Sorts received packets one by one. Memory grows with the different packet numbers received, a bit for each.
#[derive(Debug, Clone)]
pub struct Classifier {
    numbering: Numbering,
    /// Numbers from here on were not sent.
    end: u64,
    next_expected: u64,
    seen: SequenceSet,
    received: u64,
    duplicate: u64,
    invalid: u64,
    unique: u64,
    out_of_sequence: u64,
}

impl Classifier {
    /// For a test that sent `sent` packets; None if the sender's count never came.
    pub fn new(numbering: Numbering, sent: Option<u64>) -> Self {
        Self {
            numbering,
            end: sent.unwrap_or(u64::MAX),
            next_expected: 0,
            seen: SequenceSet::default(),
            received: 0,
            duplicate: 0,
            invalid: 0,
            unique: 0,
            out_of_sequence: 0,
        }
    }

    /// The next packet in order of arrival.
    ///
    /// A row with any flag stays out of the analysis, as in Jitlat: as a duplicate if only that is flagged, else as
    /// invalid. A number is unwrapped against the highest valid number so far; a number that was not sent is
    /// invalid and moves nothing.
    pub fn add(&mut self, singleton: &Singleton) -> Verdict {
        self.received += 1;
        let near = self.next_expected.saturating_sub(1);
        let sequence = self.numbering.unwrap(singleton.tx_seq as u32, near).filter(|&s| s < self.end);
        if singleton.flags & !(FLAG_DUPLICATE | FLAG_UNSTAMPED) != 0 {
            self.invalid += 1;
            return Verdict::Invalid;
        }
        if singleton.flags & FLAG_DUPLICATE != 0 {
            self.duplicate += 1;
            return Verdict::Duplicate(sequence);
        }
        let Some(sequence) = sequence else {
            self.invalid += 1;
            return Verdict::Invalid;
        };
        if !self.seen.insert(sequence) {
            self.duplicate += 1;
            return Verdict::Duplicate(Some(sequence));
        }
        self.unique += 1;
        if singleton.flags & FLAG_UNSTAMPED != 0 {
            return Verdict::Unstamped(sequence);
        }
        if sequence < self.next_expected {
            self.out_of_sequence += 1;
        } else {
            self.next_expected = sequence + 1;
        }
        Verdict::Unique(Arrival {
            sequence,
            sent_ns: singleton.tx_real_time_ns,
            received_ns: singleton.rx_real_time_ns,
        })
    }

    /// The counts so far. Without the sender's count, the packets up to the highest number received count as sent,
    /// so that losses after it cannot be known.
    pub fn counts(&self) -> Counts {
        let sent = if self.end == u64::MAX { self.next_expected } else { self.end };
        Counts {
            sent,
            received: self.received,
            duplicate: self.duplicate,
            invalid: self.invalid,
            unique: self.unique,
            lost: sent - self.unique,
            out_of_sequence: self.out_of_sequence,
        }
    }
}

/// The received packets of a test, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// First copies in order of arrival.
    pub arrivals: Vec<Arrival>,
    /// Packet numbers of all copies in order of arrival, invalid ones left out: what RFC 5560 counts.
    pub copies: Vec<u64>,
    /// Packets that arrived nobody knows when: neither lost nor among `arrivals`.
    pub unstamped: Vec<u64>,
    /// How many there are of each kind.
    pub counts: Counts,
}

/// Leaps over fewer numbers are taken as they come; one over more is held against the packets that come after it.
const FAR: u64 = 256;
/// So many packets decide whether a leap was right.
const ENOUGH: usize = 3;
/// So many packets after a leap are looked at.
const LOOKED_AT: usize = 256;

impl Classifier {
    /// The number of a packet that leaps far ahead of all others, and wrongly: a sender numbers packets in the order in
    /// which it sends them, but the next ones were sent later and have numbers that the leap passed over. None for
    /// every other packet. A wrong bit in a number does that where no key protects it.
    fn wrong_leap(&self, singleton: &Singleton, later: &[Singleton]) -> Option<u64> {
        let near = self.next_expected.saturating_sub(1);
        let number =
            |row: &Singleton| self.numbering.unwrap(row.tx_seq as u32, near).filter(|&s| s < self.end);
        let leap = number(singleton).filter(|_| singleton.flags == 0)?;
        if leap < self.next_expected.saturating_add(FAR) {
            return None;
        }
        let [mut passed_over, mut beyond] = [0; 2];
        for row in later.iter().take(LOOKED_AT).filter(|row| row.flags == 0) {
            let Some(sequence) = number(row) else { continue };
            let after = row.tx_real_time_ns > singleton.tx_real_time_ns;
            passed_over += usize::from(after && (self.next_expected..leap).contains(&sequence));
            beyond += usize::from(after && sequence > leap);
            if passed_over.max(beyond) == ENOUGH {
                break;
            }
        }
        (passed_over > beyond).then_some(leap)
    }
}

/// So many packets before and after each are compared with it.
const BESIDE: usize = 8;
/// Fewer of these tell nothing.
const LEAST_BESIDE: usize = 4;

/// Which packets were changed on their way: each one whose number and sending time contradict most of those that arrived just before
/// it, or just after it, while both its neighbours fit. A sender stamps packets in the order of their numbers, so of two packets the
/// higher number has the later time, in whatever order they arrive. A step of the sender's clock makes several neighbours
/// contradict each other, and none of them is taken for changed.
fn changed(singletons: &[Singleton]) -> Vec<bool> {
    let valid: Vec<usize> = (0..singletons.len()).filter(|at| singletons[*at].flags == 0).collect();
    let contradict = |one: &Singleton, other: &Singleton| {
        let ahead = one.tx_seq.wrapping_sub(other.tx_seq);
        let later_ns = one.tx_real_time_ns.saturating_sub(other.tx_real_time_ns);
        i64::from(ahead.signum()) * later_ns.signum() < 0
    };
    let most = |row: &Singleton, others: &[usize]| {
        let against = others.iter().filter(|other| contradict(row, &singletons[**other])).count();
        others.len() >= LEAST_BESIDE && 2 * against > others.len()
    };
    let is_suspect = |at: usize| {
        let before = valid.partition_point(|other| *other < at);
        let after = before + usize::from(valid.get(before) == Some(&at));
        let row = &singletons[at];
        most(row, &valid[before.saturating_sub(BESIDE)..before])
            || most(row, &valid[after..valid.len().min(after + BESIDE)])
    };
    let suspects: Vec<bool> = singletons
        .iter()
        .enumerate()
        .map(|(at, row)| (row.flags == 0 || row.flags == FLAG_DUPLICATE) && is_suspect(at))
        .collect();
    let beside = |at: usize| [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
    let alone = |at: usize| !beside(at).any(|at| suspects.get(at).copied().unwrap_or(false));
    (0..suspects.len()).map(|at| suspects[at] && alone(at)).collect()
}

/// Whether the number of a changed packet is one of those that arrived around it and that no other packet there has: then its time
/// was changed, and not its number.
fn number_fits(singletons: &[Singleton], at: usize) -> bool {
    let row = &singletons[at];
    let ahead_of = |range: Range<usize>| -> Vec<i32> {
        let valid = singletons[range].iter().filter(|other| other.flags == 0);
        valid.map(|other| row.tx_seq.wrapping_sub(other.tx_seq)).collect()
    };
    let before = ahead_of(at.saturating_sub(BESIDE)..at);
    let after = ahead_of(at + 1..singletons.len().min(at + 1 + BESIDE));
    let is_near = |ahead: &i32| *ahead != 0 && ahead.unsigned_abs() as usize <= 2 * BESIDE;
    row.flags == 0
        && before.iter().chain(&after).all(is_near)
        && (before.is_empty() || before.iter().any(|ahead| *ahead > 0))
        && (after.is_empty() || after.iter().any(|ahead| *ahead < 0))
}

/// Whether the sending time of a packet lies among those that arrived around it, or about as near. Of a packet that was changed
/// and that the receiver took for a copy, it tells if the number was changed or the time.
fn time_fits(singletons: &[Singleton], at: usize) -> bool {
    let around = &singletons[at.saturating_sub(BESIDE)..singletons.len().min(at + 1 + BESIDE)];
    let times = || around.iter().filter(|other| other.flags == 0).map(|other| other.tx_real_time_ns);
    let Some((first_ns, last_ns)) = times().min().zip(times().max()) else { return true };
    let span_ns = last_ns.saturating_sub(first_ns);
    (first_ns.saturating_sub(span_ns)..=last_ns.saturating_add(span_ns))
        .contains(&singletons[at].tx_real_time_ns)
}

/// Sorts the records of a test, which stand in order of arrival, into packets that enter the analysis and others.
///
/// `sent` is the number of packets sent, None if unknown. See [`Classifier`]. A packet whose number leaps far ahead while
/// those sent after it go on as before has a wrong number: it is invalid and moves nothing. A packet whose number and sending
/// time contradict the packets beside it was changed: a wrong bit in either does that where no key protects them. Where its number
/// fits it arrived, nobody knows after how long; else it is invalid, too. The packet whose number an invalid one has is no copy of
/// it, whatever the receiver took it for.
pub fn classify(singletons: &[Singleton], numbering: Numbering, sent: Option<u64>) -> Classified {
    let mut classifier = Classifier::new(numbering, sent);
    let mut arrivals = Vec::with_capacity(singletons.len());
    let mut copies = Vec::with_capacity(singletons.len());
    let mut unstamped = Vec::new();
    let mut claimed: HashSet<u64> = HashSet::new();
    for ((at, singleton), changed) in singletons.iter().enumerate().zip(changed(singletons)) {
        let mut row = *singleton;
        let near = classifier.next_expected.saturating_sub(1);
        let leap = classifier.wrong_leap(&row, &singletons[at + 1..]);
        let of_a_copy = changed && row.flags == FLAG_DUPLICATE && !time_fits(singletons, at);
        if changed && leap.is_none() && number_fits(singletons, at) {
            row.flags = FLAG_UNSTAMPED;
        } else if of_a_copy {
            // Its number is right, and nobody asks when a copy was sent.
        } else if changed || leap.is_some() {
            claimed.extend(leap.or_else(|| numbering.unwrap(row.tx_seq as u32, near)));
            row.flags = FLAG_INVALID;
        } else if row.flags == FLAG_DUPLICATE && !claimed.is_empty() {
            let number = numbering.unwrap(row.tx_seq as u32, near);
            if number.is_some_and(|number| claimed.remove(&number)) {
                row.flags = 0;
            }
        }
        match classifier.add(&row) {
            Verdict::Unique(arrival) => {
                arrivals.push(arrival);
                copies.push(arrival.sequence);
            }
            Verdict::Duplicate(sequence) => copies.extend(sequence),
            Verdict::Unstamped(sequence) => {
                unstamped.push(sequence);
                copies.push(sequence);
            }
            Verdict::Invalid => {}
        }
    }
    Classified { arrivals, copies, unstamped, counts: classifier.counts() }
}

/// Which numbers were seen: pages of bits, so that a hostile number far ahead costs one page and no more.
#[derive(Debug, Clone, Default)]
struct SequenceSet {
    pages: HashMap<u64, [u64; Self::WORDS]>,
}

impl SequenceSet {
    const WORDS: usize = 8;

    /// True if it is new.
    fn insert(&mut self, sequence: u64) -> bool {
        let bits = Self::WORDS as u64 * 64;
        let page = self.pages.entry(sequence / bits).or_default();
        let word = &mut page[(sequence % bits / 64) as usize];
        let bit = 1 << (sequence % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}
