//! Native histograms as the real Prometheus reads them, beside the text of the same times.

use super::exemplars;
use super::support::{Receiver, Sender, Watch, alone_on_cpu_0, get, stop_for_a_while};
use quaver_testbed::privileged::{Lack, privileged, skip};
use serde_json::Value;

const DELIVERY: &str = "quaver_watch_delivery_seconds";

/// A number that Prometheus computes; none while there is none.
fn computed(port: u16, query: &str) -> Option<f64> {
    let answer = get(port, &format!("/api/v1/query?query={query}")).unwrap_or_default();
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let found: Value = serde_json::from_str(body).ok()?;
    found["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

/// Upper bounds of the text's buckets in seconds, with the times up to each.
fn text_buckets(text: &str) -> Vec<(f64, f64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("{DELIVERY}_bucket{{")));
    let of_line = |line: &str| {
        let (labels, rest) = line.split_once("} ").unwrap();
        let bound = labels.rsplit_once("le=\"").unwrap().1.trim_end_matches('"');
        (bound.parse().unwrap(), rest.split(' ').next().unwrap().parse().unwrap())
    };
    lines.map(of_line).collect()
}

#[test]
fn native_histograms_count_what_the_text_counts_and_their_quantiles_are_within_a_factor_of_two() {
    let name = "native_histograms_count_what_the_text_counts_and_their_quantiles_are_within_a_factor_of_two";
    if !privileged(name) {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let mut sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let daemon = watch.start();
    watch.wait_watching(1);
    // Waits of all lengths up to that of the stop.
    stop_for_a_while(receiver.pid());
    watch.wait_incidents(1);
    sender.stop();
    let Some((_prometheus, port)) = watch.prometheus("exemplar-storage,native-histograms", "[]") else {
        return skip(name, Lack::Installed("prometheus"));
    };
    // Nothing more is counted from some instant on. Equal counts are of one state.
    let mut buckets = Vec::new();
    watch.wait("the native histogram of all packets", |watch| {
        buckets = text_buckets(&get(watch.metrics, "/metrics").unwrap());
        let count = buckets.last().map(|last| last.1);
        count > Some(500.0) && computed(port, &format!("histogram_count({DELIVERY})")) == count
    });
    assert_eq!(computed(port, &format!("{DELIVERY}_count")), None, "the text's form was read");
    let (sum, text) = (
        computed(port, &format!("histogram_sum({DELIVERY})")).unwrap(),
        watch.metric(&format!("{DELIVERY}_sum")),
    );
    assert!((sum - text).abs() <= 1e-9 * text, "{sum} {text}");
    let all = buckets.last().unwrap().1;
    for quantile in [0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
        let place = buckets.iter().position(|(_, count)| *count >= quantile * all).unwrap();
        let (least, most) = (if place == 0 { 0.0 } else { buckets[place - 1].0 }, buckets[place].0);
        let native = computed(port, &format!("histogram_quantile({quantile},{DELIVERY})")).unwrap();
        // The packet of this rank waited longer than `least`, and up to `most`. A native bucket spans a factor of two.
        assert!(least / 2.0 < native && native <= most * 2.0, "{quantile}: {native}, {buckets:?}");
    }
    // Above half of the packets of the stop, of 400 ms, and nothing of the stream before it.
    let stopped = computed(port, &format!("histogram_fraction(0.125,1,{DELIVERY})")).unwrap() * all;
    let between = |bound: f64| buckets.iter().find(|bucket| bucket.0 == bound).unwrap().1;
    let (least, most) = (between(1.0) - between(0.1), between(1.0));
    assert!(stopped > 50.0 && stopped <= least + 0.5 && stopped <= most, "{stopped}, {buckets:?}");
    let incident = watch.incidents().remove(0);
    let id = incident.file_name().unwrap().to_str().unwrap();
    watch.wait("its incident", |_| exemplars(port, DELIVERY).iter().any(|name| name == id));
    watch.end(daemon);
}
