//! `quaver extcap`: the four calls by which Wireshark and tshark list and start captures of others
//! (Wireshark Developer's Guide, section 8.2).

use crate::args::CaptureArgs;
use crate::capture;
use crate::record::{ANY, Filter, LinkKind, MOST_SNAP_BYTES, TapInterface};
use anyhow::Context;
use clap::{Args, Command, FromArgMatches};
use quaver_instrument::exit_code::{ExitCode, failure};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Stands before the interface's own name, for Wireshark lists that too.
const PREFIX: &str = "quaver-";

/// `quaver extcap`.
#[derive(Debug, Args)]
#[command(after_help = "\
Wireshark calls this through the script quaver-extcap. `make install` puts it into
PREFIX/lib/quaver/extcap. Link it into Wireshark's folder of extcap programs once:

  tshark -G folders                prints that folder
  ln -s /usr/local/lib/quaver/extcap/quaver-extcap FOLDER

Its stamps are fields and columns with PREFIX/lib/quaver/wireshark/quaver.lua, linked into the
folder of Lua plugins.

  tshark -i quaver-eth0            capture by Quaver
  tshark -D                        lists quaver-NAME for each interface
  tshark -r FILE -T fields -e quaver.kernel -e quaver.tc.stage     stamps of a capture")]
pub struct ExtcapArgs {
    /// List interfaces
    #[arg(long)]
    extcap_interfaces: bool,
    /// Print the link type of an interface
    #[arg(long, requires = "extcap_interface")]
    extcap_dlts: bool,
    /// Print the options of an interface
    #[arg(long, requires = "extcap_interface")]
    extcap_config: bool,
    /// Capture to --fifo
    #[arg(long, requires = "extcap_interface", requires = "fifo")]
    capture: bool,
    /// Interface, as listed
    #[arg(long, value_name = "NAME")]
    extcap_interface: Option<String>,
    /// Version of the caller
    #[arg(long, value_name = "VERSION")]
    extcap_version: Option<String>,
    /// Capture filter (tcpdump syntax)
    #[arg(long, value_name = "EXPR")]
    extcap_capture_filter: Option<String>,
    /// Where to write pcapng
    #[arg(long, value_name = "FILE")]
    fifo: Option<PathBuf>,
    /// Additional timestamps, as for `quaver capture`
    #[arg(long, default_value = "auto", value_name = "LIST")]
    layers: String,
    /// Deliver packets one by one
    #[arg(long)]
    immediate: bool,
}

/// Answers Wireshark, or captures for it.
///
/// # Errors
/// The interface is not one of those listed, or the capture fails.
pub fn run(args: &ExtcapArgs) -> anyhow::Result<ExitCode> {
    if args.extcap_interfaces {
        // Lines of others than the kernel's table of interfaces have no colon.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").context("listing interfaces")?;
        quaver_instrument::results::to_stdout(interfaces(&table).as_bytes())?;
        return Ok(ExitCode::Done);
    }
    let Some(listed) = &args.extcap_interface else {
        let message = "Wireshark calls this program: start Wireshark or tshark, or use quaver capture";
        return Err(failure(ExitCode::Usage, message));
    };
    let interface = listed.strip_prefix(PREFIX).ok_or_else(|| {
        failure(ExitCode::Usage, format!("{listed}: not listed; names begin with {PREFIX}"))
    })?;
    if args.extcap_dlts {
        let found =
            TapInterface::find(interface).map_err(|error| failure(ExitCode::Usage, error.to_string()))?;
        quaver_instrument::results::to_stdout(link_type(found.link).as_bytes())?;
    } else if args.extcap_config {
        quaver_instrument::results::to_stdout(CONFIG.as_bytes())?;
    } else if args.capture {
        return capture_for_wireshark(args, interface);
    } else if let Some(filter) = &args.extcap_capture_filter {
        // A call with none of these checks the filter, and prints what is wrong with it.
        quaver_instrument::results::to_stdout(wrong_with(filter, interface).as_bytes())?;
    }
    Ok(ExitCode::Done)
}

fn interfaces(table: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!("extcap {{version={version}}}{{display=Quaver: packets with every stamp}}\n");
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    for name in names.chain([ANY]) {
        let _ = writeln!(out, "interface {{value={PREFIX}{name}}}{{display=Quaver: {name}}}");
    }
    out
}

/// The link type by its number in libpcap, which differs from that in files for raw IP, and its names there.
fn link_type(link: LinkKind) -> &'static str {
    match link {
        LinkKind::Ethernet => "dlt {number=1}{name=EN10MB}{display=Ethernet}\n",
        LinkKind::Cooked => "dlt {number=276}{name=LINUX_SLL2}{display=Linux cooked v2}\n",
        LinkKind::RawIp => "dlt {number=12}{name=RAW}{display=Raw IP}\n",
    }
}

const CONFIG: &str = "\
arg {number=0}{call=--layers}{display=Additional timestamps}{type=selector}{tooltip=Stamps beside the kernel's}
value {arg=0}{value=auto}{display=auto (changes no setting)}{default=true}
value {arg=0}{value=none}{display=none}{default=false}
value {arg=0}{value=all}{display=all (changes a setting of the interface)}{default=false}
arg {number=1}{call=--immediate}{display=Deliver packets one by one}{type=boolflag}{default=false}
";

/// Captures until Wireshark closes the pipe or ends this process, both of which are orderly.
fn capture_for_wireshark(args: &ExtcapArgs, interface: &str) -> anyhow::Result<ExitCode> {
    let fifo = args.fifo.as_deref().context("--capture needs --fifo")?;
    let mut words: Vec<OsString> =
        ["quaver", "--quiet", "--layers", &args.layers, "-i", interface].map(OsString::from).to_vec();
    words.extend([OsString::from("-o"), fifo.into()]);
    if args.immediate {
        words.push("--immediate".into());
    }
    if let Some(filter) = args.extcap_capture_filter.as_ref().filter(|filter| !filter.is_empty()) {
        words.extend(["--filter".into(), OsString::from(filter)]);
    }
    let matches = CaptureArgs::augment_args(Command::new("quaver")).try_get_matches_from(words);
    let matches = matches.map_err(|error| failure(ExitCode::Usage, first_words(&error.to_string())))?;
    match capture::run(&CaptureArgs::from_arg_matches(&matches)?) {
        Ok(ExitCode::Interrupted) => Ok(ExitCode::Done),
        Err(error) => {
            end_of(fifo);
            Err(error)
        }
        other => other,
    }
}

/// What an error of arguments says, without the hints behind it.
fn first_words(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// What is wrong with a filter for the interface; nothing where it can be used, or the interface is not there.
fn wrong_with(filter: &str, interface: &str) -> String {
    let Ok(found) = TapInterface::find(interface) else { return String::new() };
    let compiled = Filter::for_interface(filter, interface, found.link, MOST_SNAP_BYTES);
    compiled.map_or_else(|error| format!("{error}\n"), |_| String::new())
}

/// Ends the pipe for its reader: tshark waits for the first writer, whatever became of this process.
fn end_of(fifo: &Path) {
    let mut open = OpenOptions::new();
    // Without a reader there is nobody to tell.
    let _ = open.write(true).custom_flags(libc::O_NONBLOCK).open(fifo);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_the_capture_refuses_are_told_in_a_sentence() {
        let refused = "error: invalid value 'no' for '--layers <LIST>': unknown layer `no`\n\nFor more information, try";
        assert_eq!(first_words(refused), "invalid value 'no' for '--layers <LIST>': unknown layer `no`");
        assert_eq!(first_words(""), "");
        let wrong = wrong_with("udp prot 5", "lo");
        assert!(wrong.contains("syntax error") && wrong.ends_with('\n'), "{wrong}");
        assert_eq!(
            (wrong_with("udp port 5", "lo"), wrong_with("udp", "nobody0")),
            (String::new(), String::new())
        );
    }

    #[test]
    fn interfaces_are_listed_as_wireshark_reads_them() {
        let table = "Inter-|   Receive |\n face |bytes |\n    lo: 1 2 3\neth0.5: 4 5\n";
        let expected = format!(
            "extcap {{version={}}}{{display=Quaver: packets with every stamp}}\n\
             interface {{value=quaver-lo}}{{display=Quaver: lo}}\n\
             interface {{value=quaver-eth0.5}}{{display=Quaver: eth0.5}}\n\
             interface {{value=quaver-any}}{{display=Quaver: any}}\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(interfaces(table), expected);
    }
}
