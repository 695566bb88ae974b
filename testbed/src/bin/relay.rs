//! The impairment relay as a program: stands between a client and a server until it is interrupted.

use anyhow::Context;
use clap::Parser;
use quaver_testbed::relay::script::Script;
use quaver_testbed::relay::{Keep, Relay, RelayOptions, Report, Totals};
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

/// Stands between a client and a server, does to their packets what a script says, and logs what it did.
///
/// Clients connect to the relay as if it were the server. Test packets (UDP) are dropped, duplicated, held back,
/// delayed, corrupted or misdated by rules, each way by its own; connections (control, and TCP test flows) pass as
/// they are. What happens to a packet follows from the seed and its arrival number, so a run can be repeated. End it
/// with Ctrl-C: it then prints what it did.
#[derive(Parser)]
#[command(version, after_help = AFTER)]
struct Options {
    /// Control port of the server that clients are led to (TCP)
    #[arg(value_name = "SERVER:PORT", required_unless_present = "example")]
    server: Option<SocketAddr>,
    /// Port of the server's test packets, UDP and TCP
    #[arg(long, value_name = "PORT", default_value_t = 2667)]
    server_test_port: u16,
    /// Address that clients take for the server
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port of control connections here; 0: any
    #[arg(long, value_name = "PORT", default_value_t = 12666)]
    control_port: u16,
    /// Port of test packets here; 0: any
    #[arg(long, value_name = "PORT", default_value_t = 12667)]
    test_port: u16,
    /// What to do to which packets; without it, nothing (see --example)
    #[arg(long, value_name = "FILE.toml")]
    script: Option<PathBuf>,
    /// Take this seed instead of the script's
    #[arg(long)]
    seed: Option<u64>,
    /// Write what happened to each datagram, a line of JSON each
    #[arg(long, value_name = "FILE.jsonl")]
    log: Option<PathBuf>,
    /// Print a script that explains all there is, and end
    #[arg(long)]
    example: bool,
}

const AFTER: &str = "\
Example, three terminals on one machine:
  quaver serve
  relay --example > lossy.toml; relay 127.0.0.1:2666 --script lossy.toml --log truth.jsonl
  quaver probe 127.0.0.1:12666

The relay puts its own port of test packets into the server's answers. It cannot where these carry the code of a key:
then let it listen on another address than the server's with the server's port (--listen 127.0.0.2 --test-port 2667).";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let Some(server) = options.server.filter(|_| !options.example) else {
        print!("{}", include_str!("../relay/example.toml"));
        return Ok(());
    };
    let mut script = Script::default();
    if let Some(path) = &options.script {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        script = Script::from_toml(&text).with_context(|| format!("in {}", path.display()))?;
    }
    script.seed = options.seed.unwrap_or(script.seed);
    let keep = match &options.log {
        None => Keep::Totals,
        Some(path) => {
            let file = std::fs::File::create(path).with_context(|| format!("making {}", path.display()))?;
            Keep::Lines(Box::new(BufWriter::with_capacity(1 << 20, file)))
        }
    };
    let mut signals = signal_hook::iterator::Signals::new([libc::SIGINT, libc::SIGTERM])?;
    let seed = script.seed;
    let relay = Relay::start(RelayOptions {
        listen: options.listen,
        control_port: options.control_port,
        test_port: options.test_port,
        server_control: Some(server),
        server_test: SocketAddr::new(server.ip(), options.server_test_port),
        script,
        keep,
    })?;
    if let Some(control) = relay.control_address() {
        let test = relay.test_address().port();
        eprintln!(
            "relay: {control} (test packets: port {test}) leads to {server}, seed {seed}; Ctrl-C ends it"
        );
    }
    signals.forever().next();
    let report = relay.stop()?;
    print(&report).context("writing the totals")
}

fn print(report: &Report) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let row = |name: &str, value: fn(&Totals) -> u64| {
        format!("{name:<34}{:>12}{:>12}\n", value(&report.totals.up), value(&report.totals.down))
    };
    let mut text = format!("{:<34}{:>12}{:>12}\n", "test packets", "up", "down");
    text += &row("  arrived", |totals| totals.arrived);
    text += &row("  dropped by a rule", |totals| totals.dropped);
    text += &row("  sent on, with copies", |totals| totals.sent_on);
    text += &row("    beyond the first", |totals| totals.copies);
    text += &row("    with flipped bits", |totals| totals.corrupted);
    text += &row("    let go at the end", |totals| totals.let_go);
    text += &row("  refused by the system", |totals| totals.failed);
    text += &row("  still waiting", |totals| totals.waiting);
    text += &row("sentinels", |totals| totals.sentinels);
    text += &row("other datagrams", |totals| totals.others);
    out.write_all(text.as_bytes())?;
    writeln!(out, "flows: {}", report.clients.len())?;
    if report.unread + report.refused > 0 {
        let (unread, refused) = (report.unread, report.refused);
        writeln!(
            out,
            "WARNING: {unread} datagrams lost before the relay read them, {refused} of too many clients"
        )?;
    }
    Ok(())
}
