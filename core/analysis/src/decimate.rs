//! Thinning of points for plots: by least and largest of each bucket, so that no spike is ever dropped.

/// What remains of the points of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Where the smallest value stands (the first of equals).
    pub min_x: i64,
    /// Smallest value.
    pub min_y: i64,
    /// Where the largest value stands (the first of equals).
    pub max_x: i64,
    /// Largest value.
    pub max_y: i64,
    /// Points in the bucket.
    pub count: u64,
}

impl Bucket {
    fn of(x: i64, y: i64) -> Self {
        Self { min_x: x, min_y: y, max_x: x, max_y: y, count: 1 }
    }

    fn merge(&mut self, other: &Self) {
        if other.min_y < self.min_y {
            (self.min_x, self.min_y) = (other.min_x, other.min_y);
        }
        if other.max_y > self.max_y {
            (self.max_x, self.max_y) = (other.max_x, other.max_y);
        }
        self.count += other.count;
    }
}

/// Cuts the range of `x` into `buckets` equal parts and keeps the extremes of each; empty parts are left out.
/// Points may come in any order; surplus entries of the longer slice are ignored.
pub fn min_max(x: &[i64], y: &[i64], buckets: usize) -> Vec<Bucket> {
    min_max_of(|| x.iter().copied().zip(y.iter().copied()), buckets)
}

/// As [`min_max`], over points that are computed twice instead of stored.
pub fn min_max_of<I: Iterator<Item = (i64, i64)>>(points: impl Fn() -> I, buckets: usize) -> Vec<Bucket> {
    let range = points().fold(None, |range: Option<(i64, i64)>, (x, _)| {
        Some(range.map_or((x, x), |(low, high)| (low.min(x), high.max(x))))
    });
    let Some((low, high)) = range else { return Vec::new() };
    if buckets == 0 {
        return Vec::new();
    }
    let width = (i128::from(high) - i128::from(low)) as u128 + 1;
    let mut kept: Vec<Option<Bucket>> = vec![None; buckets];
    for (x, y) in points() {
        let distance = (i128::from(x) - i128::from(low)) as u128;
        let index = (distance * buckets as u128 / width) as usize;
        match &mut kept[index] {
            Some(bucket) => bucket.merge(&Bucket::of(x, y)),
            empty => *empty = Some(Bucket::of(x, y)),
        }
    }
    kept.into_iter().flatten().collect()
}

/// Levels of detail: the first has at most `finest` buckets, each next one joins neighbours in pairs, the last
/// has one.
pub fn pyramid(x: &[i64], y: &[i64], finest: usize) -> Vec<Vec<Bucket>> {
    let mut levels = vec![min_max(x, y, finest)];
    while let Some(last) = levels.last() {
        if last.len() <= 1 {
            break;
        }
        let coarser = last
            .chunks(2)
            .map(|pair| {
                let mut joined = pair[0];
                pair[1..].iter().for_each(|bucket| joined.merge(bucket));
                joined
            })
            .collect();
        levels.push(coarser);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spike_survives() {
        let x: Vec<i64> = (0..1_000_000).collect();
        let mut y = vec![7; x.len()];
        y[123_456] = 1_000_000;
        y[654_321] = -3;
        let thin = min_max(&x, &y, 100);
        assert_eq!(thin.len(), 100);
        assert_eq!((thin[12].max_x, thin[12].max_y), (123_456, 1_000_000));
        assert_eq!((thin[65].min_x, thin[65].min_y), (654_321, -3));
        let top = pyramid(&x, &y, 100);
        let peak = top.last().expect("has a level")[0];
        assert_eq!((peak.max_x, peak.min_x, peak.count), (123_456, 654_321, 1_000_000));
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(min_max(&[], &[], 10).is_empty());
        assert!(min_max(&[1], &[1], 0).is_empty());
        assert_eq!(pyramid(&[], &[], 4), vec![Vec::new()]);
    }

    proptest! {
        #[test]
        fn extremes_of_every_bucket_survive(
            points in prop::collection::vec((any::<i64>(), any::<i64>()), 1..200),
            buckets in 1usize..50,
        ) {
            let (x, y): (Vec<i64>, Vec<i64>) = points.iter().copied().unzip();
            let thin = min_max(&x, &y, buckets);
            prop_assert!(thin.len() <= buckets);
            prop_assert_eq!(thin.iter().map(|b| b.count).sum::<u64>(), points.len() as u64);
            prop_assert_eq!(thin.iter().map(|b| b.min_y).min(), y.iter().copied().min());
            prop_assert_eq!(thin.iter().map(|b| b.max_y).max(), y.iter().copied().max());
            let low = i128::from(*x.iter().min().expect("not empty"));
            let width = i128::from(*x.iter().max().expect("not empty")) - low + 1;
            let index = |x: i64| (i128::from(x) - low) as u128 * buckets as u128 / width as u128;
            for bucket in &thin {
                let inside: Vec<_> =
                    points.iter().filter(|p| index(p.0) == index(bucket.min_x)).collect();
                prop_assert_eq!(inside.len() as u64, bucket.count);
                prop_assert_eq!(inside.iter().map(|p| p.1).min(), Some(bucket.min_y));
                prop_assert_eq!(inside.iter().map(|p| p.1).max(), Some(bucket.max_y));
                prop_assert!(points.contains(&(bucket.min_x, bucket.min_y)));
                prop_assert!(points.contains(&(bucket.max_x, bucket.max_y)));
            }
        }
    }
}
