//! The file of `--cure`: jitter and its cure, where distributions and kernel activity come from, and reading these.

use super::file;
use super::kernel_activity::KernelActivity;
use super::recording::{self, Recorded};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::cure::CureConfig;
use quaver_sim::inject::{self, InjectionConfig, RecordingFacts};
use std::path::{Path, PathBuf};

/// Name of the library of kernel activity that comes along.
pub(super) const BUNDLED: &str = "bundled";

/// What a file of a cure says. Paths in it are taken from its own place.
#[derive(Clone, Debug)]
pub(super) struct CureFile {
    /// Jitter and its cure; which recording is in it already.
    pub(super) config: CureConfig,
    /// Kernel activity to run for injected jitter.
    pub(super) library: Option<PathBuf>,
    /// Where the lateness of classes comes from that are not in `config`.
    pub(super) recorded: Option<Recorded>,
}

/// Reads a file of a cure, and the run whose lateness it takes.
///
/// # Errors
/// It cannot be read, or says what cannot be (status 5).
pub(super) fn read(path: &Path) -> anyhow::Result<CureFile> {
    let bad = |error: &dyn std::fmt::Display| {
        failure(ExitCode::BadInput, format!("{}: {}", path.display(), error.to_string().trim_end()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| bad(&error))?;
    of_table(table, path)
}

/// The same of a table that stands in the file `path`.
///
/// # Errors
/// It says what cannot be (status 5).
pub(super) fn of_table(mut table: toml::Table, path: &Path) -> anyhow::Result<CureFile> {
    let bad = |what: String| failure(ExitCode::BadInput, format!("{}: {what}", path.display()));
    let near = path.parent().unwrap_or(Path::new(""));
    let mut named = |key: &str| match table.remove(key) {
        None => Ok(None),
        Some(toml::Value::String(name)) if key == "library" && name == BUNDLED => Ok(Some(name.into())),
        Some(toml::Value::String(name)) if !name.is_empty() => Ok(Some(near.join(name))),
        Some(other) => Err(bad(format!("{key} = {other}: the name of a file"))),
    };
    let (library, recorded) = (named("library")?, named("recorded")?);
    let mut config =
        CureConfig::from_table(table).map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
    let recorded = recorded.map(|run| recording::read(&run)).transpose()?;
    let named = recorded.as_ref().map(|recorded| &recorded.recording.facts);
    name_recording(&mut config, named).map_err(bad)?;
    Ok(CureFile { config, library, recorded })
}

/// Puts the recording that is injected into the configuration, which may say already which it has to be.
fn name_recording(config: &mut CureConfig, named: Option<&RecordingFacts>) -> Result<(), String> {
    let asked = config.injection.as_ref().and_then(|injection| injection.recording.as_ref());
    match (asked, named) {
        (None, None) => return Ok(()),
        (Some(asked), None) => {
            return Err(format!(
                "injection.recording: name the run in recorded, such as \"runs/{}\"",
                asked.run
            ));
        }
        (Some(asked), Some(named)) if asked.sha256 != named.sha256 => {
            return Err(format!(
                "injection.recording: {} is not the recording {} that this was written for",
                named.run, asked.run
            ));
        }
        (_, Some(_)) => {}
    }
    let injection =
        config.injection.get_or_insert_with(|| InjectionConfig { seed: 1, ..InjectionConfig::default() });
    injection.recording = named.cloned();
    match config.fault() {
        Some((name, expected)) => Err(format!("{name}: {expected}")),
        None => Ok(()),
    }
}

/// Reads a library of kernel activity: one that `quaver sim trace --system` wrote, or by the name [`BUNDLED`] that which comes
/// along.
///
/// # Errors
/// It is not there, or none, or damaged (status 5).
pub(super) fn kernel_activity(path: &Path) -> anyhow::Result<KernelActivity> {
    let mut cut_short = false;
    let loaded = if path == Path::new(BUNDLED) {
        inject::bundled()
    } else {
        let library = file::open_library(path)?;
        cut_short = library.cut_short;
        inject::loaded(&library)
    };
    let (dictionary, epochs) = loaded.map_err(|error| file::refused(path, &error))?;
    if epochs.is_empty() {
        let message = format!("{}: there is no kernel activity in it", path.display());
        return Err(failure(ExitCode::BadInput, message));
    }
    if cut_short {
        quaver_instrument::tell!("quaver: {}: it was cut short: this is what is whole of it", path.display());
    }
    Ok(KernelActivity { dictionary, epochs, cut_short })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::exit_code::status_of;
    use quaver_sim::cure::COMMENTED_CURE;

    #[test]
    fn the_printed_default_is_read_and_paths_are_taken_from_its_place() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cure.toml");
        std::fs::write(&path, COMMENTED_CURE).unwrap();
        let file = read(&path).unwrap();
        assert_eq!(file.config, CureConfig::from_toml(COMMENTED_CURE).unwrap());
        assert_eq!(file.library.as_deref(), Some(Path::new(BUNDLED)));
        assert!(!kernel_activity(Path::new(BUNDLED)).unwrap().epochs.is_empty());
        std::fs::write(&path, "library = 'kernel.qepochs'\n[dvfs]\n").unwrap();
        assert_eq!(read(&path).unwrap().library, Some(place.path().join("kernel.qepochs")));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cure.toml");
        for (text, said) in [
            ("[dvfs]\nspeed = 3", "speed"),
            ("library = 3", "library = 3: the name of a file"),
            ("entries = 99", "entries: 1 to 64"),
            ("recorded = 'nowhere'", "nowhere"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            assert!(format!("{error:#}").contains(said), "{error:#}");
        }
        std::fs::write(&path, "entries = 99").unwrap();
        assert_eq!(status_of(&read(&path).unwrap_err(), &[]), ExitCode::BadInput);
        let library = kernel_activity(&path).unwrap_err();
        assert!(library.to_string().contains("cure.toml"), "{library}");
        assert_eq!(status_of(&library, &[]), ExitCode::BadInput);
    }
}
