//! Pages of the ring buffer, decoded: a pure function from bytes to records.
//!
//! A page is a header ([`PageLayout`]) and records, each behind a 32-bit word: `type_len` in its low 5 bits,
//! the time since the record before in the upper 27 (`events/header_event`;
//! include/linux/ring_buffer.h, `enum ring_buffer_type`).
//!
//! ```text
//!  type_len  meaning       words after the header word
//!  0         data          length in bytes (itself included), then the record
//!  1..=28    data          type_len words of record
//!  29        padding       delta 0: the page ends here; else length of a discarded record
//!  30        time extend   upper bits of the delta (27 and up)
//!  31        time stamp    upper bits of an absolute time of 59 bits
//! ```

use super::format::PageLayout;

/// One record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent<'p> {
    /// In ticks of the trace clock.
    pub timestamp: u64,
    /// `common_type`.
    pub id: u16,
    /// The whole record, common fields included.
    pub record: &'p [u8],
}

/// What the kernel lost just before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing.
    Nothing,
    /// So many records.
    Counted(u64),
    /// Some; the page had no room for the count.
    Uncounted,
}

/// Why a page cannot be decoded (further).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Fewer bytes than the page's header, or a commit count past the page's end.
    #[error("trace page: {found} bytes where {needed} are needed; the records before were kept")]
    Short {
        /// Bytes needed.
        needed: usize,
        /// Bytes present.
        found: usize,
    },
    /// A record runs past the committed part.
    #[error("trace page: the record at byte {offset} runs past the page; the records before were kept")]
    Overrun {
        /// Where the record begins.
        offset: usize,
    },
}

/// The page was preceded by lost records.
const MISSED_EVENTS: u64 = 1 << 31;
/// Their number follows the last record.
const MISSED_STORED: u64 = 1 << 30;
/// Bytes of records; what is above are flags.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// A TIME_STAMP record carries this many bits; the rest come from the time before.
const STAMP_BITS: u32 = 59;

/// Calls `emit` for every record of `page`, in order, and says what was lost before them.
pub fn decode<'p>(
    page: &'p [u8],
    layout: &PageLayout,
    mut emit: impl FnMut(PageEvent<'p>),
) -> Result<Lost, PageError> {
    let short = |needed| PageError::Short { needed, found: page.len() };
    let mut timestamp = word64(page, 0).ok_or(short(layout.data_offset))?;
    let commit = match layout.commit_size {
        4 => word32(page, layout.commit_offset).map(u64::from),
        _ => word64(page, layout.commit_offset),
    }
    .ok_or(short(layout.data_offset))?;
    let used = (commit & COMMIT_MASK) as usize;
    let data = page.get(layout.data_offset..).ok_or(short(layout.data_offset))?;
    let records = data.get(..used).ok_or(short(layout.data_offset + used))?;
    let lost = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
        (false, _) => Lost::Nothing,
        (true, false) => Lost::Uncounted,
        (true, true) => word64(data, used).map_or(Lost::Uncounted, Lost::Counted),
    };
    let mut offset = 0;
    while offset < used {
        let overrun = PageError::Overrun { offset: layout.data_offset + offset };
        let head = word32(records, offset).ok_or(overrun)?;
        let (type_len, delta) = (head & 31, u64::from(head >> 5));
        // The word after the header word; all but the shortest data records and the end of the page have one.
        let next = word32(records, offset + 4);
        let length = match type_len {
            29 if delta == 0 => break,
            29 => {
                // A discarded record still took its time, unless its delta was only made non-zero.
                timestamp = timestamp.wrapping_add(if delta == 1 { 0 } else { delta });
                next.ok_or(overrun)? as usize
            }
            30 => {
                timestamp = timestamp.wrapping_add((u64::from(next.ok_or(overrun)?) << 27) + delta);
                4
            }
            31 => {
                timestamp = absolute((u64::from(next.ok_or(overrun)?) << 27) + delta, timestamp);
                4
            }
            _ => {
                timestamp = timestamp.wrapping_add(delta);
                let (from, length) = match type_len {
                    0 => (offset + 8, next.ok_or(overrun)? as usize),
                    words => (offset + 4, words as usize * 4),
                };
                let record = records.get(from..offset + 4 + length).ok_or(overrun)?;
                let id =
                    u16::from_le_bytes([*record.first().ok_or(overrun)?, *record.get(1).ok_or(overrun)?]);
                emit(PageEvent { timestamp, id, record });
                length
            }
        };
        offset += 4 + length.next_multiple_of(4);
    }
    Ok(lost)
}

/// Time of a TIME_STAMP record, whose upper five bits are those of the time before it.
fn absolute(stamp: u64, before: u64) -> u64 {
    let upper = before >> STAMP_BITS << STAMP_BITS;
    let time = stamp | upper;
    if upper != 0 && time < before { time.wrapping_add(1 << STAMP_BITS) } else { time }
}

fn word32(octets: &[u8], offset: usize) -> Option<u32> {
    octets.get(offset..offset.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

fn word64(octets: &[u8], offset: usize) -> Option<u64> {
    octets.get(offset..offset.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { commit_offset: 8, commit_size: 8, data_offset: 16, size: 128 };

    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(LAYOUT.size, 0);
        page
    }

    /// Time, event number and length of a record.
    type Row = (u64, u16, usize);

    fn decoded(page: &[u8]) -> (Vec<Row>, Result<Lost, PageError>) {
        let mut events = Vec::new();
        let lost = decode(page, &LAYOUT, |e| events.push((e.timestamp, e.id, e.record.len())));
        (events, lost)
    }

    #[test]
    fn short_and_long_records() {
        let (events, lost) = decoded(&page(1_000, 0, &[2 | 5 << 5, 7, 0, 7 << 5, 12, 8, 0, 1 | 1 << 5, 9]));
        assert_eq!(events, [(1_005, 7, 8), (1_012, 8, 8), (1_013, 9, 4)]);
        assert_eq!(lost, Ok(Lost::Nothing));
    }

    #[test]
    fn time_extend_and_absolute_stamp() {
        let (events, _) = decoded(&page(10, 0, &[30 | 3 << 5, 2, 1 | 1 << 5, 7, 31 | 5 << 5, 4, 1, 7]));
        let extended = 10 + (2 << 27) + 3 + 1;
        assert_eq!(events, [(extended, 7, 4), ((4 << 27) + 5, 7, 4)]);
    }

    #[test]
    fn absolute_stamp_keeps_the_upper_bits() {
        let upper = 3 << STAMP_BITS;
        assert_eq!(absolute(100, upper + 50), upper + 100);
        assert_eq!(absolute(40, upper + 50), upper + 40 + (1 << STAMP_BITS), "59 bits wrapped");
        assert_eq!(absolute(40, 50), 40, "small times may step back");
    }

    #[test]
    fn padding_is_skipped_and_ends_the_page() {
        let discarded = [29 | 6 << 5, 8, 0, 1 | 1 << 5, 7];
        assert_eq!(decoded(&page(0, 0, &discarded)).0, [(7, 7, 4)], "its time counts");
        let forced = [29 | 1 << 5, 8, 0, 1 | 1 << 5, 7];
        assert_eq!(decoded(&page(0, 0, &forced)).0, [(1, 7, 4)], "a delta of 1 was none");
        assert_eq!(decoded(&page(0, 0, &[1, 7, 29, 1, 7])).0, [(0, 7, 4)]);
    }

    #[test]
    fn losses_are_told() {
        assert_eq!(decoded(&page(0, MISSED_EVENTS, &[1, 7])).1, Ok(Lost::Uncounted));
        let mut counted = page(0, MISSED_EVENTS | MISSED_STORED, &[1, 7]);
        counted[24..32].copy_from_slice(&42u64.to_le_bytes());
        assert_eq!(decoded(&counted).1, Ok(Lost::Counted(42)));
    }

    #[test]
    fn damaged_pages_are_refused_not_followed() {
        assert!(matches!(decoded(&[0; 12]).1, Err(PageError::Short { .. })));
        assert!(matches!(decoded(&page(0, 120, &[1, 7])).1, Err(PageError::Short { .. })));
        let (events, error) = decoded(&page(0, 0, &[1, 7, 28, 7]));
        assert_eq!(events.len(), 1);
        assert_eq!(error, Err(PageError::Overrun { offset: 24 }));
        assert!(decoded(&page(0, 0, &[0, 1, 7])).1.is_err(), "a length below its own word");
    }
}
