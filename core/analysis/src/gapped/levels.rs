//! Levels of a bucket in files: a stream that is far from its schedule has tens of thousands of them.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Most bins that are written.
const MOST: usize = 256;

/// Writes from level to how often it was so. More than [`MOST`] levels are counted by 2, 4, 8 … neighbours together, under the
/// least level of each bin.
pub(super) fn serialize<S: Serializer>(
    levels: &BTreeMap<u64, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    binned(levels).serialize(serializer)
}

fn binned(levels: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let mut bins = levels.clone();
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
        assert_eq!(binned(&few), few);
        let many: BTreeMap<u64, u64> = (0..1_025).map(|level| (level, level + 1)).collect();
        let bins = binned(&many);
        assert_eq!(bins.len(), 129);
        assert_eq!(bins.values().sum::<u64>(), many.values().sum());
        assert_eq!((bins[&0], bins[&8], bins[&1_024]), (36, 100, 1_025));
    }
}
