//! Joining what the application, the kernel and our source recorded of each packet.
//!
//! Rows are the packets in the order in which the application received them. Stamps and sends are then streamed
//! past the rows, so that memory holds the finished table and little else.

use crate::media::MediaRows;
use quaver_abi::record::StampRecord;
use quaver_analysis::model::{Layer, LayerColumn, MISSING, NO_CPU, PacketTable, distance_ns};
use std::collections::HashMap;

/// A stamp may lie this much after the application's and still be the packet's: both conversions have an error.
pub(crate) const CLOCK_SLACK_NS: i64 = 20_000;
/// Rows with one sequence number that are looked at; no network makes more copies than this.
const COPIES: usize = 64;

/// The table of packets while it is made.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) seq: Vec<u64>,
    pub(crate) app_ns: Vec<i64>,
    app_cpu: Vec<u16>,
    stack_cpu: Vec<u16>,
    columns: [Option<Vec<i64>>; Layer::ALL.len()],
    pub(crate) stamped: Vec<bool>,
    /// RTP headers: a row each, or none at all.
    pub(crate) media: MediaRows,
}

impl Rows {
    /// Reserves room for so many rows, where the system has it.
    pub(crate) fn reserve(&mut self, rows: usize) {
        let rows = rows.min(1 << 28);
        // Without the room the vectors grow as they are filled.
        let _ = self.seq.try_reserve_exact(rows);
        let _ = self.app_ns.try_reserve_exact(rows);
        let _ = self.app_cpu.try_reserve_exact(rows);
        let _ = self.stack_cpu.try_reserve_exact(rows);
        let _ = self.stamped.try_reserve_exact(rows);
    }

    pub(crate) fn len(&self) -> usize {
        self.seq.len()
    }

    /// Adds a row; its number.
    pub(crate) fn push(&mut self, seq: u64, app_ns: i64, cpu: u16) -> usize {
        self.seq.push(seq);
        self.app_ns.push(app_ns);
        self.app_cpu.push(cpu);
        self.stack_cpu.push(NO_CPU);
        self.stamped.push(false);
        self.seq.len() - 1
    }

    /// Sets a layer's stamp of a row; a time of 0 or less is missing.
    pub(crate) fn set(&mut self, row: usize, layer: Layer, ns: i64) {
        if ns <= 0 {
            return;
        }
        let (rows, capacity) = (self.seq.len(), self.seq.capacity());
        let column = self.columns[layer as usize].get_or_insert_with(|| {
            let mut column = Vec::new();
            let _ = column.try_reserve_exact(capacity);
            column
        });
        if column.len() < rows {
            column.resize(rows, MISSING);
        }
        column[row] = distance_ns(self.app_ns[row], ns);
    }

    pub(crate) fn get(&self, row: usize, layer: Layer) -> Option<i64> {
        let before = *self.columns[layer as usize].as_ref()?.get(row)?;
        (before != MISSING).then(|| self.app_ns[row].saturating_sub(before))
    }

    /// Enters a kernel stamp into its row.
    pub(crate) fn stamp(&mut self, row: usize, stamp: &StampRecord) {
        for (layer, ns) in kernel_layers(stamp) {
            self.set(row, layer, ns);
        }
        self.stack_cpu[row] = stamp.cpu;
        self.stamped[row] = true;
    }

    /// Puts rows in the order of their application stamps; equal ones stay as they were.
    pub(crate) fn sort_by_app(&mut self) {
        if self.app_ns.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..self.seq.len() as u32).collect();
        order.sort_by_key(|row| self.app_ns[*row as usize]);
        reorder(&mut self.seq, &order);
        reorder(&mut self.app_ns, &order);
        reorder(&mut self.app_cpu, &order);
        reorder(&mut self.stack_cpu, &order);
        reorder(&mut self.stamped, &order);
        if self.media.len() == order.len() {
            reorder(&mut self.media, &order);
        }
        let rows = order.len();
        for column in self.columns.iter_mut().flatten() {
            column.resize(rows, MISSING);
            reorder(column, &order);
        }
    }

    pub(crate) fn finish(self) -> PacketTable {
        let rows = self.seq.len();
        let columns = Layer::ALL.into_iter().zip(self.columns);
        let layers = columns.filter_map(|(layer, column)| {
            let mut before_app_ns = column?;
            before_app_ns.resize(rows, MISSING);
            before_app_ns.iter().any(|ns| *ns != MISSING).then_some(LayerColumn { layer, before_app_ns })
        });
        PacketTable {
            layers: layers.collect(),
            seq: self.seq,
            app_ns: self.app_ns,
            app_cpu: self.app_cpu,
            stack_cpu: self.stack_cpu,
        }
    }
}

fn reorder<T: Copy>(values: &mut Vec<T>, order: &[u32]) {
    *values = order.iter().map(|row| values[*row as usize]).collect();
}

/// The stamps of a record by layer; 0 is missing.
pub(crate) fn kernel_layers(stamp: &StampRecord) -> [(Layer, i64); 5] {
    let ns = |raw: u64| i64::try_from(raw).unwrap_or(0);
    [
        (Layer::Interrupt, ns(stamp.irq_ns)),
        (Layer::Softirq, ns(stamp.softirq_ns)),
        (Layer::Receive, ns(stamp.receive_ns)),
        (Layer::Enqueued, ns(stamp.enqueued_ns)),
        (Layer::Ready, ns(stamp.ready_ns)),
    ]
}

/// When the kernel last had the packet before the application could: entry into the stack or the socket. (The
/// wake-up is left out: one wake-up may serve many packets.)
pub(crate) fn kernel_ns(stamp: &StampRecord) -> i64 {
    [stamp.receive_ns, stamp.enqueued_ns]
        .into_iter()
        .map(|raw| i64::try_from(raw).unwrap_or(0))
        .max()
        .unwrap_or(0)
}

/// The number nearest to `reference` whose low 16 bits are `key`: RTP sequence numbers extended over wraps.
pub(crate) fn extend(reference: u64, key: u64) -> u64 {
    let distance = (key as u16).wrapping_sub(reference as u16).cast_signed();
    reference.saturating_add_signed(i64::from(distance))
}

/// Extends the 16-bit keys of packets in the order in which they came; starts one wrap above zero, so that
/// packets that overtook the first one have room below it.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    highest: Option<u64>,
}

impl Extender {
    pub(crate) fn next(&mut self, key: u64) -> u64 {
        let highest = *self.highest.get_or_insert(0x1_0000 + (key & 0xffff));
        let extended = extend(highest, key);
        self.highest = Some(highest.max(extended));
        extended
    }
}

/// An [`Extender`] for each source of RTP: the numbers of one say nothing of another's.
#[derive(Debug, Default)]
pub(crate) struct Extenders {
    sources: HashMap<Option<u32>, Extender>,
}

impl Extenders {
    pub(crate) fn next(&mut self, source: Option<u32>, key: u64) -> u64 {
        self.sources.entry(source).or_default().next(key)
    }
}

/// Finds rows by sequence number; quick where the numbers asked for ascend as the rows do.
#[derive(Debug)]
pub(crate) struct SeqIndex {
    /// Rows by (sequence number, row).
    order: Vec<u32>,
    hint: usize,
}

impl SeqIndex {
    pub(crate) fn new(seq: &[u64]) -> Self {
        let mut order: Vec<u32> = (0..u32::try_from(seq.len()).unwrap_or(u32::MAX)).collect();
        if !seq.is_sorted() {
            order.sort_by_key(|row| seq[*row as usize]);
        }
        Self { order, hint: 0 }
    }

    /// Rows with sequence number `wanted`, in the order in which they were received.
    pub(crate) fn rows<'a>(&'a mut self, seq: &'a [u64], wanted: u64) -> impl Iterator<Item = usize> + 'a {
        let at = |place: usize| self.order.get(place).map(|row| seq[*row as usize]);
        let near = (self.hint..self.hint + 8).find(|place| at(*place) == Some(wanted));
        let starts = |place: usize| place == 0 || at(place - 1) != Some(wanted);
        let first = near
            .filter(|place| starts(*place))
            .unwrap_or_else(|| self.order.partition_point(|row| seq[*row as usize] < wanted));
        if at(first) == Some(wanted) {
            self.hint = first;
        }
        let order = &self.order;
        let found = order.get(first..).unwrap_or_default().iter().take(COPIES).map(|row| *row as usize);
        found.take_while(move |row| seq[*row] == wanted)
    }
}

/// Follows the rows along with stamps that come nearly in order of time.
#[derive(Debug, Default)]
pub(crate) struct TimeCursor {
    row: usize,
}

impl TimeCursor {
    /// The first row whose application stamp is not before `ns`, or the last row.
    pub(crate) fn seek(&mut self, app_ns: &[i64], ns: i64) -> usize {
        let last = app_ns.len().saturating_sub(1);
        let fits = |row: usize| app_ns[row] >= ns && (row == 0 || app_ns[row - 1] < ns);
        let near = (self.row..=last.min(self.row + 16)).find(|row| fits(*row));
        self.row = near.unwrap_or_else(|| app_ns.partition_point(|app| *app < ns)).min(last);
        self.row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_arrivals::rtp::RtpFields;

    #[test]
    fn keys_extend_over_wraps_and_reordering() {
        let mut extender = Extender::default();
        let keys = [65_534u64, 65_533, 65_535, 1, 0, 2];
        let extended: Vec<u64> = keys.iter().map(|k| extender.next(*k)).collect();
        assert_eq!(extended, [131_070, 131_069, 131_071, 131_073, 131_072, 131_074]);
        let mut extenders = Extenders::default();
        let of_two = [(1, 65_535), (2, 30_000), (1, 0), (2, 30_001)]
            .map(|(ssrc, key)| extenders.next(Some(ssrc), key));
        assert_eq!(of_two, [131_071, 95_536, 131_072, 95_537]);
        assert_eq!(extend(131_072, 65_535), 131_071);
        assert_eq!(extend(2, 65_535), 0, "held at zero");
    }

    #[test]
    fn index_finds_copies_in_order() {
        let seq = [5, 6, 9, 7, 6, 10];
        let mut index = SeqIndex::new(&seq);
        let mut find = |wanted| index.rows(&seq, wanted).collect::<Vec<_>>();
        assert_eq!(find(6), [1, 4]);
        assert_eq!(find(7), [3]);
        assert_eq!(find(8), [0; 0]);
        assert_eq!(find(6), [1, 4], "also backwards");
        assert_eq!(find(10), [5]);
    }

    #[test]
    fn cursor_goes_both_ways() {
        let app: Vec<i64> = (0..100).map(|k| k * 10).collect();
        let mut cursor = TimeCursor::default();
        assert_eq!(cursor.seek(&app, 11), 2);
        assert_eq!(cursor.seek(&app, 20), 2);
        assert_eq!(cursor.seek(&app, 900), 90);
        assert_eq!(cursor.seek(&app, -5), 0);
        assert_eq!(cursor.seek(&app, 5_000), 99);
    }

    #[test]
    fn rows_sort_with_all_that_belongs_to_them() {
        let mut rows = Rows::default();
        let media = |timestamp| RtpFields { timestamp, payload_bytes: 9, header: None };
        for (seq, app_ns, cpu) in [(1, 300, 11), (2, 100, 12), (3, 200, 13)] {
            let row = rows.push(seq, app_ns, cpu);
            rows.media.push(Some(media(seq as u32)));
            if seq != 3 {
                let receive_ns = (app_ns as u64) - seq;
                rows.stamp(row, &StampRecord { receive_ns, cpu: cpu + 10, ..StampRecord::default() });
            }
        }
        rows.sort_by_app();
        assert_eq!(rows.stamped, [true, false, true]);
        assert_eq!(rows.media, [2, 3, 1].map(|timestamp| Some(media(timestamp))));
        let table = rows.finish();
        assert_eq!((table.seq.as_slice(), table.app_ns.as_slice()), (&[2, 3, 1][..], &[100, 200, 300][..]));
        assert_eq!((table.app_cpu, table.stack_cpu), (vec![12, 13, 11], vec![22, NO_CPU, 21]));
        assert_eq!(table.layers.len(), 1);
        assert_eq!(table.layers[0].layer, Layer::Receive);
        assert_eq!(table.layers[0].before_app_ns, [2, MISSING, 1]);
    }

    #[test]
    fn a_stamp_of_zero_is_missing_and_columns_are_as_long_as_the_rows() {
        let mut rows = Rows::default();
        let first = rows.push(7, 1_000, 0);
        rows.set(first, Layer::Source, 0);
        rows.set(first, Layer::Source, -5);
        assert_eq!(rows.get(first, Layer::Source), None);
        rows.set(first, Layer::Schedule, 1);
        let second = rows.push(8, 2_000, 0);
        assert_eq!((rows.get(first, Layer::Schedule), rows.get(second, Layer::Schedule)), (Some(1), None));
        let layers = rows.finish().layers;
        assert_eq!(layers, [LayerColumn { layer: Layer::Schedule, before_app_ns: vec![999, MISSING] }]);
    }

    #[test]
    fn the_kernel_last_had_it_at_the_later_of_entry_and_socket() {
        let stamp = |receive_ns, enqueued_ns| StampRecord {
            irq_ns: 1,
            softirq_ns: 2,
            receive_ns,
            enqueued_ns,
            ready_ns: 99,
            ..StampRecord::default()
        };
        assert_eq!([stamp(3, 4), stamp(6, 5), stamp(0, 0)].map(|stamp| kernel_ns(&stamp)), [4, 6, 0]);
        let layers = [Layer::Interrupt, Layer::Softirq, Layer::Receive, Layer::Enqueued, Layer::Ready];
        let expected: Vec<_> = layers.into_iter().zip([1, 2, 3, 4, 99]).collect();
        assert_eq!(kernel_layers(&stamp(3, 4)).as_slice(), expected);
        assert_eq!(kernel_layers(&stamp(u64::MAX, 4))[2], (Layer::Receive, 0), "beyond 64 bits with sign");
    }
}
