//! Boot options that a study wants: told from `/proc/cmdline`, planned for the next boot, and put where GRUB finds them.

use quaver_host::root::HostRoot;
pub use quaver_host::settings::error::TuneError;
use quaver_host::settings::journal::{Journal, JournalPlace, Others, Undone};
use quaver_host::settings::knob::{Change, Knob};
use std::collections::BTreeSet;

/// The file that GRUB's configuration is made with, after `/etc/default/grub` (Debian's and Ubuntu's grub-mkconfig).
pub const DROP_IN: &str = "/etc/default/grub.d/quaver-study.cfg";
/// What the journal calls it.
const ROW: &str = "study-boot";

/// Words of the command line that this kernel was booted with; none where it is not shown.
pub fn command_line(root: &HostRoot) -> Option<Vec<String>> {
    let text = root.text("/proc/cmdline")?;
    Some(text.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Options that a study sets and leaves out, boot by boot. All other words of a command line stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedOptions(BTreeSet<String>);

impl ManagedOptions {
    /// All that any boot of a study wants.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a String>) -> Self {
        Self(words.into_iter().cloned().collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of them that a command line has, sorted.
    pub fn of(&self, line: &[String]) -> Vec<String> {
        self.0.iter().filter(|word| line.contains(word)).cloned().collect()
    }

    /// Whether a command line has exactly those of them that are wanted.
    pub fn fit(&self, line: &[String], wanted: &[String]) -> bool {
        let wanted: BTreeSet<&String> = wanted.iter().collect();
        self.of(line).iter().collect::<BTreeSet<_>>() == wanted
    }

    /// The command line of the next boot: the present one without all of them, and then those that are wanted.
    pub fn next_line(&self, line: &[String], wanted: &[String]) -> String {
        let kept = line.iter().filter(|word| !self.0.contains(*word));
        kept.chain(wanted).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// A shell fragment for GRUB that takes all of them off its lines and puts on those that are wanted.
    pub fn grub(&self, wanted: &[String]) -> String {
        let quoted: Vec<String> = self.0.iter().map(|word| format!("'{word}'")).collect();
        let strip = |variable: &str| {
            format!(
                "quaver_line=\nfor quaver_word in ${variable}; do\n  case \"$quaver_word\" in\n    {}) ;;\n    *) \
                 quaver_line=\"$quaver_line $quaver_word\" ;;\n  esac\ndone\n{variable}=\"${{quaver_line# }}\"\n",
                quoted.join("|")
            )
        };
        format!(
            "# Written by quaver study for its next boot; quaver tune revert removes it.\n{}{}GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"\n",
            strip("GRUB_CMDLINE_LINUX"),
            strip("GRUB_CMDLINE_LINUX_DEFAULT"),
            wanted.join(" ")
        )
    }
}

fn knob() -> Knob {
    Knob::Config { path: DROP_IN.to_owned() }
}

/// Puts the options of the next boot where GRUB finds them, through the journal; they stay there until [`uninstall`] or
/// `quaver tune revert`.
///
/// # Errors
/// [`TuneError::Refused`] where there is no GRUB of that kind; else as [`Journal::session`] and
/// [`super::Session::apply`].
pub fn install(place: &JournalPlace, managed: &ManagedOptions, wanted: &[String]) -> Result<(), TuneError> {
    if !place.contact().root().path("/etc/default/grub.d").is_dir() {
        return Err(TuneError::Refused {
            knob: knob().to_string(),
            value: wanted.join(" "),
            reason: "there is no directory /etc/default/grub.d, so GRUB's configuration is not made here as on Debian and \
                     Ubuntu; put the command line into your boot loader yourself"
                .to_owned(),
        });
    }
    let mut session = Journal::open(place).session("study")?;
    session.apply(&Change::new(knob(), managed.grub(wanted)).of_row(ROW))?;
    session.keep()
}

/// Removes what [`install`] put there, or puts back what was there before; nothing where there is nothing.
///
/// # Errors
/// As [`Journal::revert`].
pub fn uninstall(place: &JournalPlace) -> Result<Vec<Undone>, TuneError> {
    Journal::open(place).revert(Others::Leave, &|_, row| row == Some(ROW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_boot_fits_where_it_has_what_is_wanted_and_nothing_else_of_the_study() {
        let managed = ManagedOptions::new(&words("idle=poll nohz_full=1 isolcpus=1"));
        let line = words("BOOT_IMAGE=/vmlinuz root=/dev/sda1 nohz_full=1 quiet");
        assert_eq!(managed.of(&line), words("nohz_full=1"));
        assert!(managed.fit(&line, &words("nohz_full=1")));
        assert!(!managed.fit(&line, &[]) && !managed.fit(&line, &words("nohz_full=1 idle=poll")));
        assert_eq!(
            managed.next_line(&line, &words("isolcpus=1 idle=poll")),
            "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet isolcpus=1 idle=poll"
        );
        assert_eq!(managed.next_line(&line, &[]), "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet");
    }

    #[test]
    fn the_fragment_does_in_a_shell_what_the_plan_says() {
        let managed = ManagedOptions::new(&words("idle=poll nohz_full=1"));
        let script = format!(
            "GRUB_CMDLINE_LINUX='a idle=poll'\nGRUB_CMDLINE_LINUX_DEFAULT='quiet nohz_full=1 splash'\n{}\nprintf '%s|%s' \
             \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"",
            managed.grub(&words("nohz_full=1"))
        );
        let output = Command::new("sh").args(["-eu", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a nohz_full=1|quiet splash");
    }

    #[test]
    fn what_is_installed_is_in_the_journal_and_goes_without_a_trace() {
        let directory = tempfile::tempdir().unwrap();
        let (root, journal) = (directory.path().join("root"), directory.path().join("journal"));
        std::fs::create_dir_all(root.join("etc/default")).unwrap();
        let place = JournalPlace::at(&journal, HostRoot::at(&root));
        let managed = ManagedOptions::new(&words("idle=poll"));
        let refused = install(&place, &managed, &words("idle=poll")).unwrap_err().to_string();
        assert!(refused.contains("/etc/default/grub.d"), "{refused}");
        std::fs::create_dir_all(root.join("etc/default/grub.d")).unwrap();
        for wanted in ["idle=poll", "", "idle=poll"] {
            install(&place, &managed, &words(wanted)).unwrap();
            let text = std::fs::read_to_string(root.join("etc/default/grub.d/quaver-study.cfg")).unwrap();
            assert_eq!(text, managed.grub(&words(wanted)));
        }
        assert!(!Journal::open(&place).status().unwrap().changes.is_empty());
        assert!(uninstall(&place).unwrap().iter().all(|one| one.fate.is_final()));
        assert_eq!(std::fs::read_dir(root.join("etc/default/grub.d")).unwrap().count(), 0);
        assert!(uninstall(&place).unwrap().is_empty());
    }
}
