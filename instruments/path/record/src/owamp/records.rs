//! The records of a received session: what Fetch-Session gives, and what a client makes of them.

use super::schedule::Offsets;
use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, FLAG_INVALID, Singleton};
use quaver_abi::wire::owamp::{PacketRecord, SkipRange, TTL_UNKNOWN};
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_path_flow::{Received, StampSource};
use std::ops::RangeInclusive;

/// A bit for each number of a session.
pub(super) struct Numbers(Vec<u64>);

impl Numbers {
    /// For numbers below `end`.
    pub(super) fn below(end: u32) -> Self {
        Self(vec![0; end as usize / 64 + 1])
    }

    /// Adds a number; whether it was not there yet. Numbers from the end on are never added.
    pub(super) fn add(&mut self, number: u32) -> bool {
        let bit = 1 << (number % 64);
        self.0.get_mut(number as usize / 64).is_some_and(|word| {
            let new = *word & bit == 0;
            *word |= bit;
            new
        })
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

/// What is known of a session that was received here.
pub(super) struct Session<'a> {
    pub(super) rows: &'a [Received],
    pub(super) skips: &'a [SkipRange],
    /// Number of the packet that would have been next.
    pub(super) next_seqno: u32,
    /// Start of the session as it was asked for, UTC nanoseconds.
    pub(super) start_ns: i64,
    pub(super) offsets: Offsets,
    /// Of the sender's stamps and of ours.
    pub(super) errors: (u16, u16),
}

impl Session<'_> {
    /// Gives the records with these numbers in order of arrival, and each lost packet before the first one that
    /// followed it: with the time at which it was due, and no time of arrival.
    pub(super) fn each(&self, wanted: &RangeInclusive<u32>, give: &mut dyn FnMut(PacketRecord)) {
        let mut known = Numbers::below(self.next_seqno);
        let rows = || self.rows.iter().filter(|row| row.singleton.flags & FLAG_INVALID == 0);
        rows().for_each(|row| {
            known.add(row.singleton.tx_seq.cast_unsigned());
        });
        for skip in self.skips {
            let last = skip.last.get().min(self.next_seqno);
            (skip.first.get()..=last).for_each(|number| {
                known.add(number);
            });
        }
        let mut offsets = self.offsets.clone();
        let mut next = 0;
        let mut lost = |end: u32, give: &mut dyn FnMut(PacketRecord)| {
            while next < end {
                let offset_ns = super::link::interval_ns(offsets.next().unwrap_or(u64::MAX));
                if !known.has(next) && wanted.contains(&next) {
                    give(self.record(next, self.start_ns.saturating_add_unsigned(offset_ns), None));
                }
                next += 1;
            }
        };
        for row in rows() {
            let Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns, .. } = row.singleton;
            let number = tx_seq.cast_unsigned();
            if number >= self.next_seqno {
                continue;
            }
            lost(number, give);
            if wanted.contains(&number) {
                give(self.record(number, tx_real_time_ns, Some(rx_real_time_ns)));
            }
        }
        lost(self.next_seqno, give);
    }

    fn record(&self, number: u32, sent_ns: i64, received_ns: Option<i64>) -> PacketRecord {
        let encode = |ns| TimestampFormat::Ntp.encode(ns).into();
        // A lost packet's time is a guess, which says so.
        let unsure =
            ErrorEstimate { synchronized: false, format: TimestampFormat::Ntp, scale: 63, multiplier: 1 };
        PacketRecord {
            sequence: number.into(),
            send_error: received_ns.map_or(unsure.to_bits(), |_| self.errors.0).into(),
            receive_error: self.errors.1.into(),
            sent: encode(sent_ns),
            received: received_ns.map_or(0.into(), encode),
            ttl: TTL_UNKNOWN,
        }
    }
}

/// The packet of a record, near a time; none if it was lost.
pub(super) fn received(record: &PacketRecord, near_ns: i64, known: &mut Numbers) -> Option<Received> {
    let decode = |stamp: u64, error: u16| ErrorEstimate::from_bits(error).format.decode(stamp, near_ns);
    let number = record.sequence.get();
    (record.received != 0).then(|| Received {
        singleton: Singleton {
            tx_real_time_ns: decode(record.sent.get(), record.send_error.get()),
            tx_seq: number.cast_signed(),
            rx_real_time_ns: decode(record.received.get(), record.receive_error.get()),
            flags: if known.add(number) { 0 } else { FLAG_DUPLICATE },
        },
        // Who stamps at the server it does not say.
        stamped_by: StampSource::Application,
        of_train: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::wire::owamp::{Slot, slot};
    use zerocopy::FromZeros;

    fn row(number: i32, flags: i32) -> Received {
        let sent_ns = 1_700_000_000_000_000_000 + i64::from(number) * 1_000;
        let singleton =
            Singleton { tx_real_time_ns: sent_ns, tx_seq: number, rx_real_time_ns: sent_ns + 7, flags };
        Received { singleton, stamped_by: StampSource::Kernel, of_train: false }
    }

    fn told(rows: &[Received], skips: &[SkipRange], next_seqno: u32) -> Vec<(u32, bool)> {
        let mut every = Slot::new_zeroed();
        (every.kind, every.parameter) = (slot::LITERAL, 4_295.into());
        let offsets = Offsets::new(&[every], &[0; 16]).unwrap();
        let session = Session { rows, skips, next_seqno, start_ns: 0, offsets, errors: (1, 2) };
        let mut records = Vec::new();
        session.each(&(0..=u32::MAX), &mut |record| records.push(record));
        records.iter().map(|record| (record.sequence.get(), record.received != 0)).collect()
    }

    #[test]
    fn a_lost_packet_is_told_before_the_first_that_followed_it() {
        let rows = [row(0, 0), row(3, 0), row(2, 0), row(2, FLAG_DUPLICATE), row(6, FLAG_INVALID), row(5, 0)];
        let skipped = SkipRange { first: 7.into(), last: 8.into() };
        let found = told(&rows, &[skipped], 10);
        let expected = [
            (0, true),
            (1, false),
            (3, true),
            (2, true),
            (2, true),
            (4, false),
            (5, true),
            (6, false),
            (9, false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_and_ranges_beyond_the_end_change_nothing() {
        let skips = [SkipRange { first: 1.into(), last: u32::MAX.into() }];
        assert_eq!(told(&[row(0, 0), row(-2, 0)], &skips, 3), [(0, true)]);
        assert!(told(&[], &[], 0).is_empty());
    }
}
