//! Profiles of settings: a file that says what is set to what, a unit of systemd that sets it at boot, and a profile of tuned.

use anyhow::Context;
use quaver_host::settings::knob::{Change, Knob};
use quaver_instrument::exit_code::{ExitCode, failure};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Version of the file. Goes up when an old reader would misread a new file.
pub const PROFILE_SCHEMA: &str = "quaver.profile/1";

/// What is set to what. Thread and interrupt numbers are of one boot, so no profile has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`PROFILE_SCHEMA`].
    pub schema: String,
    /// Run that proved it.
    pub made_by: String,
    /// Settings, in the order in which they are made.
    #[serde(rename = "setting")]
    pub settings: Vec<ProfileSetting>,
}

/// One setting of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSetting {
    /// Source of lateness that it removes.
    pub row: String,
    /// Value, as it would be written by hand.
    pub value: String,
    /// Setting.
    pub knob: Knob,
}

/// Why a setting cannot be in a profile; none if it can.
fn objection(knob: &Knob) -> Option<String> {
    let reason = match knob {
        Knob::Thread { .. } | Knob::Class { .. } => "thread numbers are of one boot",
        Knob::Irq { .. } => "interrupt numbers are of one boot",
        Knob::Config { .. } => "it outlives a reboot by itself",
        _ => return knob.objection(),
    };
    Some(format!("{knob} belongs in no profile: {reason}"))
}

impl Profile {
    /// A profile of these changes, and why some of them cannot be in it, a sentence each.
    pub fn of(made_by: &str, changes: &[Change]) -> (Self, Vec<String>) {
        let left_out = changes.iter().filter_map(|change| objection(&change.knob)).collect();
        let fits = changes.iter().filter(|change| objection(&change.knob).is_none());
        let settings = fits.map(|change| ProfileSetting {
            row: change.row.clone().unwrap_or_default(),
            value: change.value.clone(),
            knob: change.knob.clone(),
        });
        let (schema, made_by) = (PROFILE_SCHEMA.to_owned(), made_by.to_owned());
        (Self { schema, made_by, settings: settings.collect() }, left_out)
    }

    /// Reads a file, and refuses what no profile can have before anything is set.
    ///
    /// # Errors
    /// The file cannot be read, or is no profile of this version (status 5).
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading the profile {shown}"))?;
        let bad = |reason: String| failure(ExitCode::BadInput, format!("{shown}: {reason}"));
        let profile: Self =
            toml::from_str(&text).map_err(|error| bad(format!("not a profile of settings: {error}")))?;
        if profile.schema != PROFILE_SCHEMA {
            let message = format!("its schema is {:?}; this version reads {PROFILE_SCHEMA}", profile.schema);
            return Err(bad(message));
        }
        match profile.settings.iter().find_map(|setting| objection(&setting.knob)) {
            Some(reason) => Err(bad(reason)),
            None => Ok(profile),
        }
    }

    /// Its settings as changes.
    pub fn changes(&self) -> Vec<Change> {
        let of = |setting: &ProfileSetting| {
            Change::new(setting.knob.clone(), setting.value.clone()).of_row(&setting.row)
        };
        self.settings.iter().map(of).collect()
    }

    /// The file's text.
    ///
    /// # Errors
    /// A value has no form in TOML.
    pub fn text(&self) -> anyhow::Result<String> {
        let words = "# Apply: quaver tune apply FILE    Put back: quaver tune revert FILE\n";
        Ok(format!("{words}{}", toml::to_string(self).context("writing a profile of settings")?))
    }

    /// A unit that applies the profile at boot, after these units, and puts everything back when it is stopped.
    fn unit(&self, program: &Path, profile: &Path, after: &[String]) -> String {
        let (program, profile) = (program.display(), profile.display());
        let after: String = after.iter().map(|unit| format!(" {unit}")).collect();
        format!(
            "# Made by {}. Status 3: this host lacks some of the settings; the log names them, and the others hold.\n\
             [Unit]\n\
             Description=Quaver: settings that {} proved\n\
             After=quaver-tune-revert.service systemd-sysctl.service network.target{after}\n\
             ConditionPathExists={profile}\n\n\
             [Service]\n\
             Type=oneshot\n\
             RemainAfterExit=yes\n\
             SuccessExitStatus=3\n\
             ExecStart=\"{program}\" tune apply {profile}\n\
             ExecStop=\"{program}\" tune revert {profile}\n\n\
             [Install]\n\
             WantedBy=multi-user.target\n",
            self.made_by, self.made_by
        )
    }

    /// The same for tuned, as far as that can set it: its `sysfs` refuses what is not below `/sys`, and its `sysctl` takes names
    /// whose parts hold no dot (tuned 2.20, `plugin_sysfs.py` and `plugin_sysctl.py`).
    fn tuned(&self) -> String {
        let (mut sysctl, mut sysfs, mut rest) = (String::new(), String::new(), String::new());
        for ProfileSetting { knob, value, .. } in &self.settings {
            let path = knob.path().unwrap_or_default();
            let name = path.strip_prefix("/proc/sys/").filter(|name| !name.contains('.'));
            // Writing to a string cannot fail.
            let _ = match (knob, name) {
                (Knob::File { .. }, Some(name)) => writeln!(sysctl, "{}={value}", name.replace('/', ".")),
                (Knob::File { path }, None) if path.starts_with("/sys/") => writeln!(sysfs, "{path}={value}"),
                _ => writeln!(rest, "# Not of tuned: {knob} = {value}"),
            };
        }
        format!(
            "# Made by {}.\n{rest}[main]\nsummary=Settings that Quaver proved\n\n[sysctl]\n{sysctl}\n[sysfs]\n{sysfs}",
            self.made_by
        )
    }
}

/// Where a profile was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The profile.
    pub profile: PathBuf,
    /// The unit, which the next boot starts.
    pub unit: String,
    /// The profile of tuned, where tuned has a directory.
    pub tuned: Option<PathBuf>,
}

/// The directory of the host's own units.
const UNITS: &str = "etc/systemd/system";

/// Refuses a host to which nothing can be installed, before anything is measured.
///
/// # Errors
/// There is no systemd (status 3).
pub fn check_host(root: &Path) -> anyhow::Result<()> {
    let units = root.join(UNITS);
    let message = || {
        format!(
            "--persist needs systemd, and {} is missing: without it, apply the run's profile.toml at boot by other means",
            units.display()
        )
    };
    if units.is_dir() { Ok(()) } else { Err(failure(ExitCode::Unsupported, message())) }
}

/// Installs a profile below a root: the file, the unit, and last the link that makes the next boot start it.
///
/// # Errors
/// A file cannot be written.
pub fn install(root: &Path, name: &str, profile: &Profile) -> anyhow::Result<Installed> {
    let below = PathBuf::from(format!("etc/quaver/{name}.toml"));
    let unit = format!("quaver-{name}.service");
    let program = std::env::current_exe().context("finding the path of this program")?;
    let text = profile.unit(&program, &Path::new("/").join(&below), &units_of_profiles(root));
    write(&root.join(&below), &profile.text()?)?;
    write(&root.join(UNITS).join(&unit), &text)?;
    let tuned =
        root.join("etc/tuned").is_dir().then(|| root.join(format!("etc/tuned/quaver-{name}/tuned.conf")));
    if let Some(tuned) = &tuned {
        write(tuned, &profile.tuned())?;
    }
    let wanted = root.join(UNITS).join("multi-user.target.wants");
    let link = wanted.join(&unit);
    std::fs::create_dir_all(&wanted)
        .and_then(|()| std::os::unix::fs::symlink(format!("../{unit}"), &link))
        .with_context(|| format!("enabling {}", link.display()))?;
    Ok(Installed { profile: root.join(below), unit, tuned })
}

/// Units of the profiles that are installed so far, by name. Only one process changes settings at a time, so a unit that
/// systemd started beside another would fail.
fn units_of_profiles(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("etc/quaver")).into_iter().flatten();
    let unit = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        Some(format!("quaver-{}.service", name.strip_suffix(".toml")?))
    };
    let mut units: Vec<String> = entries.filter_map(unit).collect();
    units.sort();
    units
}

/// Writes a file whole: a reader sees all of it or none.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let part = path.with_extension("part");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, text))
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<Change> {
        let held = Knob::Held { device: "/dev/cpu_dma_latency".to_owned() };
        [
            Change::new(Knob::sysctl("vm.stat_interval"), "120").of_row("vmstat"),
            Change::new(Knob::Thread { tid: 80 }, "0").of_row("others-elsewhere"),
            Change::new(Knob::file("/sys/class/net/eth0/queues/rx-0/rps_cpus"), "0").of_row("rps"),
            Change::new(held, "0").of_row("cstate"),
            Change::new(Knob::Irq { irq: 41 }, "0").of_row("dev-irq"),
        ]
        .to_vec()
    }

    #[test]
    fn a_profile_is_read_as_it_was_written_and_has_nothing_of_one_boot() {
        let (profile, left_out) = Profile::of("cure-1", &changes());
        assert_eq!(
            left_out,
            [
                "affinity of thread 80 belongs in no profile: thread numbers are of one boot",
                "affinity of irq 41 belongs in no profile: interrupt numbers are of one boot"
            ]
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.toml");
        std::fs::write(&path, profile.text().unwrap()).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), profile);
        assert_eq!(profile.changes(), [0, 2, 3].map(|at| changes()[at].clone()));
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.toml");
        let whole = Profile::of("cure-1", &changes()).0.text().unwrap();
        let thread = "kind = \"thread\"\ntid = 7";
        let file = "kind = \"file\"\npath = \"/proc/sys/vm/stat_interval\"";
        for (text, reason) in [
            (whole.replace("profile/1", "profile/2"), "this version reads quaver.profile/1"),
            (whole.replace("value", "worth"), "unknown field `worth`"),
            (whole.replace(file, thread), "thread numbers are of one boot"),
            (whole.replace("/proc/sys/vm/stat_interval", "/etc/passwd"), "is no setting that Quaver changes"),
            (whole.replace("/proc/sys/vm", "/proc/sys/../../etc"), "is no setting that Quaver changes"),
            (whole[..whole.len() / 2].to_owned(), "not a profile of settings"),
        ] {
            assert_ne!(text, whole, "{reason}");
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", Profile::read(&path).unwrap_err());
            assert!(error.contains(reason), "{reason}: {error}");
        }
        let missing = Profile::read(&directory.path().join("none")).unwrap_err();
        assert!(format!("{missing:#}").starts_with("reading the profile "), "{missing:#}");
    }

    #[test]
    fn a_profile_of_tuned_has_files_and_says_what_it_lacks() {
        let dotted = Change::new(Knob::file("/proc/sys/net/ipv4/conf/eth0.7/rp_filter"), "0");
        let tuned = Profile::of("cure-1", &[changes(), vec![dotted]].concat()).0.tuned();
        assert_eq!(
            tuned,
            "# Made by cure-1.\n# Not of tuned: /dev/cpu_dma_latency = 0\n\
             # Not of tuned: /proc/sys/net/ipv4/conf/eth0.7/rp_filter = 0\n[main]\nsummary=Settings that Quaver proved\n\n\
             [sysctl]\nvm.stat_interval=120\n\n[sysfs]\n/sys/class/net/eth0/queues/rx-0/rps_cpus=0\n"
        );
    }

    #[test]
    fn an_installed_profile_is_whole_and_the_next_boot_starts_its_unit() {
        let root = tempfile::tempdir().unwrap();
        let error = format!("{:#}", check_host(root.path()).unwrap_err());
        assert!(error.contains("etc/systemd/system is missing: without it, apply"), "{error}");
        std::fs::create_dir_all(root.path().join("etc/systemd/system")).unwrap();
        check_host(root.path()).unwrap();
        let (profile, _) = Profile::of("cure-1", &changes());
        let without = install(root.path(), "cure-1", &profile).unwrap();
        assert_eq!(without.tuned, None);
        std::fs::create_dir_all(root.path().join("etc/tuned")).unwrap();
        let installed = install(root.path(), "cure-2", &profile).unwrap();
        assert_eq!(Profile::read(&installed.profile).unwrap(), profile);
        assert_eq!(std::fs::read_to_string(installed.tuned.unwrap()).unwrap(), profile.tuned());
        let units = root.path().join("etc/systemd/system");
        let wanted = units.join("multi-user.target.wants").join(&installed.unit);
        // What the link leads to is the unit itself.
        let unit = std::fs::read_to_string(wanted).unwrap();
        assert_eq!(unit, std::fs::read_to_string(units.join("quaver-cure-2.service")).unwrap());
        for line in [
            format!(
                "ExecStart=\"{}\" tune apply /etc/quaver/cure-2.toml",
                std::env::current_exe().unwrap().display()
            ),
            "ConditionPathExists=/etc/quaver/cure-2.toml".to_owned(),
            // systemd starts neither beside the other, since one of them would find settings being changed.
            "After=quaver-tune-revert.service systemd-sysctl.service network.target quaver-cure-1.service"
                .to_owned(),
        ] {
            assert!(unit.lines().any(|one| one == line), "{line}: {unit}");
        }
        assert!(unit.contains("\" tune revert /etc/quaver/cure-2.toml\n"), "{unit}");
        let parts = std::fs::read_dir(&units).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "part")
        });
        assert_eq!(parts.count(), 0);
    }
}
