//! What the jitter-unit paper measured: its tables 4 to 8 (*Architectural Support for Handling Jitter in Shared Memory based
//! Parallel Applications*; 16 threads on four Xeons of 2009 under Linux 2.6.31).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which suite a program is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// Splash-2: tables 4 and 6.
    Splash2,
    /// Parsec 2.1: tables 5 and 7.
    Parsec,
    /// None: a program of the user's own.
    Own,
}

impl Suite {
    /// Those of the paper, in its order.
    pub const ALL: [Self; 2] = [Self::Splash2, Self::Parsec];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        ["Splash-2", "Parsec", "your own"][self as usize]
    }
}

/// A program of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperProgram {
    /// Our program that synchronises as it does.
    pub program: &'static str,
    /// The paper's name for it.
    pub paper: &'static str,
    /// Suite.
    pub suite: Suite,
    /// Sync jitter over all jitter, percent (tables 4 and 5).
    pub sync_share_percent: f64,
    /// Jitter events a millisecond, all threads together (tables 6 and 7, column 1).
    pub events_per_ms: f64,
    /// Mean of them, microseconds (column 2).
    pub mean_us: f64,
    /// Jitter, microseconds a millisecond (column 3).
    pub late_us_per_ms: f64,
    /// Slowdown, percent, by the paper's simulator (column 4).
    pub slowdown_percent: f64,
    /// Whether the paper leaves it out of its correlations: kernels that hardly synchronise.
    pub left_out: bool,
}

const fn row(
    program: &'static str,
    paper: &'static str,
    suite: Suite,
    figures: [f64; 5],
    left_out: bool,
) -> PaperProgram {
    let [sync_share_percent, events_per_ms, mean_us, late_us_per_ms, slowdown_percent] = figures;
    PaperProgram {
        program,
        paper,
        suite,
        sync_share_percent,
        events_per_ms,
        mean_us,
        late_us_per_ms,
        slowdown_percent,
        left_out,
    }
}

use Suite::{Parsec, Splash2};

/// All seventeen.
pub const PROGRAMS: [PaperProgram; 17] = [
    row("barnes", "barnes", Splash2, [82.0, 79.96, 19.64, 1570.63, 5.5], false),
    row("fmm", "fmm", Splash2, [95.0, 4.07, 43.38, 176.73, 13.37], false),
    row("lu", "lu", Splash2, [30.0, 0.69, 239.92, 165.03, 0.25], true),
    row("ocean", "ocean", Splash2, [97.0, 12.51, 139.11, 1740.26, 35.61], false),
    row("radix", "radix", Splash2, [33.0, 0.60, 256.76, 153.2, 0.62], true),
    row("raytrace", "raytrace", Splash2, [97.0, 35.69, 130.21, 4647.5, 3.69], false),
    row("water-nsquared", "water-nsq", Splash2, [91.0, 21.83, 67.35, 1470.48, 30.15], false),
    row("water-spatial", "water-sp", Splash2, [95.0, 12.99, 93.88, 1219.4, 33.2], false),
    row("facesim", "facesim", Parsec, [98.0, 1.56, 198.93, 310.3, 10.01], false),
    row("ferret", "ferret", Parsec, [80.0, 0.45, 29.3, 13.24, 1.65], false),
    row("bodytrack", "bodytrack", Parsec, [96.0, 1.20, 48.77, 58.56, 1.62], false),
    row("x264", "x264", Parsec, [86.0, 0.52, 119.04, 61.51, 2.45], false),
    row("raytrace-pool", "raytrace", Parsec, [83.0, 0.14, 138.88, 20.13, 7.89], false),
    row("vips", "vips", Parsec, [88.0, 0.65, 15.43, 10.03, 0.9], false),
    row("dedup", "dedup", Parsec, [97.0, 2.97, 282.34, 837.74, 7.03], false),
    row("fluidanimate", "fluidanimate", Parsec, [96.0, 7.15, 19.9, 142.27, 22.83], false),
    row("streamcluster", "streamcluster", Parsec, [99.0, 34.47, 72.46, 2497.71, 4.53], false),
];

/// Table 8: correlation of the slowdown with columns 1 to 3, Splash-2 (without lu and radix) and Parsec.
pub const CORRELATIONS: [[f64; 3]; 2] = [[-0.61, 0.37, -0.41], [0.06, 0.04, -0.04]];

/// The paper's program that ours is like.
pub fn program(name: &str) -> Option<&'static PaperProgram> {
    PROGRAMS.iter().find(|program| program.program == name)
}
