//! What the options ask for, checked.

use super::cores;
use crate::args::{CaptureArgs, CoreChoice, WantedDirection};
use crate::pipeline::PipelineKind;
use crate::record::{ANY, HardwareWish, LayerWish, TapInterface, TapOptions, TcWish, Wanted, XdpWish};
use quaver_abi::stamp::Layer;
use quaver_host::interface::InterfaceFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_probe::thread::{Setting, ThreadSettings};
use quaver_view::Cell;
use std::path::Path;
use std::time::Duration;

/// Bytes of a block of the ring, where the ring has room for a few of them.
const BLOCK_BYTES: u64 = 1 << 20;
/// Least bytes of a block, which has to hold two packets as well: a page.
const LEAST_BLOCK_BYTES: u64 = 4096;
/// Most bytes kept of a packet that is handed over by itself: what the kernel merges packets to, with a link header and a
/// tag. Each has room for so much.
const ALONE_BYTES: u32 = 65_536 + 18;
/// How long packets wait in the ring where nobody waits for them, and no stamp but the kernel's is asked for.
const BARE_FILE_TIMEOUT: Duration = Duration::from_millis(100);
/// Blocks that a small ring is cut into.
const LEAST_BLOCKS: u64 = 4;

/// What the options ask for.
pub(super) struct Plan {
    /// Each interface: its tap, or those of its rings, which are alike.
    pub(super) taps: Vec<TapOptions>,
    /// Rings of each interface.
    pub(super) rings: usize,
    /// Which layers are wanted.
    pub(super) wish: LayerWish,
    /// The capture thread.
    pub(super) capture_thread: ThreadSettings,
    /// CPU of the writing thread.
    pub(super) write_cpu: Option<u16>,
    /// Converter threads.
    pub(super) converters: Vec<ThreadSettings>,
    /// CPUs of the roles.
    pub(super) cores: CoreChoice,
    /// What should be known of the CPUs before it begins.
    pub(super) core_notes: Vec<String>,
}

impl Plan {
    /// Checks the options against each other and against this machine.
    pub(super) fn of(args: &CaptureArgs) -> anyhow::Result<Self> {
        if args.interface.is_empty() {
            let there = InterfaceFacts::names_here().join(", ");
            return Err(failure(
                ExitCode::Usage,
                format!("name an interface with -i: there are {there}, and `any` for all"),
            ));
        }
        let mut names = args.interface.clone();
        names.sort_unstable();
        names.dedup();
        if names.len() < args.interface.len() {
            return Err(failure(ExitCode::Usage, "each interface can be named once"));
        }
        if names.len() > 1 && names.iter().any(|name| name == ANY) {
            return Err(failure(
                ExitCode::Usage,
                "`any` includes every interface, so packets would appear twice: name interfaces, or `any` alone",
            ));
        }
        check_output(args)?;
        let filter = match (&args.filter, args.expression.is_empty()) {
            (Some(filter), _) => Some(filter.clone()),
            (None, false) => Some(args.expression.join(" ")),
            (None, true) => None,
        };
        let cores = args.cores.clone().unwrap_or_default();
        let core_notes = cores::check(&cores, args)?;
        let tap = |name: &String| TapOptions { filter: filter.clone(), ..tap(args, name) };
        let taps: Vec<TapOptions> = args.interface.iter().map(tap).collect();
        let rings = usize::from(args.fanout);
        let rings_bytes = taps.iter().map(|tap| (tap.block_bytes * tap.blocks * rings) as u64).sum();
        super::memory::check(rings_bytes, &HostRoot::system())?;
        let mut core_notes = core_notes;
        if rings_bytes > args.buffer * taps.len() as u64 {
            core_notes.push(format!(
                "--buffer has no room for two blocks that hold a packet each: {} bytes are used; -s makes packets smaller",
                Cell::Count(rings_bytes)
            ));
        }
        Ok(Self {
            wish: LayerWish { rings_bytes, ..wish(args) },
            taps,
            rings,
            capture_thread: capture_thread(cores.capture),
            write_cpu: cores.write,
            converters: cores.convert.iter().map(|cpu| pinned(*cpu)).collect(),
            core_notes,
            cores,
        })
    }
}

fn check_output(args: &CaptureArgs) -> anyhow::Result<()> {
    if args.output.is_none() && !args.qos {
        return Err(failure(
            ExitCode::Usage,
            "say where to write with -o FILE (- for a pipe), or ask for figures with --qos",
        ));
    }
    let rotates = args.file_size.is_some() || args.file_time.is_some();
    if args.ring_files.is_some() && !rotates {
        return Err(failure(
            ExitCode::Usage,
            "--ring-files needs --file-size or --file-time: one of them sets when to start a new file",
        ));
    }
    if rotates && is_pipe(args) {
        return Err(failure(
            ExitCode::Usage,
            "standard output is one file: leave out --file-size, --file-time and --ring-files",
        ));
    }
    if args.user.is_some() && args.layers.nic {
        return Err(failure(
            ExitCode::Usage,
            "--user with --layers nic: another user could not restore the interface setting; use only one of them",
        ));
    }
    if args.user.is_some() && args.layers.tc_filter {
        return Err(failure(
            ExitCode::Usage,
            "--user with --layers tc-clsact: another user could not remove the filter; use only one of them",
        ));
    }
    if args.user.is_some() && args.cores.as_ref().is_some_and(|cores| cores.softirq.is_some()) {
        return Err(failure(
            ExitCode::Usage,
            "--user with --cores softirq: another user could not restore the setting; use only one of them",
        ));
    }
    if args.user.is_some() && args.layer == Layer::Raw {
        return Err(failure(
            ExitCode::Usage,
            "--user with --stamp raw: another user could not remove the kernel's trace instance; use only one of them",
        ));
    }
    if args.pipeline == PipelineKind::InlineClock && args.layer == Layer::Raw {
        return Err(failure(
            ExitCode::Usage,
            "--pipeline inline-clock reads no cycles: with --stamp raw use inline-cycles, threaded or batch",
        ));
    }
    check_fanout(args)?;
    if args.json && is_pipe(args) {
        return Err(failure(
            ExitCode::Usage,
            "--json prints to standard output, where the packets go: write to a file",
        ));
    }
    Ok(())
}

fn check_fanout(args: &CaptureArgs) -> anyhow::Result<()> {
    let refused = |why: &str| Err(failure(ExitCode::Usage, format!("--fanout with {why}")));
    match args.pipeline {
        _ if args.fanout == 1 => Ok(()),
        PipelineKind::Threaded { .. } if args.layer != Layer::Raw => {
            refused("--pipeline threaded: converter threads serve one capture thread; use batch")
        }
        _ if args.immediate => refused("--immediate: packets are handed over one by one, in one thread"),
        _ if args.cores.as_ref().is_some_and(|cores| cores.capture.is_some()) => {
            refused("--cores capture: several capture threads would share that CPU; leave the role out")
        }
        _ => Ok(()),
    }
}

/// Whether somebody waits for packets: they are shown or counted as they come, put in order first, or read by another program. A
/// file's writer may wait for many.
pub(super) fn is_awaited(args: &CaptureArgs) -> bool {
    args.immediate
        || args.qos
        || args.fanout > 1
        || args.interface.len() > 1
        || args.count.or(args.size_limit).is_some()
        || args.output.as_deref().is_none_or(is_read_live)
}

/// Whether somebody may read the output as it is written: a pipe, not a file.
fn is_read_live(output: &Path) -> bool {
    output == Path::new("-") || std::fs::metadata(output).is_ok_and(|file| !file.is_file())
}

/// Whether no stamps but the kernel's are asked for. The application's is that of a block then, and may be late.
fn is_bare(args: &CaptureArgs) -> bool {
    wish(args).is_none() && !matches!(args.layer, Layer::Raw | Layer::Application)
}

/// Whether packets go to standard output.
pub(super) fn is_pipe(args: &CaptureArgs) -> bool {
    args.output.as_deref() == Some(Path::new("-"))
}

fn tap(args: &CaptureArgs, name: &str) -> TapOptions {
    let usual = TapOptions {
        promiscuous: !args.no_promiscuous,
        wanted: match args.direction {
            WantedDirection::In => Wanted::In,
            WantedDirection::Out => Wanted::Out,
            WantedDirection::Both => Wanted::Both,
        },
        ..TapOptions::new(name)
    };
    if args.immediate {
        let snap_length = args.snaplen.min(ALONE_BYTES);
        let packet = TapOptions::packet_bytes(snap_length);
        return TapOptions {
            snap_length,
            immediate: true,
            block_bytes: packet,
            blocks: (args.buffer / packet as u64).clamp(2, 1 << 20) as usize,
            ..usual
        };
    }
    let bare_file = is_bare(args) && !is_awaited(args);
    let block_timeout = if bare_file { BARE_FILE_TIMEOUT } else { usual.block_timeout };
    // Rings of one interface share its memory.
    let buffer = args.buffer / u64::from(args.fanout);
    // The kernel cuts a packet that does not fit in a block.
    let packet = TapOptions::packet_bytes(args.snaplen.min(ALONE_BYTES)).next_power_of_two() as u64;
    let block = if buffer >= LEAST_BLOCKS * BLOCK_BYTES {
        BLOCK_BYTES
    } else {
        let share = (buffer / LEAST_BLOCKS).max(LEAST_BLOCK_BYTES);
        (1 << share.ilog2()).max(2 * packet)
    };
    TapOptions {
        snap_length: args.snaplen,
        block_bytes: block as usize,
        blocks: (buffer / block).clamp(2, 1 << 20) as usize,
        block_timeout: args.block_timeout.unwrap_or(block_timeout).max(Duration::from_millis(1)),
        ..usual
    }
}

fn wish(args: &CaptureArgs) -> LayerWish {
    let choice = args.layers;
    // Another user could not remove what outlives the process.
    let tc = if args.user.is_some() { TcWish::Linked } else { TcWish::On };
    if choice.auto {
        return LayerWish {
            hardware: HardwareWish::AsItIs,
            xdp: XdpWish::Harmless,
            tc,
            ..LayerWish::default()
        };
    }
    LayerWish {
        hardware: if choice.nic { HardwareWish::On } else { HardwareWish::Off },
        xdp: match (choice.xdp, choice.xdp_generic) {
            (_, true) => XdpWish::Generic,
            (true, false) => XdpWish::Native,
            (false, false) => XdpWish::Off,
        },
        tc: match (choice.tc, choice.tc_filter) {
            (_, true) => TcWish::Filter,
            (true, false) => tc,
            (false, false) => TcWish::Off,
        },
        ..LayerWish::default()
    }
}

fn pinned(cpu: u16) -> ThreadSettings {
    ThreadSettings { cpu: Some(cpu), required: vec![Setting::Cpu], ..ThreadSettings::default() }
}

fn capture_thread(cpu: Option<u16>) -> ThreadSettings {
    let settings = cpu.map(pinned).unwrap_or_default();
    ThreadSettings { exact_timers: true, prefault_stack_bytes: 64 * 1024, ..settings }
}

/// The interfaces of the plan, looked up.
pub(super) fn interfaces(plan: &Plan) -> anyhow::Result<Vec<TapInterface>> {
    plan.taps.iter().map(|tap| TapInterface::find(&tap.interface).map_err(super::fail)).collect()
}
