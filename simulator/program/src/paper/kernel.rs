//! What the kernel does for injected jitter: a library that was named, the one that comes along, or activity that is made up.

use crate::cure_file;
use crate::kernel_activity::KernelActivity;
use crate::paper::args::SimPaperArgs;
use quaver_sim::inject::{Epoch, bundled};
use quaver_sim::paper::MadeActivity;
use quaver_trace::block::Dictionary;

/// Kernel activity, and where it is from, in words.
pub(super) struct Activity {
    activity: KernelActivity,
    pub(super) words: String,
}

impl Activity {
    /// As it is asked for.
    ///
    /// # Errors
    /// The file is no library (status 5).
    pub(super) fn of(args: &SimPaperArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.kernel {
            let activity = cure_file::kernel_activity(path)?;
            let cut = if activity.cut_short { ", which was cut short" } else { "" };
            let words = format!("{} epochs of {}{cut}", activity.epochs.len(), path.display());
            return Ok(Self { activity, words });
        }
        // A library that is empty or damaged is as good as none: the page says what was taken.
        let traced = bundled().ok().filter(|(_, epochs)| !epochs.is_empty() && !args.made_up);
        if let Some((dictionary, epochs)) = traced {
            let words = format!("{} traced epochs that come with Quaver", epochs.len());
            return Ok(Self { activity: KernelActivity { dictionary, epochs, cut_short: false }, words });
        }
        let made = MadeActivity::default();
        let mut dictionary = Dictionary::default();
        let epochs = made.epochs(&mut dictionary);
        Ok(Self { activity: KernelActivity { dictionary, epochs, cut_short: false }, words: words(&made) })
    }

    /// Puts its blocks behind those of a program; its epochs, by their numbers there.
    pub(super) fn behind(&self, dictionary: &mut Dictionary) -> Vec<Epoch> {
        let before = dictionary.blocks.len() as u32;
        dictionary.blocks.extend(self.activity.dictionary.blocks.iter().cloned());
        self.activity.epochs.iter().map(|epoch| epoch.behind(before)).collect()
    }
}

fn words(made: &MadeActivity) -> String {
    format!(
        "made up from seed {}: {} KiB of code, {} KiB of data that it always touches, and {} KiB to which {} % of its accesses go",
        made.seed,
        made.code_kib,
        made.hot_kib,
        made.wide_kib,
        made.wide_share * 100.0
    )
}
