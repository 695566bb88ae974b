//! `quaver serve`: the far end of a path measurement.

mod metrics;

use crate::args::{PaceName, ServeArgs};
use crate::thread::{spinners_loss, thread};
use anyhow::Context;
use quaver_host::confinement::{Files, SERVER};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::settings::journal::DIRECTORY as JOURNAL;
use quaver_instrument::envelope::Envelope;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_path_record::auth::Key;
use quaver_path_record::stamp::{Caps, Protection, ReflectorOptions, ReflectorTotals, StampKey, reflect};
use quaver_path_record::{Budget, ClockEstimate, Limits, ServerOptions, Shown, serve};
use quaver_view::Document;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Name and version of a line of `--json`.
const LINE_SCHEMA: &str = "quaver.serve.line/1";

/// Serves until it is told to end.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let key = args.key_file.as_deref().map(read_key).transpose()?;
    let mut options = ServerOptions {
        control_port: args.port,
        legacy: args.legacy,
        owamp_port: args.owamp,
        twamp_port: args.twamp,
        limits: Limits {
            packets_per_second: args.max_rate,
            reflected_packets_per_second: args.max_stamp_rate.into(),
            duration: args.max_duration,
            rolling_packets_per_second: args.max_rolling_rate,
            budget: budget(args),
            sessions: Limits::default().sessions.max(2 * usize::from(args.max_tests.unwrap_or(0))),
            ..Limits::default()
        },
        key: key.as_deref().map(path_key).transpose()?,
        ..ServerOptions::default()
    };
    (options.pace, options.thread) = thread(&args.thread)?;
    if let Some(loss) = spinners_loss(&args.thread, &HostFacts::read(&HostRoot::system()).scheduling) {
        say(args.json, &loss);
    }
    if let Some(test_port) = args.test_port {
        options.test_port = test_port;
    }
    options.listen = args.bind.map_or(options.listen, |address| vec![address]);
    let reflected: Shown<ReflectorTotals> = Shown::default();
    let (served, reflector) = (options.figures.clone(), args.stamp.map(|_| reflected.clone()));
    let place = args.metrics.serve("quaver_serve", move || {
        let reflector = reflector.as_ref().map(Shown::read);
        metrics::families(&served.read(), reflector.as_ref(), ClockEstimate::kernel().as_ref())
    })?;
    place.iter().for_each(|place| say(args.json, place));
    give_up_rights(args, &options);
    std::thread::scope(|scope| {
        let reflector = args.stamp.map(|port| {
            let (interrupt, key, figures) = (&interrupt, key.as_deref(), reflected.clone());
            let reflect = move || reflect_stamp(args, port, key, figures, interrupt);
            quaver_waiting::start_in(scope, "quaver-stamp", reflect)
        });
        let reflector = reflector.transpose().context("serving STAMP")?;
        let served = serve(options, interrupt.flag(), &mut |event| say(args.json, &event.to_string()));
        if served.is_err() {
            // The reflector ends with the server.
            interrupt.request();
        }
        let reflected =
            reflector.map_or(Ok(()), |thread| thread.join().expect("the reflector does not panic"));
        served.context("serving")?;
        reflected
    })?;
    if args.json {
        let document = Document::new("quaver serve", "log");
        print(&Envelope::of(&document, None, ExitCode::Done).in_line(&line("it ended as it was asked to"))?);
    }
    Ok(ExitCode::Done)
}

/// Before the first peer is heard: all rights but those for sockets, stamps and real-time threads.
fn give_up_rights(args: &ServeArgs, options: &ServerOptions) {
    // Clocks of interfaces. To have an interface stamp, the journal of settings is written.
    let entries = std::fs::read_dir("/sys/class/ptp").into_iter().flatten().flatten();
    let mut writes: Vec<PathBuf> = entries.map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    if !writes.is_empty() {
        // Where it cannot be made, stamping fails as it does without rights, with its sentence.
        let _ = std::fs::create_dir_all(JOURNAL);
        writes.push(JOURNAL.into());
    }
    let write: Vec<&Path> = writes.iter().map(PathBuf::as_path).collect();
    let read = [Path::new("/proc"), Path::new("/sys")];
    // Jitlat's own protocol has TCP connections to ports that the peer names. A port that the system is yet to choose cannot be
    // named here. TCP listens later at the test port, and then at a second address at the port that the first was given.
    let others = [options.owamp_port, options.twamp_port];
    let own = [options.control_port, options.test_port, 0];
    let ports: Vec<u16> = own.into_iter().chain(others.into_iter().flatten()).collect();
    let free = args.legacy || own[..2].contains(&0) || others.contains(&Some(0));
    let confined = SERVER.keep_ports(
        Some(Files { read: &read, write: &write, ..Files::default() }),
        if free { &[] } else { &ports },
    );
    if !confined.is_whole() {
        say(args.json, &format!("not confined in full: {confined}"));
    }
}

/// What all tests at a time may need.
fn budget(args: &ServeArgs) -> Budget {
    let usual = Budget::default();
    let packets_per_second = args.max_total_rate.unwrap_or(args.max_rate.saturating_mul(2));
    // A sender that never sleeps leaves its CPU to nobody.
    let tests = if args.thread.pace == PaceName::Spin { 1 } else { usual.tests };
    Budget {
        tests: args.max_tests.map_or(tests, usize::from),
        packets_per_second,
        share_packets_per_second: (packets_per_second / 2).max(args.max_rate).min(packets_per_second),
        ..usual
    }
}

/// Reflects until it is told to end; ends the server if it cannot.
fn reflect_stamp(
    args: &ServeArgs,
    port: u16,
    key: Option<&[u8]>,
    figures: Shown<ReflectorTotals>,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let protection = match key {
        Some(key) => {
            Protection::All(StampKey::new(key).map_err(|error| failure(ExitCode::Usage, error.to_string()))?)
        }
        None => Protection::None,
    };
    let bind = SocketAddr::new(args.bind.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port);
    let all = Caps::default().packets_per_second.max(args.max_stamp_rate);
    let caps =
        Caps { packets_per_second: all, packets_per_second_per_peer: args.max_stamp_rate, ..Caps::default() };
    let short_from = args.stamp_short_from.iter().map(IpAddr::to_canonical).collect();
    let options =
        ReflectorOptions { bind, protection, caps, short_from, figures, ..ReflectorOptions::default() };
    let reflected =
        reflect(&options, interrupt.flag(), &mut |event| say(args.json, &format!("STAMP: {event}")));
    if reflected.is_err() {
        interrupt.request();
    }
    reflected.context("reflecting STAMP packets").map(drop)
}

/// A line of the log, on standard error with the time, or as JSON on standard output.
fn say(json: bool, event: &str) {
    if json {
        print(&format!("{}\n", line(event)));
    } else {
        quaver_instrument::tell!("{} {event}", now());
    }
}

fn line(event: &str) -> Value {
    json!({"schema": LINE_SCHEMA, "time": now(), "event": event})
}

fn now() -> String {
    quaver_store::utc::rfc3339_utc(quaver_clock::realtime_ns())
}

/// Whoever read this may have gone; serving others goes on.
fn print(line: &str) {
    let _ = quaver_instrument::results::to_stdout(line.as_bytes());
}

/// The bytes of a key file, without white space at the end.
pub fn read_key(path: &Path) -> anyhow::Result<Vec<u8>> {
    let octets = std::fs::read(path).with_context(|| format!("read the key file {}", path.display()))?;
    Ok(octets.trim_ascii_end().to_vec())
}

/// The key of a key file's bytes.
pub fn path_key(octets: &[u8]) -> anyhow::Result<Key> {
    Key::new(octets).map_err(|error| failure(ExitCode::Usage, error.to_string()))
}

#[cfg(test)]
pub(crate) fn some_families() -> Vec<quaver_exposition::Family> {
    metrics::families(&Default::default(), Some(&ReflectorTotals::default()), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Serve {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn of(options: &[&str]) -> Budget {
        budget(&Serve::parse_from(["serve"].iter().chain(options)).args)
    }

    #[test]
    fn one_peer_has_half_and_at_least_one_test_of_the_greatest_rate() {
        let packets =
            |options: &[&str]| (of(options).packets_per_second, of(options).share_packets_per_second);
        assert_eq!(packets(&[]), (1_000_000, 500_000));
        assert_eq!(packets(&["--max-rate", "1000"]), (2_000, 1_000));
        assert_eq!(packets(&["--max-rate", "1000", "--max-total-rate", "9000"]), (9_000, 4_500));
        assert_eq!(packets(&["--max-rate", "1000", "--max-total-rate", "1500"]), (1_500, 1_000));
        assert_eq!(packets(&["--max-rate", "1000", "--max-total-rate", "500"]), (500, 500));
    }

    #[test]
    fn a_spinner_has_one_test_at_a_time_unless_more_are_asked_for() {
        assert_eq!(of(&[]).tests, 32);
        assert_eq!(of(&["--pace", "spin"]).tests, 1);
        assert_eq!(of(&["--pace", "spin", "--max-tests", "3"]).tests, 3);
    }
}
