//! The command line of `quaver doctor`.

use clap::Args;

/// `quaver doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Doctor only reads. It changes nothing on this machine.")]
pub struct DoctorArgs {
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}
