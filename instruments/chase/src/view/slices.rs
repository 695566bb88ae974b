//! ΔT of a layer thinned for drawing: least and largest of each slice of time, and its distribution.

use quaver_analysis::model::{Layer, MISSING, PacketTable};
use quaver_instrument::bins::Bins;

/// Most numbers that the slices of all layers may have together. Packed, a page takes about two bytes for each.
const MOST_NUMBERS: usize = 200_000;

/// Most slices of a layer.
const MOST_SLICES: usize = 1 << 16;

/// Time cut into slices of equal length, common to all layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Start of the first slice, CLOCK_MONOTONIC.
    pub start_ns: i64,
    /// Count of slices.
    pub slices: usize,
    /// Length of a slice.
    pub slice_ns: f64,
}

impl Grid {
    /// A grid over the run: as fine as the space for it allows, and not much finer than the packets.
    pub(super) fn over(packets: &PacketTable) -> Self {
        let low = packets.app_ns.iter().copied().min().unwrap_or(0);
        let high = packets.app_ns.iter().copied().max().unwrap_or(0);
        let layers = packets.layers.len() + 1;
        let mut slices = MOST_SLICES;
        while slices > 1_024
            && (slices * 2 * layers > MOST_NUMBERS || slices >= packets.len().saturating_mul(8))
        {
            slices /= 2;
        }
        let span_ns = high.saturating_sub(low).max(1) as f64;
        Self { start_ns: low, slices, slice_ns: span_ns / slices as f64 }
    }

    /// The slice that holds an instant; instants outside are in the first or last.
    fn index(&self, instant_ns: i64) -> usize {
        let slice = instant_ns.saturating_sub(self.start_ns) as f64 / self.slice_ns;
        (slice.max(0.0) as usize).min(self.slices - 1)
    }
}

/// ΔT of one layer, thinned.
#[derive(Clone, Debug)]
pub(super) struct Thinned {
    /// Least ΔT of each slice, nanoseconds; not-a-number where it has none.
    pub least_ns: Vec<f64>,
    /// Largest ΔT of each slice, likewise.
    pub largest_ns: Vec<f64>,
    /// Every ΔT, counted. One of 0 or less is of packets stamped at one instant, or in another order than at the
    /// application.
    pub bins: Bins,
}

/// ΔT between rows `row - 1` and `row`, where the two are successive packets and both have a stamp.
pub(super) fn delta_t_ns(packets: &PacketTable, column: Option<&[i64]>, row: usize) -> Option<i64> {
    let before = row.checked_sub(1)?;
    if packets.seq[before].checked_add(1) != Some(packets.seq[row]) {
        return None;
    }
    Some(stamp_ns(packets, column, row)? - stamp_ns(packets, column, before)?)
}

fn stamp_ns(packets: &PacketTable, column: Option<&[i64]>, row: usize) -> Option<i64> {
    let app_ns = *packets.app_ns.get(row)?;
    match column {
        None => Some(app_ns),
        Some(column) => {
            let before = *column.get(row)?;
            (before != MISSING).then(|| app_ns - before)
        }
    }
}

/// The stamps of a layer; none stands for the application's own.
pub(super) fn column_of(packets: &PacketTable, layer: Layer) -> Option<&[i64]> {
    packets.column(layer).map(|column| column.before_app_ns.as_slice())
}

/// A duration as a drawing holds it: within 32 bits, so that its column takes 4 bytes each.
pub(super) fn drawn_ns(ns: i64) -> f64 {
    let most = i64::from(i32::MAX) - 1;
    ns.clamp(-most, most) as f64
}

/// Thins the ΔT of a layer over a grid, in one pass.
pub(super) fn thin(packets: &PacketTable, layer: Layer, grid: &Grid) -> Thinned {
    let column = column_of(packets, layer);
    let empty = vec![f64::NAN; grid.slices];
    let mut thinned = Thinned { least_ns: empty.clone(), largest_ns: empty, bins: Bins::default() };
    for row in 1..packets.len() {
        let Some(delta_ns) = delta_t_ns(packets, column, row) else { continue };
        let instant_ns = stamp_ns(packets, column, row).unwrap_or(grid.start_ns);
        let slice = grid.index(instant_ns);
        let kept = drawn_ns(delta_ns);
        // Of a number and not-a-number, these give the number.
        thinned.least_ns[slice] = thinned.least_ns[slice].min(kept);
        thinned.largest_ns[slice] = thinned.largest_ns[slice].max(kept);
        thinned.bins.count(delta_ns);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::model::LayerColumn;

    fn stream(count: usize, spike_at: usize) -> PacketTable {
        let app_ns: Vec<i64> = (0..count)
            .map(|n| 1_000_000 + 7_410 * n as i64 + if n >= spike_at { 99_000 } else { 0 })
            .collect();
        PacketTable {
            seq: (0..count as u64).collect(),
            app_ns,
            app_cpu: vec![0; count],
            stack_cpu: vec![0; count],
            layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns: vec![500; count] }],
        }
    }

    /// How many ΔT a layer has.
    fn count(packets: &PacketTable, layer: Layer) -> f64 {
        let bins = thin(packets, layer, &Grid::over(packets)).bins;
        let series = quaver_instrument::bins::binned(&[(String::new(), bins)], 1);
        series[0].counts.iter().sum()
    }

    #[test]
    fn a_spike_of_one_packet_survives_thinning() {
        let packets = stream(1_000_000, 777_777);
        let grid = Grid::over(&packets);
        let thinned = thin(&packets, Layer::Application, &grid);
        let slice = grid.index(packets.app_ns[777_777]);
        assert_eq!(thinned.largest_ns[slice], 106_410.0);
        assert_eq!(thinned.least_ns[slice], 7_410.0);
        assert_eq!(thinned.largest_ns.iter().filter(|ns| **ns > 7_410.0).count(), 1);
        assert_eq!(count(&packets, Layer::Application), 999_999.0);
    }

    #[test]
    fn pairs_with_a_loss_between_them_have_no_delta() {
        let mut packets = stream(10, 100);
        packets.seq[5..].iter_mut().for_each(|seq| *seq += 1);
        packets.layers[0].before_app_ns[8] = MISSING;
        assert_eq!(count(&packets, Layer::Application), 8.0);
        assert_eq!(count(&packets, Layer::Receive), 6.0);
    }

    #[test]
    fn simultaneous_stamps_are_counted_apart() {
        let mut packets = stream(4, 100);
        packets.app_ns[2] = packets.app_ns[1];
        let thinned = thin(&packets, Layer::Application, &Grid::over(&packets));
        assert_eq!(thinned.bins.not_positive, 1);
    }

    #[test]
    fn a_drawn_duration_fits_32_bits() {
        assert_eq!([i64::MIN, -5, i64::MAX].map(drawn_ns), [-2_147_483_646.0, -5.0, 2_147_483_646.0]);
    }

    #[test]
    fn slices_fit_the_space_whatever_the_run() {
        for (count, layers) in [(0, 1), (1, 9), (5_000_000, 9)] {
            let mut packets = stream(count, 0);
            let column = LayerColumn { layer: Layer::Receive, before_app_ns: Vec::new() };
            packets.layers = vec![column; layers];
            let grid = Grid::over(&packets);
            assert!(grid.slices * 2 * (layers + 1) <= MOST_NUMBERS);
            assert!(grid.index(i64::MAX) < grid.slices && grid.index(i64::MIN) == 0);
        }
    }
}
