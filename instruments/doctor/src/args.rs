//! The command line of `quaver doctor`.

use clap::Args;

/// `quaver doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver doctor
  quaver doctor --setcap          shows which capabilities quaver uses without root, and why
  quaver doctor --setcap | sh     gives them to the program

Doctor only reads. It changes nothing on this machine.")]
pub struct DoctorArgs {
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// Print the command that gives the program all it can use without root, and what each capability is for
    #[arg(long, conflicts_with = "json")]
    pub setcap: bool,
}
