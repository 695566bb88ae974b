//! The command line of `quaver sync --compensate` and `quaver sync what-if`: types only.

use clap::{Args, ValueEnum};
use quaver_instrument::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// What `--compensate` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compensate {
    /// Sets the frequency of the program's CPUs
    Live,
    /// Computes and prints, and sets nothing
    Dry,
}

/// Which controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ControllerName {
    /// The paper's: gives back what was lost
    Reactive,
    /// Gives back, besides, what the next subframe is expected to lose
    Predictive,
}

/// `quaver sync --compensate`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Giving lost time back by speed")]
pub struct CompensateArgs {
    /// While the program runs, raise the frequency of the CPUs whose threads have lost time until it is given back, as the paper's
    /// DVFS controller does; the old settings are in the journal of `quaver tune` first, and come back when the program ends.
    /// `--compensate=dry` sets nothing and tells what it would have done
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "live",
        value_name = "HOW",
        conflicts_with = "pid"
    )]
    pub compensate: Option<Compensate>,
    /// Highest frequency over that at rest; where the machine does not name a base frequency, rest is so much below its highest
    #[arg(long, default_value_t = 1.2, value_parser = ratio, value_name = "RATIO", requires = "compensate")]
    pub compensate_limit: f64,
    /// k: over how many subframes a loss is given back
    #[arg(
        long,
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=64),
        value_name = "K",
        requires = "compensate"
    )]
    pub compensate_reactivity: u32,
    /// Which controller
    #[arg(long, value_enum, default_value = "reactive", value_name = "NAME", requires = "compensate")]
    pub compensate_controller: ControllerName,
    /// Length of a subframe
    #[arg(
        long,
        value_parser = quantity::duration,
        default_value = "330us",
        value_name = "TIME",
        requires = "compensate"
    )]
    pub compensate_subframe: Duration,
    /// Part of the program's own time that waits for memory, which no clock makes shorter, per cent
    #[arg(
        long,
        default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=100),
        value_name = "PERCENT",
        requires = "compensate"
    )]
    pub compensate_memory: u8,
    /// Directory of the journal
    #[arg(long, hide = true, env = "QUAVER_TUNE_JOURNAL", value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// Another root for /sys: a copy of a machine's files
    #[arg(long, hide = true, value_name = "DIR", requires = "compensate", requires = "journal")]
    pub root: Option<PathBuf>,
}

/// `quaver sync what-if`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sync -- ./solver input.dat && quaver sync what-if runs/sync-...
  quaver sync what-if RUN --highest 1.4 --memory 30 --html what-if.html
  quaver sync what-if RUN --deadline 5ms           what of its threads would have met 5 ms, each 5 ms
  quaver sync what-if RUN --example wimax          packets of 4.6 ms of work with this run's jitter
  quaver sync what-if --example wimax              the same with made-up jitter

The recorded program is cut into subframes of 330 us a thread. A controller a thread (the paper's equation 1) raises the frequency
until what was lost is given back. A thread that is made starts with what its maker owes. Where threads meet, a waiter
takes over debt of whom it waited for, but none for time that it would have waited anyway. The curve is the slow-down of the whole program against the highest frequency that there is. Time that waits for memory or for
others is not made shorter; what no event tells is taken for work.

A table of one's own (--table), lowest first; rest is a place in it, counted from 0:
  rest = 1
  pll_lock_us = 10.0
  ramp_us = 20.0
  points = [{ frequency_ghz = 2.4, supply_v = 0.9 }, { frequency_ghz = 3.0, supply_v = 1.0 },
            { frequency_ghz = 3.6, supply_v = 1.1 }]")]
pub struct WhatIfArgs {
    /// Directory of a run of `quaver sync -- PROGRAM`
    #[arg(value_name = "RUN", required_unless_present = "example")]
    pub run: Option<PathBuf>,
    /// Operating points of a core (TOML) [default: the paper's table 3, 0.8 to 1.2 of 3 GHz]
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// How far the curve goes: highest frequency over that at rest; beyond the table it goes on in the table's last step
    #[arg(long, default_value_t = 1.3, value_parser = ratio, value_name = "RATIO")]
    pub highest: f64,
    /// Length of a subframe
    #[arg(long, value_parser = quantity::duration, default_value = "330us", value_name = "TIME")]
    pub subframe: Duration,
    /// Part of the program's own time that waits for memory, which no clock makes shorter, per cent
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    pub memory: u8,
    /// Real-time frames: each thread's work of a period must be done within this time
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub deadline: Option<Duration>,
    /// Length of a period [default: the deadline]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME", requires = "deadline")]
    pub period: Option<Duration>,
    /// Frames of a known kind in the place of the program's own work
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["deadline", "period"])]
    pub example: Option<Example>,
    /// Seed of what is made up for an example without a run
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Also write the page with its drawings there
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Frames of a known kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Example {
    /// The paper's: a packet that must be processed in 5 ms; here it takes 4.6 ms without jitter
    Wimax,
}

/// A ratio of frequencies from 1 to 2.
fn ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (1.0..=2.0).contains(&ratio) { Ok(ratio) } else { Err("a ratio from 1 to 2".to_owned()) }
}
