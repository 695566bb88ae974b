//! Histogram, tail and cumulative distribution of the same bins, as series over two axes.

use crate::axis::{Axis, Quantity};
use crate::plot::{Binned, Data, Distribution, DistributionView, Numbers, Series, Xy};

impl Distribution {
    /// What is looked at first.
    pub(crate) fn first_view(&self) -> Option<Xy> {
        self.views.first().map(|view| self.seen(*view))
    }

    fn seen(&self, view: DistributionView) -> Xy {
        let least = self.series.iter().map(|series| 0.7 / series.total().max(1.0)).fold(1.0, f64::min);
        let most = self.series.iter().flat_map(|series| series.counts.iter().copied()).fold(1.0, f64::max);
        let (label, quantity) = (self.of.clone(), Quantity::Share);
        let y = match view {
            DistributionView::Histogram => Axis::log(label, Quantity::Count).range(0.6, most * 2.0),
            DistributionView::Tail => Axis::log(format!("{label} above"), quantity).range(least, 1.4),
            DistributionView::Cdf => Axis::linear(format!("{label} up to"), quantity).range(0.0, 1.02),
        };
        let series = |binned: &Binned| {
            let data = Data::Steps { x: binned.edges.clone(), y: binned.seen(view) };
            Series::new(binned.name.clone(), binned.colour, data)
        };
        Xy {
            x: self.x.clone(),
            y,
            series: self.series.iter().map(series).collect(),
            guides: self.guides.clone(),
        }
    }
}

impl Binned {
    /// How many there are, those beyond the bins too.
    pub(crate) fn total(&self) -> f64 {
        self.below + self.above + self.counts.iter().sum::<f64>()
    }

    /// A value at each edge.
    fn seen(&self, view: DistributionView) -> Numbers {
        let total = self.total();
        let mut up_to = self.below;
        let mut values = Vec::with_capacity(self.edges.len());
        for at in 0..self.edges.len() {
            let count = self.counts.get(at).copied().unwrap_or(0.0);
            values.push(match view {
                DistributionView::Histogram => count,
                // Where nothing is above, a logarithmic axis has no place.
                DistributionView::Tail if total > up_to => (total - up_to) / total,
                DistributionView::Tail => f64::NAN,
                DistributionView::Cdf => up_to / total,
            });
            up_to += count;
        }
        Numbers(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Colour;

    #[test]
    fn views_of_the_same_bins() {
        let (edges, counts) = (vec![1.0, 2.0, 4.0].into(), vec![6.0, 2.0].into());
        let binned =
            Binned { name: "x".into(), colour: Colour::Muted, edges, counts, below: 1.0, above: 1.0 };
        assert_eq!(binned.total(), 10.0);
        assert_eq!(&binned.seen(DistributionView::Histogram)[..], [6.0, 2.0, 0.0]);
        assert_eq!(&binned.seen(DistributionView::Tail)[..], [0.9, 0.3, 0.1]);
        assert_eq!(&binned.seen(DistributionView::Cdf)[..], [0.1, 0.7, 0.9]);
        let all = Binned { above: 0.0, ..binned };
        assert!(all.seen(DistributionView::Tail)[2].is_nan());
    }
}
