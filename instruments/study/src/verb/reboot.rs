//! Boot factors: which command line the next cells want, and how to get there.

use super::blocks::managed;
use super::lab::{Boots, Lab};
use super::plan::StudyPlan;
use anyhow::Context;
use quaver_host::root::HostRoot;
use quaver_host::settings::JournalPlace;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_tune::boot::{DROP_IN, command_line, install, uninstall};
use std::path::Path;

/// Where the command line is read, and where the next one may be put.
pub(super) struct Reboot {
    pub(super) place: JournalPlace,
    pub(super) root: HostRoot,
    pub(super) install: bool,
}

impl Reboot {
    /// Refuses boot factors where the command line is not to be seen.
    pub(super) fn check(&self, plan: &StudyPlan, lab: &dyn Lab) -> anyhow::Result<()> {
        if lab.boots() == Boots::Own || managed(plan).is_empty() || command_line(&self.root).is_some() {
            return Ok(());
        }
        let message = "/proc/cmdline cannot be read: without it no cell of a boot factor can be counted";
        Err(failure(ExitCode::Unsupported, message))
    }

    /// What has to be booted next, as the failure that the study ends with for now.
    pub(super) fn plan(
        &self,
        plan: &StudyPlan,
        wanted: &[String],
        cells_left: u32,
        run: &Path,
    ) -> anyhow::Result<anyhow::Error> {
        let managed = managed(plan);
        let line = command_line(&self.root).unwrap_or_default();
        let next = managed.next_line(&line, wanted);
        let words = |words: &[String]| if words.is_empty() { "none of them".into() } else { words.join(" ") };
        let how = if self.install {
            install(&self.place, &managed, wanted)
                .context("putting the options of the next boot in place")?;
            format!("{DROP_IN} has them: run update-grub and boot")
        } else {
            "put it into the boot loader (or start this with --install, for GRUB) and boot".to_owned()
        };
        Ok(failure(
            ExitCode::Unsupported,
            format!(
                "the next cells want another boot ({cells_left} are left): of this study's boot options {}, and the kernel was \
                 booted with {}. The next command line:\n  {next}\n{how}; then go on with: quaver study run --resume {}{}",
                words(wanted),
                words(&managed.of(&line)),
                run.display(),
                if self.install { " --install" } else { "" }
            ),
        ))
    }

    /// Takes away what was put in place, when all is measured.
    pub(super) fn clear(&self, plan: &StudyPlan) -> anyhow::Result<()> {
        if managed(plan).is_empty() || !self.install {
            return Ok(());
        }
        let undone = uninstall(&self.place).context("taking away the options of the last boot")?;
        if undone.iter().any(|one| !one.fate.is_final()) {
            anyhow::bail!("{DROP_IN} is not as it was; see quaver tune status");
        }
        if !undone.is_empty() {
            quaver_instrument::tell!(
                "quaver: {DROP_IN} is gone: run update-grub and boot once more to be as before"
            );
        }
        Ok(())
    }
}
