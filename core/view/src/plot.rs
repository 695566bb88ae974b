//! Drawings as data: what is drawn over which axes. How it looks belongs to the renderers.

use crate::axis::{Axis, Colour, Quantity};
use serde::Serialize;

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Plot {
    /// Series over two axes.
    Xy(Xy),
    /// How often each size occurred.
    Distribution(Distribution),
    /// Bars of categories.
    Bars(Bars),
    /// Values with their intervals, one below the other.
    Ranges(Ranges),
    /// A map of values by row and column.
    Matrix(Matrix),
    /// Lanes with intervals.
    Timeline(Timeline),
}

/// Series over two axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Xy {
    /// Along.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The series, the later ones on top.
    pub series: Vec<Series>,
    /// Dashed lines.
    pub guides: Vec<Guide>,
}

impl Xy {
    /// Nothing over these axes yet.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, ..Self::default() }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a line at a value of the y axis.
    #[must_use]
    pub fn guide_y(mut self, at: f64, label: impl Into<String>) -> Self {
        self.guides.push(Guide { at, label: label.into(), upright: false });
        self
    }

    /// Adds a line at a value of the x axis.
    #[must_use]
    pub fn guide_x(mut self, at: f64, label: impl Into<String>) -> Self {
        self.guides.push(Guide { at, label: label.into(), upright: true });
        self
    }
}

/// A dashed line across a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guide {
    /// Value.
    pub at: f64,
    /// What it is.
    pub label: String,
    /// At a value of the x axis.
    pub upright: bool,
}

/// Values over an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Colour.
    pub colour: Colour,
    /// Dashed.
    pub dashed: bool,
    /// The values.
    #[serde(flatten)]
    pub data: Data,
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, colour: Colour, data: Data) -> Self {
        Self { name: name.into(), colour, dashed: false, data }
    }

    /// Draws its line dashed.
    #[must_use]
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }
}

/// Values of a series; not-a-number is a gap.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "shape", rename_all = "lowercase")]
pub enum Data {
    /// Points joined by a line; x ascends.
    Line {
        /// Along.
        x: Numbers,
        /// Up.
        y: Numbers,
        /// Marks the points too.
        marks: bool,
    },
    /// A line with a band from `low` to `high` around it, with marks where there are few values; x ascends.
    Spread {
        /// Along.
        x: Numbers,
        /// The line.
        y: Numbers,
        /// Lower edges.
        low: Numbers,
        /// Upper edges.
        high: Numbers,
    },
    /// Least and largest value of each of many slices of equal width, so that no spike is lost at any zoom.
    Slices {
        /// Where the first slice starts.
        start: f64,
        /// Width of a slice.
        step: f64,
        /// Least value of each.
        low: Numbers,
        /// Largest value of each.
        high: Numbers,
    },
    /// A value that stays until the next.
    Steps {
        /// Along.
        x: Numbers,
        /// Up.
        y: Numbers,
    },
    /// Upright bars from the foot.
    Columns {
        /// Middle of each.
        x: Numbers,
        /// Height of each.
        y: Numbers,
        /// Width of each.
        width: f64,
    },
    /// Instants, as small lines at the foot of the drawing; x ascends.
    Rug {
        /// Along.
        x: Numbers,
    },
    /// Marks, each series with a shape of its own; x ascends.
    Points {
        /// Along.
        x: Numbers,
        /// Up.
        y: Numbers,
    },
}

impl Data {
    fn columns(&self) -> (&[f64], [&[f64]; 2]) {
        match self {
            Self::Line { x, y, .. }
            | Self::Steps { x, y }
            | Self::Columns { x, y, .. }
            | Self::Points { x, y } => (x, [y, y]),
            Self::Spread { x, low, high, .. } => (x, [low, high]),
            Self::Slices { low, high, .. } => (&[], [low, high]),
            Self::Rug { x } => (x, [&[], &[]]),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let (x, [y, _]) = self.columns();
        y.iter().all(|value| value.is_nan()) && !matches!(self, Self::Rug { .. } if !x.is_empty())
    }

    /// Values that the x axis must have room for.
    pub(crate) fn ends_x(&self) -> Vec<f64> {
        match self {
            Self::Slices { start, step, low, .. } => vec![*start, start + step * low.len() as f64],
            Self::Columns { x, width, .. } => {
                x.iter().flat_map(|x| [x - width / 2.0, x + width / 2.0]).collect()
            }
            _ => self.columns().0.to_vec(),
        }
    }

    /// Values that the y axis must have room for.
    pub(crate) fn ends_y(&self) -> impl Iterator<Item = f64> {
        self.columns().1.into_iter().flatten().copied()
    }
}

/// Numbers of a series, embedded compactly: as integers of 32 bits where all are such, and at full precision else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers(pub Vec<f64>);

impl<T: Into<f64>> FromIterator<T> for Numbers {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().map(Into::into).collect())
    }
}

impl From<Vec<f64>> for Numbers {
    fn from(values: Vec<f64>) -> Self {
        Self(values)
    }
}

impl std::ops::Deref for Numbers {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        &self.0
    }
}

/// How often each size occurred: histogram, tail and cumulative distribution of the same bins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// The sizes.
    pub x: Axis,
    /// What is counted: `packets`.
    pub of: String,
    /// What can be looked at, the first one first.
    pub views: Vec<DistributionView>,
    /// The series.
    pub series: Vec<Binned>,
    /// Dashed lines at values of the x axis.
    pub guides: Vec<Guide>,
}

/// A way to look at a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionView {
    /// Counts of the bins, logarithmic.
    Histogram,
    /// Share above each size, logarithmic (CCDF).
    Tail,
    /// Share up to each size (CDF).
    Cdf,
}

/// Counts in bins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binned {
    /// Name in the legend.
    pub name: String,
    /// Colour.
    pub colour: Colour,
    /// Edges of the bins, ascending: one more than counts.
    pub edges: Numbers,
    /// How many lie from one edge (included) to the next.
    pub counts: Numbers,
    /// How many lie below the first edge: on a logarithmic axis those of zero or less.
    pub below: f64,
    /// How many lie at the last edge or above.
    pub above: f64,
}

impl Binned {
    /// Of these bins on a logarithmic axis, which has no place for zero: from, to and count of each, ascending. Empty ones
    /// may be missing.
    pub fn logarithmic(name: String, colour: Colour, bins: impl Iterator<Item = (f64, f64, u64)>) -> Self {
        let (mut edges, mut counts): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for (from, to, count) in bins {
            let from = from.max(1.0);
            if edges.last().is_some_and(|last| *last < from) {
                counts.push(0.0);
            }
            if edges.last() != Some(&from) {
                edges.push(from);
            }
            edges.push(to);
            counts.push(count as f64);
        }
        Self { name, colour, edges: edges.into(), counts: counts.into(), below: 0.0, above: 0.0 }
    }
}

/// Bars of categories.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bars {
    /// What their lengths say.
    pub value: Axis,
    /// A name each: a row, or a group of upright bars.
    pub categories: Vec<String>,
    /// The parts of each category.
    pub series: Vec<BarSeries>,
    /// Parts follow each other in one bar; else they stand beside each other.
    pub stacked: bool,
    /// Bars lie, one category below the other; else they stand.
    pub horizontal: bool,
}

/// One part of each category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// Colour.
    pub colour: Colour,
    /// A value a category; not-a-number where there is none.
    pub values: Numbers,
    /// Lower and upper end of a whisker a category; empty for none.
    pub whiskers: Vec<Option<(f64, f64)>>,
    /// A value to compare with a category, drawn as a mark; empty for none.
    pub targets: Vec<Option<f64>>,
}

impl BarSeries {
    /// Values without whiskers.
    pub fn new(name: impl Into<String>, colour: Colour, values: impl Into<Numbers>) -> Self {
        let (whiskers, targets) = (Vec::new(), Vec::new());
        Self { name: name.into(), colour, values: values.into(), whiskers, targets }
    }
}

/// Values with their intervals, one below the other: effects with their confidence intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ranges {
    /// The scale.
    pub value: Axis,
    /// The values.
    pub rows: Vec<Range>,
    /// A line that matters: no difference.
    pub zero: Option<f64>,
}

/// A value with its interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Range {
    /// What it is of.
    pub name: String,
    /// The value.
    pub at: f64,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
    /// Colour.
    pub colour: Colour,
    /// The value in words, at the right edge.
    pub words: String,
}

/// A map of values.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// What the rows are of.
    pub row_label: String,
    /// What the columns are of.
    pub column_label: String,
    /// Names of rows.
    pub rows: Vec<String>,
    /// Names of columns.
    pub columns: Vec<String>,
    /// What the values are.
    pub quantity: Quantity,
    /// Steps of colour of equal ratio.
    pub log: bool,
    /// Values row by row; not-a-number where there is none.
    pub values: Numbers,
}

/// Lanes with intervals over one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Start and end, nanoseconds.
    pub span: (f64, f64),
    /// The instant that the axis counts from, and its name; none: the start.
    pub origin: Option<(f64, String)>,
    /// A stretch that is shaded: from when something was due to when it came.
    pub zone: Option<(f64, f64)>,
    /// Lanes, the first on top.
    pub lanes: Vec<Lane>,
    /// From who caused to who waited.
    pub arrows: Vec<Arrow>,
    /// What the colours mean.
    pub keys: Vec<(String, Colour)>,
}

/// A lane of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lane {
    /// What it shows: `CPU 1`.
    pub name: String,
    /// More of it, below its name.
    pub detail: String,
    /// Intervals, and instants where both ends are equal.
    pub spans: Vec<Span>,
    /// Parts of slices of equal width over the whole time, stacked from the foot: what each slice was filled with.
    pub fills: Vec<Fill>,
}

/// An interval of a lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Start, nanoseconds.
    pub start: f64,
    /// End, nanoseconds.
    pub end: f64,
    /// What it is.
    pub label: String,
    /// Row within the lane, from its foot: what interrupts stands above what it interrupted.
    pub depth: u8,
    /// Colour.
    pub colour: Colour,
}

/// A part of each slice of a lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fill {
    /// Colour.
    pub colour: Colour,
    /// How much of each slice, 0 to 1.
    pub shares: Numbers,
}

/// An arrow between lanes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrow {
    /// Instant and lane.
    pub from: (f64, usize),
    /// Instant and lane.
    pub to: (f64, usize),
}

macro_rules! plot_from {
    ($($kind:ident),*) => {
        $(impl From<$kind> for Plot {
            fn from(plot: $kind) -> Self { Self::$kind(plot) }
        })*
    };
}
plot_from!(Xy, Distribution, Bars, Ranges, Matrix, Timeline);
