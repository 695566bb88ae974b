//! Options of `quaver capture`.

pub mod breach;
pub mod compare;

use crate::pipeline::PipelineKind;
use crate::record::Fanout;
use breach::{BreachLimits, limits};
use clap::{Args, ValueEnum};
use compare::CompareArgs;
use quaver_abi::stamp::Layer;
use quaver_instrument::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver capture -i eth0 -o out.pcapng                 until Ctrl-C
  quaver capture -i eth0 -o out.pcapng udp port 5004   a filter in the language of tcpdump
  quaver capture -i eth0 -o ring.pcapng --ring-files 10 --file-size 100MB
  quaver capture -i eth0 -o - | tshark -r -            to a pipe
  quaver capture -i eth0 --qos --layer xdp             live figures per flow
  quaver capture -i eth0 -o ring.pcapng --ring-files 4 --file-time 10s --qos --breach loss=1%
                                                       keep the files around each loss
  quaver capture -i eth0 -o out.pcapng --stamp raw     raw cycles of each packet, converted later
  quaver capture --compare --quick                     cost of each timestamping method on this machine

Each received packet carries every available timestamp, with its clock and error bound:
  nic          hardware timestamp of the interface; changes an interface setting
  xdp          BPF program in the driver (xdp-generic: in the stack, after the kernel's stamp)
  kernel       on entry into the stack; always present, and the packet time in the file unless
               --layer says otherwise. Receivers get this same stamp from
               SOF_TIMESTAMPING_RX_SOFTWARE
  raw          the processor's counter, read in the kernel at netif_receive_skb and converted later
               by another thread; only with --stamp raw. The page says how it was read
  tc           BPF program at the ingress hook (tc-clsact: for kernels before 6.6, chosen
               automatically)
  application  Quaver's own stamp, per block of packets, or per packet with --immediate
Sent packets have the kernel and application stamps. `quaver analyze FILE` shows flows, and the
time between layers.

seen = captured + dropped at named places. While a capture runs, the kernel stamps every packet of
every namespace.

Ctrl-C exits with 0 if no other end was requested, else with 130; a removed interface exits with 6.
The capture is kept in every case. Settings (--layers nic, --cores softirq) are restored at the end;
after kill -9 by `quaver tune revert`, or by the next quaver that changes settings.")]
pub struct CaptureArgs {
    /// Interface, or `any` for all (repeatable)
    #[arg(short, long, value_name = "NAME")]
    pub interface: Vec<String>,
    /// Where to write, - for standard output
    #[arg(short, long, visible_short_alias = 'w', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep only packets that pass this filter (man pcap-filter)
    #[arg(long, value_name = "EXPR", conflicts_with = "expression")]
    pub filter: Option<String>,
    /// Capture filter (tcpdump syntax)
    #[arg(value_name = "EXPR", trailing_var_arg = true)]
    pub expression: Vec<String>,
    /// Snap length: bytes kept per packet
    #[arg(short = 's', long, default_value_t = 262_144, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub snaplen: u32,
    /// Direction: received, sent, or both (on loopback each packet appears once)
    #[arg(long, value_enum, default_value = "both", value_name = "WHICH")]
    pub direction: WantedDirection,
    /// Do not enable promiscuous mode
    #[arg(short = 'p', long)]
    pub no_promiscuous: bool,
    /// Additional timestamps: auto (changes no setting), none, all, or a list of nic, xdp, xdp-generic, tc, tc-clsact
    #[arg(long, default_value = "auto", value_parser = layers, value_name = "LIST")]
    pub layers: LayerChoice,
    /// Layer whose stamp is the packet time in the file and for --qos
    #[arg(long, visible_alias = "stamp", default_value = "kernel", value_parser = layer, value_name = "LAYER")]
    pub layer: Layer,
    /// How application stamps, or with --stamp raw those, are converted from cycles to time
    #[arg(long, default_value = "batch", value_name = "inline-clock|inline-cycles|threaded[:N]|batch")]
    pub pipeline: PipelineKind,
    /// CPUs, for example softirq=0,capture=0,write=1 (with --pipeline threaded also convert=N; softirq and capture on one CPU:
    /// the overload case); softirq steering is restored at the end
    #[arg(long, value_parser = cores, value_name = "ROLE=CPU,...")]
    pub cores: Option<CoreChoice>,
    /// Kernel ring buffer per interface; all together at most three quarters of the memory that the host and the control group
    /// have left
    #[arg(long, default_value = "64MiB", value_parser = size, value_name = "SIZE")]
    pub buffer: u64,
    /// Maximum time a packet waits in the ring [default: 10ms; 100ms into a file with --layers none]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME", conflicts_with = "immediate")]
    pub block_timeout: Option<Duration>,
    /// Deliver packets one by one, so each has its own application stamp: one wake-up per packet, and ring space of -s bytes
    /// each
    #[arg(long)]
    pub immediate: bool,
    /// Rings and capture threads per interface, among which the kernel shares its packets (PACKET_FANOUT); they share --buffer, and
    /// the file has all in order of time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub fanout: u8,
    /// By what packets are shared, with --fanout
    #[arg(long, value_enum, default_value = "cpu", value_name = "TYPE")]
    pub fanout_type: Fanout,
    /// End after this time
    #[arg(long = "for", value_parser = quantity::duration, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// End after this many packets
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after this much output
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub size_limit: Option<u64>,
    /// Keep the latest N files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "output")]
    pub ring_files: Option<u32>,
    /// Start a new file at this size
    #[arg(long, value_parser = size, value_name = "SIZE", requires = "output")]
    pub file_size: Option<u64>,
    /// Start a new file after this time
    #[arg(long, value_parser = quantity::duration, value_name = "TIME", requires = "output")]
    pub file_time: Option<Duration>,
    /// Show each flow's delay, delay variation, loss and reordering as it is captured
    #[arg(long)]
    pub qos: bool,
    /// Keep the files around a breach for good: what no stream may suffer in ten seconds, at most as many as ten times --ring-files
    #[arg(long, value_parser = limits, value_name = "loss=1%,pdv=20ms,interarrival=5ms,mos=3.6",
          requires = "qos", requires = "ring_files")]
    pub breach: Option<BreachLimits>,
    /// Drop privileges to this user after opening
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// No progress output
    #[arg(short, long)]
    pub quiet: bool,
    /// Comparison of methods
    #[command(flatten)]
    pub compare: CompareArgs,
}

/// Which packets, by their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WantedDirection {
    /// Received
    In,
    /// Sent
    Out,
    /// Both
    Both,
}

/// Stamps that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerChoice {
    /// What can be had without touching a device's settings.
    pub auto: bool,
    /// The interface's.
    pub nic: bool,
    /// XDP in the driver.
    pub xdp: bool,
    /// XDP in the stack.
    pub xdp_generic: bool,
    /// TC.
    pub tc: bool,
    /// TC by a filter, as kernels without tcx have it.
    pub tc_filter: bool,
}

/// A list of layers.
fn layers(text: &str) -> Result<LayerChoice, String> {
    let none =
        LayerChoice { auto: false, nic: false, xdp: false, xdp_generic: false, tc: false, tc_filter: false };
    match text {
        "auto" => return Ok(LayerChoice { auto: true, ..none }),
        "none" => return Ok(none),
        "all" => return Ok(LayerChoice { nic: true, xdp: true, tc: true, ..none }),
        _ => {}
    }
    let mut choice = none;
    for word in text.split(',') {
        match word.trim() {
            "nic" => choice.nic = true,
            "xdp" => choice.xdp = true,
            "xdp-generic" => choice.xdp_generic = true,
            "tc" => choice.tc = true,
            "tc-clsact" => choice.tc_filter = true,
            // These are always there.
            "kernel" | "application" => {}
            "raw" => return Err("ask for raw cycles with --stamp raw".to_owned()),
            "socket" => {
                return Err(
                    "the socket stamp is the kernel stamp, which every packet has: remove it".to_owned()
                );
            }
            other => {
                return Err(format!(
                    "unknown layer `{other}`: choose auto, none, all, or a list of nic, xdp, xdp-generic, tc, tc-clsact"
                ));
            }
        }
    }
    // XDP's stamp comes with TC's.
    choice.tc |= choice.xdp || choice.xdp_generic;
    Ok(choice)
}

fn layer(text: &str) -> Result<Layer, String> {
    let there = [Layer::Nic, Layer::Xdp, Layer::Kernel, Layer::Raw, Layer::Tc, Layer::Application];
    there
        .into_iter()
        .find(|layer| layer.name() == text)
        .ok_or_else(|| format!("unknown layer `{text}`: choose {}", there.map(Layer::name).join(", ")))
}

/// CPUs of the roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreChoice {
    /// Where the kernel is to process packets of the interfaces.
    pub softirq: Option<u16>,
    /// The capture thread's.
    pub capture: Option<u16>,
    /// The writing thread's.
    pub write: Option<u16>,
    /// The converter threads'.
    pub convert: Vec<u16>,
}

/// CPUs by role. Threads that run all the time beside each other must not share one.
fn cores(text: &str) -> Result<CoreChoice, String> {
    let mut choice = CoreChoice::default();
    for part in text.split(',') {
        let example = || format!("`{part}`: expected ROLE=CPU, for example capture=0,write=1");
        let (role, cpu) = part.split_once('=').ok_or_else(example)?;
        let cpu: u16 = cpu.trim().parse().map_err(|_| example())?;
        match role.trim() {
            "softirq" => choice.softirq = Some(cpu),
            "capture" => choice.capture = Some(cpu),
            "write" => choice.write = Some(cpu),
            "convert" => choice.convert.push(cpu),
            other => {
                return Err(format!("unknown role `{other}`: choose from capture, write, convert, softirq"));
            }
        }
    }
    Ok(choice)
}

/// A size such as `64MiB`, `100MB` or `16KiB`.
fn size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    let per_unit = match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "" => return Err(format!("`{trimmed}` has no unit: write for example `{trimmed}MB`")),
        other => return Err(format!("unknown unit `{other}`: use B, kB, MB, GB, KiB, MiB or GiB")),
    };
    let value: f64 = number.parse().map_err(|_| format!("`{trimmed}`: not a size, for example `64MiB`"))?;
    let octets = value * per_unit;
    if (1.0..1e18).contains(&octets) {
        Ok(octets as u64)
    } else {
        Err("must be from 1 B to 10^18 B".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!((size("64MiB"), size("1.5 kB"), size("7B")), (Ok(64 << 20), Ok(1500), Ok(7)));
        assert!(size("64").unwrap_err().contains("no unit") && size("0B").is_err() && size("x").is_err());
    }

    #[test]
    fn layers_bring_what_they_need() {
        let choice = layers("xdp,kernel").unwrap();
        assert!(choice.xdp && choice.tc && !choice.nic && !choice.auto);
        assert!(layers("all").unwrap().nic && !layers("none").unwrap().tc && layers("auto").unwrap().auto);
        assert!(layers("udp").is_err() && layers("socket").unwrap_err().contains("the kernel stamp"));
        assert_eq!(layer("tc"), Ok(Layer::Tc));
        assert_eq!(layer("raw"), Ok(Layer::Raw));
        assert!(layer("socket").is_err() && layers("raw").unwrap_err().contains("--stamp raw"));
    }

    #[test]
    fn cores_by_role() {
        let choice = cores("capture=0,write=1,convert=2,convert=3").unwrap();
        assert_eq!((choice.capture, choice.write, choice.softirq), (Some(0), Some(1), None));
        assert_eq!(choice.convert, [2, 3]);
        assert!(cores("capture").is_err() && cores("cook=1").is_err() && cores("write=x").is_err());
    }
}
