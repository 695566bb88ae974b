//! Drawings of a sweep: a figure over one axis as lines, over two as a map for each trace.

use super::Figure;
use crate::sweep::digest::{SeedSpread, SweepGroup, SweepSummary};
use quaver_view::{
    Axis, Chart, Colour, Data, Document, Group, Matrix, Numbers, Quantity, Section, Series, Xy,
};

/// Most values of an axis that are drawn as a map's rows or columns.
const MOST_CELLS: usize = 40;
/// Figures of traces whose means differ so many times are drawn on a logarithmic scale; further apart, the smaller is
/// next to nothing.
const FAR_APART: std::ops::Range<f64> = 10.0..10_000.0;

/// Adds the drawings, where there are one or two axes.
pub(super) fn add(
    document: &mut Document,
    summary: &SweepSummary,
    groups: &[SweepGroup<'_>],
    figures: &[Figure],
) {
    let charts = |one: &Figure| -> Vec<Chart> {
        match summary.axes.len() {
            1 => vec![lines(summary, groups, one)],
            2 => (0..summary.traces.len()).filter_map(|trace| map(summary, groups, one, trace)).collect(),
            _ => Vec::new(),
        }
    };
    let section = Section::new("figures", "Figures over the axes").link("Figures");
    document.section(match summary.axes.len() {
        0 => section.with("No axis varies, so there is no plot."),
        1 => section
            .note("Mean over seeds; band: min to max. Scales are logarithmic where traces differ widely.")
            .with(Group::beside(figures.iter().flat_map(charts))),
        2 => section
            .note("Mean over seeds; colours span each map's own min to max.")
            .with(Group::beside(figures.iter().flat_map(charts))),
        _ => section.with("Plots exist for one or two axes; this sweep has more."),
    });
}

/// Values of an axis in ascending order, each by its number in the plan, and the axis of a drawing with their places:
/// numbers lie where they belong, unless they are evenly spaced, by difference or ratio; then, and where they are
/// words, they stand side by side, each with its name.
fn places(summary: &SweepSummary, axis: usize) -> (Axis, Vec<(usize, f64)>) {
    let axis = &summary.axes[axis];
    let numbers: Option<Vec<f64>> = axis.values.iter().map(|label| label.number()).collect();
    let mut order: Vec<usize> = (0..axis.values.len()).collect();
    if let Some(numbers) = &numbers {
        order.sort_by(|one, other| numbers[*one].total_cmp(&numbers[*other]));
    }
    if let Some(numbers) = numbers {
        let sorted: Vec<f64> = order.iter().map(|at| numbers[*at]).collect();
        let even = |of: fn(f64, f64) -> f64| {
            let mut steps = sorted.windows(2).map(|two| of(two[0], two[1]));
            let first = steps.next().unwrap_or(0.0);
            steps.all(|step| (step - first).abs() <= 0.05 * first.abs())
        };
        let positive = sorted.first().is_some_and(|least| *least > 0.0);
        let spaced = even(|low, high| high - low) || positive && even(|low, high| (high / low).ln());
        if !spaced {
            let places = order.iter().map(|at| (*at, numbers[*at])).collect();
            return (Axis::linear(&axis.name, Quantity::Number), places);
        }
    }
    let names = order.iter().map(|at| axis.values[*at].to_string());
    (
        Axis::named(&axis.name, names),
        order.iter().enumerate().map(|(place, at)| (*at, place as f64)).collect(),
    )
}

fn id(figure: &Figure) -> String {
    figure.column.replace('_', "-")
}

/// A line a trace with a band from the smallest to the largest of the seeds.
fn lines(summary: &SweepSummary, groups: &[SweepGroup<'_>], figure: &Figure) -> Chart {
    let (x, places) = places(summary, 0);
    let found: Vec<(usize, usize, SeedSpread)> = groups
        .iter()
        .filter_map(|group| Some((group.trace, *group.values.first()?, figure.spread(group)?)))
        .collect();
    let means = || found.iter().map(|(.., spread)| spread.mean);
    let (low, high) = (means().fold(f64::INFINITY, f64::min), means().fold(0.0, f64::max));
    let far = low > 0.0 && FAR_APART.contains(&(high / low));
    let label = format!("{}: {}", figure.head, figure.meaning);
    let y = if far { Axis::log(label, figure.quantity) } else { Axis::linear(label, figure.quantity) };
    let mut plot = Xy::new(x, y);
    for (trace, name) in summary.traces.iter().enumerate() {
        let points: Vec<(f64, SeedSpread)> = places
            .iter()
            .filter_map(|(value, place)| {
                let mut own = found.iter().filter(|one| one.0 == trace && one.1 == *value);
                Some((*place, own.next()?.2))
            })
            .collect();
        if points.is_empty() {
            continue;
        }
        let of = |value: fn(&SeedSpread) -> f64| -> Numbers {
            points.iter().map(|(_, spread)| value(spread)).collect()
        };
        let data = Data::Spread {
            x: points.iter().map(|(place, _)| *place).collect(),
            y: of(|spread| spread.mean),
            low: of(|spread| spread.min),
            high: of(|spread| spread.max),
        };
        plot = plot.with(Series::new(name, Colour::Series(u8::try_from(trace).unwrap_or(u8::MAX)), data));
    }
    Chart::new(id(figure), format!("{} over {}", figure.head, summary.axes[0].name), plot)
}

fn map(summary: &SweepSummary, groups: &[SweepGroup<'_>], figure: &Figure, trace: usize) -> Option<Chart> {
    let [rows, columns] = summary.axes.as_slice() else { return None };
    if rows.values.len().max(columns.values.len()) > MOST_CELLS {
        return None;
    }
    let mut values = vec![f64::NAN; rows.values.len() * columns.values.len()];
    for group in groups.iter().filter(|group| group.trace == trace) {
        if let ([row, column], Some(spread)) = (group.values, figure.spread(group)) {
            values[row * columns.values.len() + column] = spread.mean;
        }
    }
    let plot = Matrix {
        row_label: rows.name.clone(),
        column_label: columns.name.clone(),
        rows: rows.values.iter().map(ToString::to_string).collect(),
        columns: columns.values.iter().map(ToString::to_string).collect(),
        quantity: figure.quantity,
        log: false,
        values: values.into(),
    };
    let title = format!("{}, {}", figure.head, summary.traces[trace]);
    Some(Chart::new(format!("{}-{trace}", id(figure)), title, plot).note(figure.meaning).still())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::digest::{Label, SweepAxis};
    use crate::sweep::view::tests::summary;

    fn drawn(values: Vec<Label>) -> (Axis, Vec<(usize, f64)>) {
        let mut summary = summary(1);
        summary.axes = vec![SweepAxis { name: "a".into(), values }];
        places(&summary, 0)
    }

    #[test]
    fn values_lie_by_their_size_or_side_by_side() {
        let (axis, found) = drawn([4, 0, 1].map(Label::Integer).to_vec());
        assert!(axis.names.is_empty());
        assert_eq!(found, [(1, 0.0), (2, 1.0), (0, 4.0)]);
        for (values, names) in [
            ([512, 128, 256].map(Label::Integer), ["128", "256", "512"]),
            ([3, 2, 1].map(Label::Integer), ["1", "2", "3"]),
            (["b", "a", "c"].map(|text| Label::Text(text.into())), ["b", "a", "c"]),
        ] {
            let (axis, found) = drawn(values.to_vec());
            assert_eq!(axis.names, names);
            assert_eq!(found.iter().map(|place| place.1).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
        }
        assert_eq!(drawn(vec![Label::Integer(7)]).1, [(0, 0.0)]);
    }

    #[test]
    fn figures_that_are_far_apart_have_a_logarithmic_scale() {
        let scale = |factor: f64| {
            let mut summary = summary(1);
            for row in &mut summary.points {
                let value = if row.trace == 0 { 1.0 } else { factor };
                row.figures.insert("cpi".to_owned(), value.into());
            }
            let groups = summary.groups();
            let figure = super::super::figures(&groups).into_iter().find(|one| one.column == "cpi").unwrap();
            let quaver_view::Plot::Xy(plot) = lines(&summary, &groups, &figure).plot else {
                panic!("no lines")
            };
            plot.y.log
        };
        assert_eq!([scale(100.0), scale(3.0), scale(0.0), scale(1e-9)], [true, false, false, false]);
    }
}
