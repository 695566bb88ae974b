//! The command line of `quaver lab`.

use clap::{Args, Subcommand};
use quaver_chase::args::LabKind;
use quaver_instrument::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// What to do
    #[command(subcommand)]
    pub action: LabAction,
}

/// What `quaver lab` does.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Tell which labs this machine has, what is missing, and the command that mends it
    Doctor(LabDoctorArgs),
    /// Get the parts of the QEMU lab from the Debian archive and unpack them aside; nothing is installed
    Fetch(LabFetchArgs),
    /// Run commands of quaver in a guest of the QEMU lab, as root and with nothing of this host at stake, and print what they print
    Run(LabRunArgs),
    /// Hold what `quaver noise` finds against the kernel's own tracer of noise (osnoise), in guests of the QEMU lab
    Osnoise(LabOsnoiseArgs),
    /// Be the first process of a guest
    #[command(hide = true)]
    Guest,
}

/// `quaver lab doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Doctor makes two network namespaces, which go at once, and changes nothing.

Exit status: 0 the labs asked for can be used (without a name: at least one), 3 not.")]
pub struct LabDoctorArgs {
    /// Lab to look at [default: all]
    #[arg(value_enum, value_name = "LAB")]
    pub lab: Option<LabKind>,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver lab fetch`.
#[derive(Debug, Args)]
#[command(after_help = "\
QEMU of the distribution's backports, a stock kernel, and the one with real-time preemption, which
has the osnoise tracer: about 220 MB to fetch and 175 MB to keep.
No right is needed, and nothing of the system is changed. Remove the directory to be rid of it.
QUAVER_LAB_MIRROR names another mirror of Debian.

Exit status: 0 all is there, 3 not possible here (the message says why), 130 interrupted.")]
pub struct LabFetchArgs {
    /// Where to [default: quaver/lab in the cache directory]
    #[arg(long, env = "QUAVER_LABDIR", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `quaver lab run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver lab run -- doctor
  quaver lab run -- tune apply --cpu 2 --only cfs-preempt + tune status + tune revert
  quaver lab run --boot nohz_full=2 --boot isolcpus=2 -- tune audit --cpu 2
  quaver lab run --offline 2 -- noise --cpus 2 --for 10s
  quaver lab run --clocked --file /usr/sbin/ip --file /tmp/s.sh -- /bin/sh /tmp/s.sh

The guest has three processors, a stock kernel, no other programs, and control groups of version 2. What commands write goes with
it. A + begins the next command; after one that fails no more are run. A command that begins with an absolute path is a program
of this host, which the guest gets with its libraries; quaver itself is /init there.

Exit status: of the last command that ran; 3 where there is no QEMU lab.")]
pub struct LabRunArgs {
    /// A word for the kernel's command line; repeatable
    #[arg(long, value_name = "WORD")]
    pub boot: Vec<String>,
    /// The kernel with real-time preemption
    #[arg(long)]
    pub rt: bool,
    /// Set the guest's wall clock forward by so much while each command runs
    #[arg(long, value_parser = quantity::duration, conflicts_with = "offline", value_name = "TIME")]
    pub step_clock: Option<Duration>,
    /// Take this processor of the guest offline while each command runs, and bring it back
    #[arg(long, value_name = "CPU")]
    pub offline: Option<u16>,
    /// When that happens after a command began; a processor is away for as long
    #[arg(long, value_parser = quantity::duration, default_value = "2s", value_name = "TIME")]
    pub after: Duration,
    /// Interfaces with a clock of their own (igb), in place of those of a study
    #[arg(long)]
    pub clocked: bool,
    /// A module to load first, by name of the lab's kernel or by path (with a /); repeatable
    #[arg(long = "module", value_name = "MODULE")]
    pub modules: Vec<String>,
    /// A file that the guest has at the same path, a program with its libraries; repeatable
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Commands, without `quaver`, with a + between two
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub commands: Vec<String>,
}

/// `quaver lab osnoise`.
#[derive(Debug, Args)]
#[command(after_help = "\
Three times a busy loop runs on one processor of a guest, watched by quaver and by the kernel's osnoise tracer at once: booted so
that nothing disturbs it (nohz_full, rcu_nocbs, isolcpus), the same with a thread that wakes a thousand times a second and works
for 50 us, and booted as usual. For each class of what took the processor both say how often and how long.

The kernel is Debian's real-time one, since the usual one has no osnoise: its softirqs run in threads, and the kernel's tracer counts
them there. Time is virtual, so that figures are the same however busy the host is.

Exit status: 3 where there is no QEMU lab.")]
pub struct LabOsnoiseArgs {
    /// How long each loop runs, of the guest's time
    #[arg(long = "for", value_parser = quantity::duration, default_value = "900ms", value_name = "TIME")]
    pub duration: Duration,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}
