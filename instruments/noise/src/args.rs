//! The command line of `quaver noise`.

use clap::Args;
use quaver_instrument::args::{CpuList, OutputArgs, TierName};
use quaver_instrument::quantity;
use quaver_instrument::quantity::Period;
use std::time::Duration;

/// `quaver noise`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver noise                  the last CPU for ten seconds: each gap of 1 us and more, by cause
  quaver noise --cpus 2-5 --threshold 500ns
  quaver noise --dummy          the paper's program: a timestamp each 7.41 us against absolute deadlines")]
pub struct NoiseArgs {
    /// CPUs to loop on [default: the last one allowed]
    #[arg(long, value_parser = quantity::cpu_list, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// How long to measure
    #[arg(long = "for", value_parser = quantity::duration, default_value = "10s", value_name = "TIME")]
    pub duration: Duration,
    /// Report every gap of at least this
    #[arg(long, value_parser = quantity::duration, default_value = "1us", value_name = "TIME")]
    pub threshold: Duration,
    /// Run the paper's dummy program instead of the tight loop
    #[arg(long)]
    pub dummy: bool,
    /// Period of the dummy program
    #[arg(long, value_parser = quantity::period, default_value = "7.41us", value_name = "TIME", requires = "dummy")]
    pub period: Period,
    /// Run the loops under SCHED_FIFO with this priority
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Use this tier of tracing, and no better one
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierName>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}
