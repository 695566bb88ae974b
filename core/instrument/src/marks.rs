//! What was late, as marks over time in the colours of its causes.

use quaver_analysis::summary::CauseSummary;
use quaver_view::{Colour, Data, Series};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most marks of a chart, for the size of the page.
pub const MOST_MARKS: usize = 5_000;

/// Causes with a colour of their own.
const COLOURS: usize = 8;

/// Which of `points`, instants with sizes, are drawn, in the order of time: all, or of too many the largest of each of
/// `most / 2` slices of time, and the largest of the others, so that the worst stretches are whole.
pub fn largest(points: &[(i64, i64)], most: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..points.len()).collect();
    if points.len() > most {
        let slices = (most / 2) as i128;
        let instants = || points.iter().map(|(at_ns, _)| *at_ns);
        let (start_ns, end_ns) = (instants().min().unwrap_or(0), instants().max().unwrap_or(0));
        let span_ns = i128::from(end_ns) - i128::from(start_ns) + 1;
        let slice = |number: usize| (i128::from(points[number].0) - i128::from(start_ns)) * slices / span_ns;
        // Stable: of equal ones the earlier comes first.
        chosen.sort_by_key(|number| Reverse(points[*number].1));
        let mut seen = BTreeSet::new();
        let (mut kept, others): (Vec<usize>, Vec<usize>) =
            chosen.into_iter().partition(|number| seen.insert(slice(*number)));
        let room = most - kept.len();
        kept.extend(others.into_iter().take(room));
        chosen = kept;
    }
    chosen.sort_by_key(|number| points[*number].0);
    chosen
}

/// A mark: place along, height (not-a-number where it has none), and the index of its leading cause (none: unexplained).
pub type Mark = (f64, f64, Option<u32>);

/// A series for each cause with a colour of its own, in rank order, one for all others, and one for the unexplained.
/// Marks ascend along the chart.
pub fn by_cause(marks: impl IntoIterator<Item = Mark>, causes: &[CauseSummary]) -> Vec<Series> {
    let mut by_rank: BTreeMap<usize, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (at, height, cause) in marks {
        let rank = cause.map_or(usize::MAX, |cause| (cause as usize).min(COLOURS));
        let (x, y) = by_rank.entry(rank).or_default();
        x.push(at);
        y.push(height);
    }
    let series = by_rank.into_iter().map(|(rank, (x, y))| {
        let known = causes.get(rank).filter(|_| rank < COLOURS);
        let (name, rank) = match rank {
            usize::MAX => ("unexplained", None),
            rank => (known.map_or("other causes", |cause| &cause.name), Some(rank)),
        };
        Series::new(name, Colour::of_cause(rank), Data::Points { x: x.into(), y: y.into() })
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_points_the_largest_of_each_slice_and_of_all_stay() {
        let mut points: Vec<(i64, i64)> = (0..1_000).map(|at| (100 * at, 10)).collect();
        points[770..774].iter_mut().for_each(|point| point.1 = 60);
        let chosen = largest(&points, 10);
        // Five slices of 200 points; then the other three of the burst, and the earliest of equal ones.
        assert_eq!(chosen, [0, 1, 2, 200, 400, 770, 771, 772, 773, 800]);
        assert_eq!(largest(&points, 1_000).len(), 1_000);
        assert_eq!(largest(&[(i64::MIN, 1), (i64::MAX, 1), (0, 2)], 2), [0, 2]);
    }

    #[test]
    fn points_are_drawn_in_the_order_of_time() {
        assert_eq!(largest(&[(9, 1), (3, 1), (5, 1)], 3), [1, 2, 0]);
    }

    #[test]
    fn the_unexplained_come_last_and_causes_without_a_colour_together() {
        let marks =
            [(1.0, 10.0, None), (2.0, 20.0, Some(99)), (3.0, 30.0, Some(8)), (4.0, f64::NAN, Some(2))];
        let series = by_cause(marks, &[]);
        let names: Vec<(&str, Colour)> = series.iter().map(|one| (one.name.as_str(), one.colour)).collect();
        let wanted = [("other causes", Some(2)), ("other causes", Some(8)), ("unexplained", None)];
        assert_eq!(names, wanted.map(|(name, rank)| (name, Colour::of_cause(rank))));
        let Data::Points { x, .. } = &series[1].data else { panic!("{series:?}") };
        assert_eq!(x.to_vec(), [2.0, 3.0]);
    }
}
