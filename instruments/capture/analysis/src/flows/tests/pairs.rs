//! One stream by two paths.

use super::*;

/// Numbers of a stream on a path to a port, each `late_ns` later than the source sent it.
fn path(
    port: u16,
    late_ns: i64,
    numbers: impl Iterator<Item = u32>,
) -> impl Iterator<Item = (i64, FrameFacts)> {
    numbers.map(move |n| (i64::from(n) * MS + late_ns, frame(port, rtp(n as u16, 8 * n, 7))))
}

fn both(
    first: impl Iterator<Item = (i64, FrameFacts)>,
    second: impl Iterator<Item = (i64, FrameFacts)>,
) -> CaptureFigures {
    let mut packets: Vec<_> = first.chain(second).collect();
    packets.sort_by_key(|packet| packet.0);
    figures(packets)
}

#[test]
fn two_paths_of_one_stream_are_a_pair() {
    // 100 to 104 are lost on the first, 103 to 109 on the second, 200 comes twice.
    let numbers = |lost: std::ops::Range<u32>| {
        (0..1_000)
            .filter(move |n| !lost.contains(n))
            .flat_map(|n| std::iter::repeat_n(n, 1 + usize::from(n == 200)))
    };
    let found = both(path(6_000, 0, numbers(100..105)), path(6_002, 2 * MS + 500, numbers(103..110)));
    let [pair] = &found.pairs[..] else { panic!("{:?}", found.pairs) };
    assert_eq!((pair.first.destination_port, pair.second.destination_port), (Some(6_000), Some(6_002)));
    assert_eq!(
        (pair.expected, pair.both, pair.only_first, pair.only_second, pair.lost),
        (1_000, 990, 5, 3, 2)
    );
    let difference = pair.difference.unwrap();
    assert_eq!((difference.min_ns, difference.max_ns, difference.count), (2 * MS + 500, 2 * MS + 500, 990));
    assert_eq!(found.flows.iter().map(|flow| flow.sequence.unwrap().lost).collect::<Vec<_>>(), [5, 7]);
}

#[test]
fn numbers_that_wrapped_before_the_other_path_began_are_the_same() {
    let found = both(path(6_000, 0, 10..70_000), path(6_002, -MS, (66_000..69_000).filter(|n| *n != 66_001)));
    let [pair] = &found.pairs[..] else { panic!("{:?}", found.pairs) };
    assert_eq!((pair.expected, pair.both, pair.only_first, pair.lost), (69_990, 2_999, 66_991, 0));
    assert_eq!(pair.difference.unwrap().max_ns, -MS);
}

#[test]
fn streams_that_share_a_source_alone_are_no_pair() {
    let other = |n: u32| (i64::from(n) * MS, frame(6_002, rtp(n as u16, 8 * n + 3, 7)));
    assert_eq!(both(path(6_000, 0, 0..500), (0..500).map(other)).pairs, []);
    // The same stream captured twice over, one behind the other.
    let twice = || run(0, 0, 0, 500);
    assert_eq!(figures(twice().chain(twice())).pairs, []);
}
