//! From the receiver's records to the packets that enter the analysis, and how many there are of each kind.

/// One received test packet that enters the analysis: the first copy, not invalid.
///
/// Lists of arrivals stand in order of arrival unless a function says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// How many packets there were of each kind. `received` = `unique` + `duplicate` + `invalid`, `sent` = `unique` + `lost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets received, each copy counted.
    pub received: u64,
    /// Further copies of a packet that had arrived.
    pub duplicate: u64,
    /// Packets that cannot be of this test.
    pub invalid: u64,
    /// Different valid packets received: first copies.
    pub unique: u64,
    /// Packets sent of which no copy arrived.
    pub lost: u64,
    /// First copies that arrived after one with a higher number (RFC 4737, section 3.3).
    pub out_of_sequence: u64,
}
