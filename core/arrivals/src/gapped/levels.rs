//! Levels of a bucket: a stream that is far from its schedule has tens of thousands of them.

use std::collections::BTreeMap;

/// Most bins that are kept.
const MOST: usize = 256;

/// From level to how often it was so, in at most [`MOST`] bins: of more levels 2, 4, 8 … neighbours are one bin, under the least
/// of them.
pub(super) fn binned(mut bins: BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let mut width = 1;
    while bins.len() > MOST {
        width *= 2;
        let before = std::mem::take(&mut bins);
        for (level, count) in before {
            *bins.entry(level / width * width).or_default() += count;
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_levels_are_exact_and_many_keep_every_count() {
        let few: BTreeMap<u64, u64> = (0..256).map(|level| (level * 3, level + 1)).collect();
        assert_eq!(binned(few.clone()), few);
        let many: BTreeMap<u64, u64> = (0..1_025).map(|level| (level, level + 1)).collect();
        let bins = binned(many.clone());
        assert_eq!(bins.len(), 129);
        assert_eq!(bins.values().sum::<u64>(), many.values().sum::<u64>());
        assert_eq!((bins[&0], bins[&8], bins[&1_024]), (36, 100, 1_025));
    }
}
