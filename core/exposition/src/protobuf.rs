//! Families as length-delimited messages of Prometheus' client model, with native histograms
//! (<https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto>).

use crate::families::{Buckets, Example, Family, Kind, Labels, Value, seconds};
use crate::histogram::Powers;
use prost::Message;

/// The content type of a page.
pub(crate) const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
/// Bounds of native buckets double from one to the next.
const SCHEMA: i32 = 0;
/// The native bucket of what is above all bounds: the one after that of the largest finite number, 2^1024.
const ABOVE_ALL: i32 = 1_025;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Gauge>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Counter>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<NativeHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Counter {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
    #[prost(message, optional, tag = "2")]
    exemplar: Option<Exemplar>,
}

/// The text's buckets and the native ones of the same times.
#[derive(Clone, PartialEq, Message)]
struct NativeHistogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    /// Of each bucket in a span its count less that of the one before.
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    exemplar: Option<Exemplar>,
}

/// Buckets one after the other.
#[derive(Clone, PartialEq, Message)]
struct Span {
    /// Of the first span the number of its first bucket, else the buckets that lie between it and the span before.
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// Whether an `Accept` wants this more than text: named in full, and with a higher quality.
pub(crate) fn is_wanted(accept: &str) -> bool {
    let (mut protobuf, mut text) = (0.0, 0.0);
    for range in accept.to_ascii_lowercase().split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let parameters: Vec<&str> = parts.collect();
        let quality = parameters.iter().find_map(|parameter| parameter.strip_prefix("q="));
        // What is no number asks for nothing.
        let quality: f64 = quality.map_or(1.0, |quality| quality.trim().parse().unwrap_or(0.0));
        let is_ours = ["proto=io.prometheus.client.metricfamily", "encoding=delimited"]
            .iter()
            .all(|parameter| parameters.contains(parameter));
        match kind {
            "application/vnd.google.protobuf" if is_ours => protobuf = quality.max(protobuf),
            "application/openmetrics-text" | "application/*" | "*/*" => text = quality.max(text),
            _ => {}
        }
    }
    protobuf > text
}

/// The whole page.
pub(crate) fn page(families: &[Family]) -> Vec<u8> {
    let messages = families.iter().map(message);
    messages.flat_map(|message| message.encode_length_delimited_to_vec()).collect()
}

fn message(family: &Family) -> MetricFamily {
    // A counter's family has the name of its samples here.
    let (kind, end) = match family.kind {
        Kind::Counter => (MetricType::Counter, "_total"),
        Kind::Gauge => (MetricType::Gauge, ""),
        Kind::Histogram => (MetricType::Histogram, ""),
    };
    let metric = |(labels, value): (&Labels, &Value)| {
        let empty = Metric { labels: pairs(labels), ..Metric::default() };
        match value {
            Value::Times(times) => Metric { histogram: Some(native(times)), ..empty },
            Value::Number(value, _) if kind == MetricType::Gauge => {
                Metric { gauge: Some(Gauge { value: Some(*value) }), ..empty }
            }
            Value::Number(value, example) => {
                let exemplar = example.as_ref().map(exemplar);
                Metric { counter: Some(Counter { value: Some(*value), exemplar }), ..empty }
            }
        }
    };
    MetricFamily {
        name: Some(format!("{}{end}", family.name)),
        help: Some(family.help.to_owned()),
        kind: Some(kind.into()),
        metrics: family.samples.iter().map(|sample| metric((&sample.labels, &sample.value))).collect(),
    }
}

fn pairs(labels: &Labels) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, String)| LabelPair {
        name: Some((*name).to_owned()),
        value: Some(value.clone()),
    };
    labels.iter().map(pair).collect()
}

fn exemplar(Example { incident, value, realtime_ns }: &Example) -> Exemplar {
    Exemplar {
        labels: pairs(&vec![("incident", incident.clone())]),
        value: Some(*value),
        timestamp: Some(Timestamp {
            seconds: realtime_ns.div_euclid(1_000_000_000),
            nanos: realtime_ns.rem_euclid(1_000_000_000) as i32,
        }),
    }
}

fn native(times: &Buckets) -> NativeHistogram {
    let mut count = 0;
    let bounds = times.bounds_ns.iter().map(|bound_ns| seconds(*bound_ns)).chain([f64::INFINITY]);
    let bucket = |(number, (bound, more)): (usize, (f64, &u64))| {
        count += more;
        Bucket {
            cumulative_count: Some(count),
            upper_bound: Some(bound),
            exemplar: times.examples.get(&number).map(exemplar),
        }
    };
    let buckets = bounds.zip(&times.counts).enumerate().map(bucket).collect();
    let Powers { least_exponent, counts } = &times.powers;
    let (spans, deltas) = spans_and_deltas(&times.powers);
    NativeHistogram {
        count: Some(count),
        sum: Some(seconds(times.sum_ns)),
        buckets,
        schema: Some(SCHEMA),
        // Times up to the least bound are not told apart.
        zero_threshold: Some(2f64.powi(*least_exponent)),
        zero_count: counts.first().copied(),
        spans,
        deltas,
    }
}

/// The buckets above the first that hold times. Bucket `i` of the schema has the times up to 2^i seconds.
fn spans_and_deltas(Powers { least_exponent, counts }: &Powers) -> (Vec<Span>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<Span>, Vec<i64>) = Default::default();
    let (mut next, mut before) = (0, 0);
    let last = counts.len().saturating_sub(1);
    for (place, count) in counts.iter().enumerate().skip(1).filter(|(_, count)| **count > 0) {
        let number = if place == last { ABOVE_ALL } else { least_exponent + place as i32 };
        match spans.last_mut() {
            Some(span) if number == next => span.length = span.length.map(|length| length + 1),
            _ => spans.push(Span { offset: Some(number - next), length: Some(1) }),
        }
        deltas.push(count.cast_signed() - before);
        (next, before) = (number + 1, count.cast_signed());
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const ALL: &str =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    /// Counts by number of their native bucket, as a reader counts them.
    fn read(histogram: &NativeHistogram) -> BTreeMap<i32, i64> {
        let (mut number, mut count, mut deltas) = (0, 0, histogram.deltas.iter());
        let mut counts = BTreeMap::new();
        for span in &histogram.spans {
            number += span.offset.unwrap();
            for _ in 0..span.length.unwrap() {
                count += deltas.next().unwrap();
                assert_eq!(counts.insert(number, count), None, "a bucket twice");
                number += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        counts
    }

    fn of(times_ns: &[u64]) -> NativeHistogram {
        let mut histogram = Histogram::default();
        times_ns.iter().for_each(|ns| histogram.add(*ns));
        native(&Buckets::from(&histogram))
    }

    fn spans(histogram: &NativeHistogram) -> Vec<(i32, u32)> {
        histogram.spans.iter().map(|span| (span.offset.unwrap(), span.length.unwrap())).collect()
    }

    #[test]
    fn spans_and_deltas_are_those_of_the_specification() {
        let empty = of(&[]);
        assert_eq!(
            (spans(&empty), empty.deltas.len(), empty.count, empty.zero_count),
            (vec![], 0, Some(0), Some(0))
        );
        // A threshold marks it as native although it holds nothing.
        assert_eq!((empty.schema, empty.zero_threshold), (Some(0), Some(7.62939453125e-6)));
        // 2^-17 s are 7,629.39 ns, 2^-9 s are 1,953,125 ns.
        let few = of(&[
            0,
            7_629,
            7_630,
            7_631,
            15_259,
            1_953_125,
            1_953_126,
            1_000_000_000,
            1_000_000_001,
            u64::MAX / 2,
        ]);
        assert_eq!(few.zero_count, Some(2));
        assert_eq!(spans(&few), [(-16, 2), (5, 2), (7, 1), (1_024, 1)]);
        assert_eq!(few.deltas, [2, -1, 0, 0, 0, 1]);
        let expected = [(-16, 2), (-15, 1), (-9, 1), (-8, 1), (0, 1), (ABOVE_ALL, 2)];
        assert_eq!(read(&few), expected.into());
        assert_eq!(few.count, Some(10));
    }

    proptest! {
        #[test]
        fn each_time_is_in_the_native_bucket_of_its_length(
            times in proptest::collection::vec((0u32..34, any::<u64>()), 0..300)
        ) {
            let times: Vec<u64> = times.into_iter().map(|(bits, any)| any % (1 << bits)).collect();
            let histogram = of(&times);
            let mut expected = BTreeMap::new();
            for ns in &times {
                let number = (-17..=0).find(|exponent| *ns as f64 <= 2f64.powi(*exponent) * 1e9);
                *expected.entry(number.unwrap_or(ABOVE_ALL)).or_insert(0) += 1;
            }
            let zero = expected.remove(&-17).unwrap_or(0);
            prop_assert_eq!(histogram.zero_count, Some(zero as u64));
            let counts = read(&histogram);
            prop_assert_eq!(histogram.count, Some(counts.values().sum::<i64>() as u64 + zero as u64));
            prop_assert_eq!(counts, expected);
            let cumulative: Vec<u64> = histogram.buckets.iter().map(|bucket| bucket.cumulative_count.unwrap()).collect();
            prop_assert!(cumulative.is_sorted());
            prop_assert_eq!(cumulative.last().copied(), histogram.count);
            let bytes = histogram.encode_to_vec();
            prop_assert_eq!(NativeHistogram::decode(&bytes[..]).unwrap(), histogram);
        }
    }

    #[test]
    fn it_is_for_those_who_name_it_in_full_and_want_it_more_than_text() {
        // Prometheus 2.42 with native histograms, and without.
        let text = "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(is_wanted(&format!("{ALL},{text}")));
        assert!(!is_wanted(text) && !is_wanted("") && !is_wanted("*/*"));
        assert!(is_wanted(ALL) && is_wanted(&ALL.replace(';', " ; ").to_uppercase()));
        for less in [";q=0", ";q=0.7", ";q=x", ", */*", ", application/openmetrics-text"] {
            assert!(!is_wanted(&format!("{ALL}{less},{text}")), "{less}");
        }
        for part in [";encoding=delimited", ";proto=io.prometheus.client.MetricFamily"] {
            assert!(!is_wanted(&ALL.replace(part, "")), "{part}");
        }
        assert!(!is_wanted(&ALL.replace("delimited", "text")));
    }
}
