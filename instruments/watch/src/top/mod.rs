//! `quaver top`: what a running watch knows, live.

mod draw;
mod history;
mod plain;

use crate::serve;
use clap::Args;
use history::History;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::quantity;
use quaver_instrument::results::to_stdout;
use quaver_screen::LiveView;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two questions to the watch.
const EACH: Duration = Duration::from_secs(1);
/// Longest sleep between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
const NO_TERMINAL: &str = "use --plain or --json-lines for a pipe or a file";

/// `quaver top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver top                          all receivers of the watch that runs as a service
  quaver top --socket ./watch.sock    of another watch
  quaver top --plain                  a line for each receiver and second, for a pipe or a screen reader
  quaver top --json-lines --for 10s   ten seconds of figures, as docs/formats.md says

Rates, losses and quantiles are of the last 10 s. Quantiles are bounds: `≤ 50 µs` is a bucket of the watch.
Late time and incidents count since the watch began. `quaver report RUN` opens an incident.
Keys: q end, p hold, Tab or arrows up and down another receiver, arrows left and right another time, ? help.")]
pub(crate) struct TopArgs {
    /// Unix socket of the watch
    #[arg(long, default_value = crate::config::USUAL_SOCKET, value_name = "PATH")]
    socket: PathBuf,
    /// Print lines instead of a screen; what is no terminal gets them anyway
    #[arg(long, conflicts_with = "json_lines")]
    plain: bool,
    /// Print all figures each second as a line of JSON
    #[arg(long)]
    json_lines: bool,
    /// End after so long [default: at q or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::duration)]
    duration: Option<Duration>,
}

/// Shows it until the user ends it. Where no watch answers at the beginning, that is an error; later, it is shown.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let mut history = History::new(args.socket.display().to_string());
    history.push(serve::figures(&args.socket)?);
    let on_screen = !args.plain && !args.json_lines && std::io::stdout().is_terminal();
    let view = on_screen.then(|| LiveView::open(history.clone(), &interrupt, NO_TERMINAL)).transpose()?;
    let end = args.duration.map(|duration| Instant::now() + duration);
    let mut next = Instant::now();
    loop {
        if let Some(view) = &view {
            view.update(|shown, _| shown.clone_from(&history));
        } else if args.json_lines {
            let line = history.newest().map(serde_json::to_string).transpose()?;
            to_stdout(format!("{}\n", line.unwrap_or_default()).as_bytes())?;
        } else {
            to_stdout(plain::lines(&history).as_bytes())?;
        }
        next = (next + EACH).max(Instant::now());
        while Instant::now() < next {
            if interrupt.requested() || end.is_some_and(|end| Instant::now() >= end) {
                return Ok(ExitCode::Done);
            }
            std::thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
        }
        match serve::figures(&args.socket) {
            Ok(figures) => history.push(figures),
            Err(error) if view.is_some() => history.miss(&error),
            Err(error) => return Err(error),
        }
    }
}
