//! What the series of each figure shall have: its printed numbers, and where those leave room, a choice within.

use super::series::{Line, Wanted};

/// Figure 7: 10000 packets on one host.
pub(super) fn figure_7() -> Wanted {
    Wanted {
        count: 10_000,
        min_ns: 42_000,
        ranks_ns: vec![
            (0, 0),
            (4_999, 26_400),
            (5_000, 26_400),
            (9_900, 180_000),
            (9_930, 219_600),
            (9_950, 252_800),
            (9_970, 290_800),
            (9_990, 483_200),
            (9_999, 2_829_000),
        ],
        mode: (5 * 2_572, 2_572, 3_000),
        sum_ns: 32_500 * 10_000,
        sd_ns: 65_940.0,
        rounded_sd_ns: None,
        sent_span_ns: 9_999 * 20_000_500,
        ends_ns: None,
        line: Line::Correlation(-0.004_203),
    }
}

/// Figure 10: TCP over a slow link. Slope, correlation and deviation together need instants of sending that are less
/// spread than equal distances, as of a sender that was held up and caught up.
pub(super) fn figure_10() -> Wanted {
    Wanted {
        count: 1_000,
        min_ns: 1_615_000_000,
        ranks_ns: vec![
            (0, 0),
            (150, 500_000_000),
            (260, 1_173_500_000),
            (499, 1_998_000_000),
            (500, 1_998_000_000),
            (990, 4_897_000_000),
            (993, 4_957_000_000),
            (995, 4_997_000_000),
            (997, 5_037_000_000),
            (999, 5_077_000_000),
        ],
        mode: (0, 26_327_957, 60),
        sum_ns: 2_024_000_000 * 1_000,
        sd_ns: 1_260_000_000.0,
        rounded_sd_ns: None,
        sent_span_ns: 999 * 20_003_500,
        ends_ns: Some((500_000_000, 1_173_500_000)),
        line: Line::Both { slope: -0.133_083, correlation: -0.517_128 },
    }
}

/// Figure 13: the same link with a proxy.
pub(super) fn figure_13() -> Wanted {
    Wanted {
        count: 1_000,
        min_ns: 1_615_050_000,
        ranks_ns: vec![
            (0, 0),
            (499, 100_000),
            (500, 100_000),
            (990, 102_200_000),
            (993, 102_800_000),
            (995, 103_100_000),
            (997, 106_700_000),
            (999, 121_500_000),
        ],
        mode: (0, 100_000, 400),
        sum_ns: 12_000_000 * 1_000,
        sd_ns: 26_130_000.0,
        rounded_sd_ns: None,
        sent_span_ns: 999 * 20_003_500,
        ends_ns: Some((50_000, 16_000_000)),
        line: Line::Correlation(-0.035_737),
    }
}

/// Figure 16: a path of 1.6 s between clocks that agree.
pub(super) fn figure_16() -> Wanted {
    Wanted {
        count: 1_000,
        min_ns: 1_614_710_000,
        ranks_ns: vec![
            (0, 0),
            (499, 111_000),
            (500, 111_000),
            (989, 267_000),
            (992, 281_000),
            (994, 318_000),
            (996, 358_000),
            (998, 1_542_000),
            (999, 1_548_000),
        ],
        mode: (20 * 3_815, 3_815, 60),
        sum_ns: 121_767 * 1_000,
        sd_ns: 87_920.0,
        rounded_sd_ns: None,
        sent_span_ns: 999 * 20_024_000,
        ends_ns: None,
        line: Line::Correlation(-0.005_674),
    }
}

/// Figure 17: the same path, clocks half a minute apart. Latency and PDV have the same spread, and the figure prints
/// 76.93 us and 76.94 us: sums of squares of half a minute in 64-bit floating point have rounded it down.
pub(super) fn figure_17() -> Wanted {
    Wanted {
        count: 1_000,
        min_ns: 32_955_267_000,
        ranks_ns: vec![
            (0, 0),
            (499, 122_500),
            (500, 122_500),
            (989, 269_000),
            (992, 281_000),
            (994, 292_000),
            (996, 406_000),
            (998, 1_118_000),
            (999, 1_300_000),
        ],
        mode: (23 * 3_843, 3_843, 60),
        sum_ns: 128_849_700,
        sd_ns: 76_940.0,
        rounded_sd_ns: Some(76_930.0),
        sent_span_ns: 999 * 20_024_000,
        ends_ns: None,
        line: Line::Correlation(0.007_193),
    }
}
