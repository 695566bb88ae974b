//! The command line of `quaver lab`.

use super::LabKind;
use clap::{Args, Subcommand};
use std::path::PathBuf;

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
QEMU of the distribution's backports and a stock kernel: about 120 MB to fetch and 160 MB to keep.
No right is needed, and nothing of the system is changed. Remove the directory to be rid of it.
QUAVER_LAB_MIRROR names another mirror of Debian.

Exit status: 0 all is there, 3 not possible here (the message says why), 130 interrupted.")]
pub struct LabFetchArgs {
    /// Where to [default: quaver/lab in the cache directory]
    #[arg(long, env = "QUAVER_LABDIR", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
