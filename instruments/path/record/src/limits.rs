//! What a peer may ask of a server.

use quaver_abi::wire::extension::Refusal;
use quaver_path_flow::{FlowSchedule, MOST_STAMPS_KEPT};
use std::time::Duration;

/// Caps on what one server does for others.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Test packets a second.
    pub packets_per_second: u64,
    /// Bits a second of test packets' payloads.
    pub bits_per_second: u64,
    /// Length of one flow.
    pub duration: Duration,
    /// Bytes of a test packet's payload.
    pub packet_bytes: u32,
    /// Packets of a flow whose samples the server keeps until its end (24 bytes each).
    pub kept_packets: u64,
    /// Packets a second of a rolling test upwards, whose samples go back while it runs.
    pub rolling_packets_per_second: u64,
    /// Control connections in all.
    pub sessions: usize,
    /// Control connections of one peer: an IPv4 address, or an IPv6 network of 64 bits; of an IPv6 network of 48
    /// bits, four times as many.
    pub sessions_per_peer: usize,
    /// New control connections of one peer a minute, and as many at once; of an IPv6 network of 48 bits, four times
    /// as many.
    pub hellos_per_minute: u32,
    /// What all tests that run at the same time may need.
    pub budget: Budget,
    /// Tests of one peer that run or wait; the next is refused.
    pub tests_per_peer: usize,
    /// Tests that may wait for their turn; the next is refused.
    pub queue: usize,
    /// How long one may wait.
    pub queue_wait: Duration,
    /// How long a peer may be silent when it is its turn to speak. Links with seconds of delay need some.
    pub silence: Duration,
    /// How long a session may take before its test begins.
    pub setup: Duration,
    /// Round-trip probes of a session.
    pub probes: u32,
    /// Packets a second of a two-way session of TWAMP, whose client does not say how many it will send.
    pub reflected_packets_per_second: u64,
    /// For peers that speak Jitlat as its document has it, on top of all others.
    pub legacy: LegacyLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packets_per_second: 500_000,
            bits_per_second: 2_000_000_000,
            duration: Duration::from_secs(25 * 3600),
            packet_bytes: 65_507,
            kept_packets: 5_000_000,
            rolling_packets_per_second: 5_000,
            sessions: 64,
            sessions_per_peer: 8,
            hellos_per_minute: 60,
            budget: Budget::default(),
            tests_per_peer: 8,
            queue: 16,
            queue_wait: Duration::from_secs(600),
            silence: Duration::from_secs(30),
            setup: Duration::from_secs(300),
            probes: 1_000,
            reflected_packets_per_second: 20_000,
            legacy: LegacyLimits::default(),
        }
    }
}

/// What all tests that run at the same time may need, and what those of one peer may: an IPv4 address, or an IPv6 network
/// of 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Tests, each with a thread of its own.
    pub tests: usize,
    /// Test packets a second.
    pub packets_per_second: u64,
    /// Bytes a second of test packets' payloads.
    pub bytes_per_second: u64,
    /// Samples that are kept (24 bytes each).
    pub rows: u64,
    /// Test packets a second of one peer.
    pub share_packets_per_second: u64,
    /// Bytes a second of one peer.
    pub share_bytes_per_second: u64,
    /// Samples of one peer.
    pub share_rows: u64,
}

impl Default for Budget {
    /// Room for two peers that take all they may.
    fn default() -> Self {
        let (packets_per_second, bytes_per_second, rows) = (500_000, 250_000_000, 6_500_000);
        Self {
            tests: 32,
            packets_per_second: 2 * packets_per_second,
            bytes_per_second: 2 * bytes_per_second,
            rows: 2 * rows,
            share_packets_per_second: packets_per_second,
            share_bytes_per_second: bytes_per_second,
            share_rows: rows,
        }
    }
}

impl Budget {
    /// What one peer may take of it.
    pub(super) fn share(&self) -> Self {
        Self {
            packets_per_second: self.share_packets_per_second,
            bytes_per_second: self.share_bytes_per_second,
            rows: self.share_rows,
            ..*self
        }
    }
}

/// What a test needs of the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Test packets a second.
    pub(super) packets_per_second: u64,
    /// Bytes a second of their payloads.
    pub(super) bytes_per_second: u64,
    /// Samples, stamps and offsets that are kept.
    pub(super) rows: u64,
    /// Its peer speaks Jitlat as its document has it.
    pub(super) legacy: bool,
}

impl Demand {
    /// Of packets of this size, so many a second.
    pub(super) fn of(packets_per_second: u64, packet_bytes: u32, rows: u64) -> Self {
        let bytes_per_second = packets_per_second.saturating_mul(packet_bytes.into());
        Self { packets_per_second, bytes_per_second, rows, legacy: false }
    }

    /// Both at the same time.
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            packets_per_second: self.packets_per_second.saturating_add(other.packets_per_second),
            bytes_per_second: self.bytes_per_second.saturating_add(other.bytes_per_second),
            rows: self.rows.saturating_add(other.rows),
            legacy: self.legacy || other.legacy,
        }
    }

    /// Whether a budget has room for it.
    pub(super) fn is_within(&self, budget: &Budget) -> bool {
        self.packets_per_second <= budget.packets_per_second
            && self.bytes_per_second <= budget.bytes_per_second
            && self.rows <= budget.rows
    }
}

/// Caps for peers that cannot show that they want the packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyLimits {
    /// Test packets a second.
    pub packets_per_second: u64,
    /// Bits a second of test packets' payloads.
    pub bits_per_second: u64,
    /// Length of one flow.
    pub duration: Duration,
    /// Bytes of a test packet's payload.
    pub packet_bytes: u32,
    /// Least port that test packets come from and go to, at either end: services live below.
    pub least_port: u16,
}

impl Default for LegacyLimits {
    fn default() -> Self {
        Self {
            packets_per_second: 10_000,
            bits_per_second: 10_000_000,
            duration: Duration::from_secs(3600),
            packet_bytes: 1_472,
            least_port: 1_024,
        }
    }
}

/// A flow as a peer asks for it.
#[derive(Clone, Debug)]
pub(super) struct FlowRequest<'a> {
    /// Bytes of payload.
    pub(super) packet_bytes: u32,
    /// None: until stopped.
    pub(super) packets: Option<u64>,
    /// When packets are due.
    pub(super) schedule: &'a FlowSchedule,
    /// Samples go back while it runs.
    pub(super) rolling: bool,
    /// The server receives, so it has samples to keep or to send back.
    pub(super) received_here: bool,
}

/// A reason to refuse, for the peer and the log.
pub(super) type No = (Refusal, String);

impl Limits {
    /// Whether a flow keeps within the caps.
    pub(super) fn admit(&self, asked: &FlowRequest<'_>) -> Result<(), No> {
        let FlowRequest { packet_bytes, packets, schedule, rolling, received_here } = *asked;
        if packet_bytes > self.packet_bytes {
            let most = self.packet_bytes;
            return Err((
                Refusal::Size,
                format!("packets of {packet_bytes} bytes exceed the limit of {most} here"),
            ));
        }
        let rate = per_second(schedule);
        self.admit_rate(rate, packet_bytes)?;
        if let Some(packets) = packets {
            let lasts = Duration::from_nanos(schedule.expected_duration_ns(packets));
            if lasts > self.duration {
                let (lasts, most) = (lasts.as_secs(), self.duration.as_secs());
                return Err((Refusal::Duration, format!("a flow of {lasts} s; at most {most} s here")));
            }
        }
        if rolling && received_here && rate > self.rolling_packets_per_second {
            let most = self.rolling_packets_per_second;
            return Err((
                Refusal::Rate,
                format!("{rate} packets/s whose samples go back at once; at most {most} here"),
            ));
        }
        if received_here && !rolling && packets.is_none_or(|packets| packets > self.kept_packets) {
            let most = self.kept_packets;
            let sentence = format!(
                "more packets than the sample limit of {most} here; send fewer, or run a rolling test"
            );
            return Err((Refusal::Count, sentence));
        }
        Ok(())
    }

    pub(super) fn admit_rate(&self, rate: u64, packet_bytes: u32) -> Result<(), No> {
        if rate > self.packets_per_second {
            let most = self.packets_per_second;
            return Err((Refusal::Rate, format!("{rate} packets/s; at most {most} here")));
        }
        let bits = rate.saturating_mul(u64::from(packet_bytes) * 8);
        if bits > self.bits_per_second {
            let most = self.bits_per_second;
            return Err((Refusal::Rate, format!("{bits} bit/s; at most {most} here")));
        }
        Ok(())
    }

    /// Rows that a receiver keeps of a flow of so many packets: copies and packets that are none count as well.
    pub(crate) fn most_rows(&self, packets: Option<u64>) -> usize {
        let most = packets.unwrap_or(u64::MAX).min(self.kept_packets);
        usize::try_from(most).unwrap_or(usize::MAX).saturating_add(self.most_copies(packets))
    }

    /// Of these, copies and packets that are none. A path may make any number of them.
    pub(crate) fn most_copies(&self, packets: Option<u64>) -> usize {
        let most = packets.unwrap_or(u64::MAX).min(self.kept_packets);
        usize::try_from((most / 4).saturating_add(1_000)).unwrap_or(usize::MAX)
    }

    /// What a flow needs while it runs.
    pub(super) fn demand(&self, asked: &FlowRequest<'_>) -> Demand {
        let rows = match (asked.rolling, self.most_rows(asked.packets) as u64) {
            (true, _) => 0,
            (false, rows) if asked.received_here => rows,
            // Stamps of departure.
            (false, rows) => rows.min(MOST_STAMPS_KEPT as u64),
        };
        Demand::of(per_second(asked.schedule), asked.packet_bytes, rows)
    }

    /// The caps for a peer that speaks Jitlat as its document has it.
    pub(super) fn for_legacy(&self) -> Self {
        let legacy = &self.legacy;
        Self {
            packets_per_second: self.packets_per_second.min(legacy.packets_per_second),
            bits_per_second: self.bits_per_second.min(legacy.bits_per_second),
            duration: self.duration.min(legacy.duration),
            packet_bytes: self.packet_bytes.min(legacy.packet_bytes),
            ..self.clone()
        }
    }
}

/// Packets a second, rounded up; of a recording the most that are due in any second.
fn per_second(schedule: &FlowSchedule) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    match schedule {
        FlowSchedule::Recorded { offsets_ns } => {
            let mut first = 0;
            let within = offsets_ns.iter().enumerate().map(|(last, due_ns)| {
                while due_ns.saturating_sub(offsets_ns[first]) >= SECOND {
                    first += 1;
                }
                (last - first + 1) as u64
            });
            within.max().unwrap_or(0)
        }
        steady => SECOND.div_ceil(steady.mean_period_ns().max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(limits: &Limits, asked: &FlowRequest<'_>) -> Option<Refusal> {
        limits.admit(asked).err().map(|(refusal, sentence)| {
            assert!(sentence.contains("here"), "{sentence}");
            refusal
        })
    }

    #[test]
    fn each_cap_refuses_with_its_reason_and_nothing_below_it() {
        let limits = Limits {
            packets_per_second: 1_000,
            bits_per_second: 640_000,
            duration: Duration::from_secs(10),
            packet_bytes: 1_000,
            kept_packets: 9_000,
            rolling_packets_per_second: 500,
            ..Limits::default()
        };
        let every = FlowSchedule::every(1_000_000);
        let ok = FlowRequest {
            packet_bytes: 80,
            packets: Some(9_000),
            schedule: &every,
            rolling: false,
            received_here: true,
        };
        assert_eq!(refusal(&limits, &ok), None);
        assert_eq!(refusal(&limits, &FlowRequest { packet_bytes: 1_001, ..ok.clone() }), Some(Refusal::Size));
        assert_eq!(
            refusal(&limits, &FlowRequest { packet_bytes: 81, ..ok.clone() }),
            Some(Refusal::Rate),
            "bits"
        );
        let fast = FlowSchedule::every(999_000);
        assert_eq!(refusal(&limits, &FlowRequest { schedule: &fast, ..ok.clone() }), Some(Refusal::Rate));
        let more = Some(10_001);
        let down = FlowRequest { received_here: false, ..ok.clone() };
        assert_eq!(refusal(&limits, &FlowRequest { packets: more, ..down.clone() }), Some(Refusal::Duration));
        assert_eq!(refusal(&limits, &FlowRequest { packets: Some(10_000), ..down.clone() }), None);
        assert_eq!(
            refusal(&limits, &FlowRequest { packets: None, ..down }),
            None,
            "the server ends it in time"
        );
        assert_eq!(
            refusal(&limits, &FlowRequest { packets: Some(9_001), ..ok.clone() }),
            Some(Refusal::Count)
        );
        assert_eq!(refusal(&limits, &FlowRequest { packets: None, ..ok.clone() }), Some(Refusal::Count));
        assert_eq!(
            refusal(&limits, &FlowRequest { rolling: true, ..ok.clone() }),
            Some(Refusal::Rate),
            "rolling"
        );
        let slow = FlowSchedule::every(2_000_000);
        let rolling = FlowRequest { rolling: true, packets: None, schedule: &slow, ..ok };
        assert_eq!(refusal(&limits, &rolling), None);
    }

    #[test]
    fn a_recording_counts_by_its_busiest_second() {
        let recorded = |offsets: &[u64]| FlowSchedule::Recorded { offsets_ns: offsets.into() };
        assert_eq!(per_second(&recorded(&[0, 1, 2, 999_999_999, 1_000_000_000, 5_000_000_000])), 4);
        assert_eq!(per_second(&recorded(&[0, 1_000_000_000])), 1);
        assert_eq!(per_second(&FlowSchedule::every(3)), 333_333_334);
    }

    #[test]
    fn legacy_caps_come_on_top() {
        let limits = Limits { packets_per_second: 5, ..Limits::default() }.for_legacy();
        assert_eq!((limits.packets_per_second, limits.packet_bytes), (5, 1_472));
        assert_eq!(limits.bits_per_second, LegacyLimits::default().bits_per_second);
    }

    #[test]
    fn rows_are_kept_as_many_as_were_asked_for_and_some_copies() {
        let limits = Limits { kept_packets: 8_000, ..Limits::default() };
        assert_eq!(limits.most_rows(Some(100)), 1_125);
        assert_eq!(limits.most_rows(Some(1 << 40)), 11_000);
        assert_eq!(limits.most_rows(None), 11_000);
        assert_eq!(Limits { kept_packets: u64::MAX, ..limits }.most_rows(None), usize::MAX);
    }

    #[test]
    fn a_recording_at_the_end_of_time_is_counted_like_any_other() {
        let rate = |offsets: &[u64]| per_second(&FlowSchedule::Recorded { offsets_ns: offsets.into() });
        assert_eq!(rate(&[u64::MAX]), 1);
        assert_eq!(rate(&[0, u64::MAX - 1, u64::MAX]), 2);
        assert_eq!(rate(&[0, 999_999_999, 1_000_000_000]), 2);
    }
}
