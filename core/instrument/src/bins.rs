//! Durations counted in bins of equal ratio, for distributions.

use quaver_view::{Binned, Colour, Numbers};

/// Bins in each doubling: 1.1 % wide. Bin `i` starts at 2^(i / `PER_OCTAVE`) ns.
const PER_OCTAVE: f64 = 64.0;

/// Durations by bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    counts: Vec<u64>,
    /// Durations of 0 or less, which no logarithmic axis shows.
    pub not_positive: u64,
}

impl Bins {
    /// Counts a duration.
    pub fn count(&mut self, ns: i64) {
        if ns <= 0 {
            self.not_positive += 1;
            return;
        }
        let bin = ((ns as f64).log2() * PER_OCTAVE) as usize;
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
    }
}

impl FromIterator<i64> for Bins {
    fn from_iter<I: IntoIterator<Item = i64>>(durations: I) -> Self {
        let mut bins = Self::default();
        durations.into_iter().for_each(|ns| bins.count(ns));
        bins
    }
}

/// A series for each name, all with the same edges: those of the bins that any of them uses. `joined` neighbours are one
/// bin of the series, for histograms that should not be ragged.
pub fn binned(named: &[(String, Bins)], joined: usize) -> Vec<Binned> {
    let first = |bins: &Bins| bins.counts.iter().position(|count| *count > 0);
    let first = named.iter().filter_map(|(_, bins)| first(bins)).min().unwrap_or(0) / joined * joined;
    let end = named.iter().map(|(_, bins)| bins.counts.len()).max().unwrap_or(0).max(first + 1);
    let starts = || (first..end).step_by(joined);
    let edge = |bin: usize| 2_f64.powf(bin as f64 / PER_OCTAVE);
    let last = first + starts().count() * joined;
    let edges: Numbers = starts().chain([last]).map(edge).collect();
    let sum = |bins: &Bins, start: usize| {
        let counts = bins.counts.iter().skip(start).take(joined);
        counts.sum::<u64>() as f64
    };
    let series = named.iter().enumerate().map(|(place, (name, bins))| Binned {
        name: name.clone(),
        colour: Colour::Series(u8::try_from(place).unwrap_or(u8::MAX)),
        edges: edges.clone(),
        counts: starts().map(|start| sum(bins, start)).collect(),
        below: bins.not_positive as f64,
        above: 0.0,
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_common_to_all_series_and_count_every_duration() {
        let bins = |durations: &[i64]| durations.iter().copied().collect::<Bins>();
        let series =
            binned(&[("CPU 1".into(), bins(&[1_024, 1_024, 0])), ("CPU 3".into(), bins(&[2_048]))], 1);
        assert_eq!((series[0].name.as_str(), series[1].name.as_str()), ("CPU 1", "CPU 3"));
        assert_eq!((series[0].edges[0], series[0].edges[64]), (1_024.0, 2_048.0));
        assert_eq!(series[0].edges, series[1].edges);
        assert_eq!((series[0].counts.len(), series[0].counts[0], series[0].below), (65, 2.0, 1.0));
        assert_eq!((series[1].counts[64], series[1].below), (1.0, 0.0));
        assert_eq!(binned(&[(String::new(), Bins::default())], 1)[0].counts.to_vec(), [0.0]);
    }

    #[test]
    fn joined_bins_count_what_their_parts_do() {
        let bins: Bins = [1_024, 1_036, 1_047, 2_048].into_iter().collect();
        let series = binned(&[(String::new(), bins)], 4);
        let [first, .., last] = &series[0].counts[..] else { panic!("{series:?}") };
        assert_eq!((*first, *last, series[0].counts.len()), (3.0, 1.0, 17));
        assert_eq!((series[0].edges[0], series[0].edges[16]), (1_024.0, 2_048.0));
    }
}
