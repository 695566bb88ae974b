//! The command line of `quaver watch`.

use crate::config::{EXAMPLE, Settings};
use crate::{daemon, serve};
use clap::{Args, Subcommand};
use quaver_exposition::Access;
use quaver_instrument::exit_code::ExitCode;
use std::path::{Path, PathBuf};

/// Where the service has its settings.
const USUAL_FILE: &str = "/etc/quaver/watch.toml";

/// `quaver watch`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver watch --example > watch.toml     a documented file of settings
  quaver watch --check watch.toml         judge a file
  quaver watch --config watch.toml        watch until SIGTERM or Ctrl-C; SIGHUP reads the file again
  quaver watch trigger                    keep the last seconds now (as SIGUSR1 does)
  quaver runs --root /var/lib/quaver/watch/incidents

A trigger keeps the seconds around it as an incident, which names the cause of each late packet as a chase does.
Waits for a CPU are counted for control groups and CPUs. The incident of a long one names what ran meanwhile.
Packets to reflectors of STAMP are counted, with losses and round trips, for the metrics.
Receivers and threads need root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE; paths need nothing.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WatchArgs {
    /// File of settings
    #[arg(long, default_value = USUAL_FILE, value_name = "FILE")]
    config: PathBuf,
    /// Print a documented file of settings
    #[arg(long, conflicts_with_all = ["check", "config"])]
    example: bool,
    /// Judge a file of settings, /etc/quaver/watch.toml unless another is named, and end
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = USUAL_FILE, conflicts_with = "config")]
    check: Option<PathBuf>,
    #[command(subcommand)]
    ask: Option<Ask>,
}

/// What a running watch is asked.
#[derive(Debug, Subcommand)]
enum Ask {
    /// Keep the last seconds of a receiver, or of all, as an incident
    Trigger {
        /// Name of the receiver [default: all]
        #[arg(long, value_name = "NAME")]
        receiver: Option<String>,
        #[command(flatten)]
        at: SocketArgs,
    },
    /// Print what is watched, the seconds held, incidents, and the watch's own cost
    Status(SocketArgs),
    /// Print the metrics as OpenMetrics text
    Metrics(SocketArgs),
}

/// Which watch.
#[derive(Debug, Args)]
struct SocketArgs {
    /// Unix socket of the watch
    #[arg(long, default_value = crate::config::USUAL_SOCKET, value_name = "PATH")]
    socket: PathBuf,
}

/// Does what was asked.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    match &args.ask {
        Some(Ask::Trigger { receiver, at }) => {
            let target =
                receiver.as_ref().map_or("/trigger".to_owned(), |name| format!("/trigger?receiver={name}"));
            return print_answer(&at.socket, "POST", &target);
        }
        Some(Ask::Status(at)) => return print_answer(&at.socket, "GET", "/status"),
        Some(Ask::Metrics(at)) => return print_answer(&at.socket, "GET", "/metrics"),
        None => {}
    }
    if args.example {
        quaver_instrument::results::to_stdout(EXAMPLE.as_bytes())?;
        return Ok(ExitCode::Done);
    }
    if let Some(file) = &args.check {
        let settings = Settings::read(file)?;
        Access::read(&settings.metrics_access)?;
        let names: Vec<&str> = settings.names().collect();
        let good = format!("{}: good; watched: {}\n", file.display(), names.join(", "));
        quaver_instrument::results::to_stdout(good.as_bytes())?;
        return Ok(ExitCode::Done);
    }
    daemon::run(&args.config)
}

fn print_answer(socket: &Path, method: &str, target: &str) -> anyhow::Result<ExitCode> {
    quaver_instrument::results::to_stdout(serve::ask(socket, method, target)?.as_bytes())?;
    Ok(ExitCode::Done)
}
