//! From the options of a stream to what is sent.

use crate::args::{PaceMode, ReceiveMode, StreamArgs};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::quantity::Period;
use quaver_path_record::StreamShape;
use quaver_probe::profile::Profile;
use quaver_probe::sink::Receive;
use quaver_probe::source::Pace;
use quaver_view::Cell;

/// Payload where nothing else is asked: an ST 2022-6 packet less its Ethernet, IP and UDP headers.
const DEFAULT_PAYLOAD_BYTES: usize = 1_428;
/// The paper's period (Chasing, section I).
const DEFAULT_PERIOD: Period = Period { picoseconds: 7_410_000 };

/// A stream as it will be sent.
pub struct StreamPlan {
    /// Packets and schedule.
    pub profile: Profile,
    /// The same, as it is asked of another host.
    pub shape: StreamShape,
    /// How deadlines are waited for.
    pub pace: Pace,
    /// Words for the head of a page.
    pub words: String,
}

impl StreamPlan {
    /// Resolves the options.
    pub fn of(args: &StreamArgs) -> anyhow::Result<Self> {
        let shape = match args.profile {
            Some(name) => StreamShape::Named(name),
            None => plain(args)?,
        };
        let profile = shape.profile().map_err(|error| failure(ExitCode::Usage, error.to_string()))?;
        let name = args.profile.map(|name| format!("{}, ", name.name())).unwrap_or_default();
        let words = format!(
            "{name}{} bytes every {}",
            profile.payload_bytes(),
            Cell::FineDuration(period_ns(&profile))
        );
        Ok(Self { profile, shape, pace: args.pace.map_or(Pace::Spin, pace), words })
    }

    /// Mean period.
    pub fn period_ns(&self) -> f64 {
        period_ns(&self.profile)
    }
}

fn period_ns(profile: &Profile) -> f64 {
    let (numerator, denominator) = profile.schedule().mean_period_ns();
    numerator as f64 / denominator as f64
}

fn plain(args: &StreamArgs) -> anyhow::Result<StreamShape> {
    let usage = |error: String| failure(ExitCode::Usage, error);
    let payload_bytes = args.size.unwrap_or(DEFAULT_PAYLOAD_BYTES);
    let period = match (args.period, args.rate) {
        (Some(period), _) => period,
        (None, Some(rate)) => rate.period(payload_bytes).map_err(usage)?,
        (None, None) => DEFAULT_PERIOD,
    };
    let payload_bytes = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
    Ok(StreamShape::Plain { payload_bytes, period: (period.picoseconds, 1_000) })
}

/// The source's way of waiting.
pub fn pace(mode: PaceMode) -> Pace {
    match mode {
        PaceMode::Spin => Pace::Spin,
        PaceMode::Sleep => Pace::Sleep,
        PaceMode::Hybrid => Pace::Hybrid,
        PaceMode::Txtime => Pace::Txtime,
    }
}

/// The sink's way of waiting.
pub fn receive(mode: ReceiveMode) -> Receive {
    match mode {
        ReceiveMode::Poll => Receive::Poll,
        ReceiveMode::Block => Receive::Block,
        ReceiveMode::Epoll => Receive::Epoll,
        ReceiveMode::BusyPoll => Receive::BusyPoll,
    }
}
