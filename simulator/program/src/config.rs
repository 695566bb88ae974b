//! `quaver sim config`: the simulated machine, printed or checked.

use super::cure_file;
use crate::args::SimConfigArgs;
use crate::digest::{Difference, differences};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results;
use quaver_sim::config::{COMMENTED_DEFAULT, Config};
use quaver_sim::cure::{COMMENTED_CURE, Cure, Library};
use std::path::Path;

/// Prints the default, or checks a file.
pub(super) fn run(args: &SimConfigArgs) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.check else {
        let text = if args.cure { COMMENTED_CURE } else { COMMENTED_DEFAULT };
        results::to_stdout(text.as_bytes())?;
        return Ok(ExitCode::Done);
    };
    if args.cure {
        return check_cure(path);
    }
    let config = machine(Some(path), &[])?;
    let differences = differences(&config);
    let mut page = format!("{}: this machine can be simulated.\n", path.display());
    if differences.is_empty() {
        page.push_str("It is the default.\n");
    } else {
        page.push_str("It differs from the default in\n");
        for Difference { key, value, default } in &differences {
            page.push_str(&format!("  {key} = {value}  (default: {default})\n"));
        }
    }
    results::to_stdout(page.as_bytes())?;
    Ok(ExitCode::Done)
}

/// Checks a file of a cure, and what it names.
fn check_cure(path: &Path) -> anyhow::Result<ExitCode> {
    let file = cure_file::read(path)?;
    let mut page = format!("{}: this can be run on the default machine.\n", path.display());
    if let Some(library) = &file.library {
        let kernel = cure_file::kernel_activity(library)?;
        page.push_str(&format!("{}: {} epochs of kernel activity\n", library.display(), kernel.epochs.len()));
    }
    let on_default = Cure::new(file.config, &Config::default(), Library::default());
    on_default.map_err(|(name, expected)| {
        failure(ExitCode::BadInput, format!("{}: {name}: {expected}", path.display()))
    })?;
    results::to_stdout(page.as_bytes())?;
    Ok(ExitCode::Done)
}

/// The default machine with what `file` says, and then what each of `set` (name and value) says.
///
/// # Errors
/// The file cannot be read or is no machine (status 5), or a name or value of `set` is wrong (status 2).
pub(super) fn machine(file: Option<&Path>, set: &[(String, String)]) -> anyhow::Result<Config> {
    let mut text = String::new();
    if let Some(path) = file {
        let bad = |error: &dyn std::fmt::Display| {
            failure(ExitCode::BadInput, format!("{}: {}", path.display(), error.to_string().trim_end()))
        };
        text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
        Config::from_toml(&text).map_err(|error| bad(&error))?;
    }
    let mut whole: toml::Table = text.parse().map_err(anyhow::Error::new)?;
    for (key, text) in set {
        put(&mut whole, key, value(text));
    }
    let all = set.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" --set ");
    let text = toml::to_string(&whole).map_err(anyhow::Error::new)?;
    Config::from_toml(&text)
        .map_err(|error| failure(ExitCode::Usage, format!("--set {all}: {}", error.to_string().trim_end())))
}

/// What a value of `--set` is: TOML, or a text where it is none by itself.
fn value(text: &str) -> toml::Value {
    let parsed = format!("value = {text}").parse::<toml::Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Puts a value in the place that `key` names, through tables.
pub(super) fn put(table: &mut toml::Table, key: &str, value: toml::Value) {
    let Some((outer, inner)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return;
    };
    let within = table.entry(outer).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let toml::Value::Table(within) = within {
        put(within, inner, value);
    } else {
        *within = toml::Value::Table(toml::Table::from_iter([(inner.to_owned(), value)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::exit_code::status_of;

    fn pairs(set: &[(&str, &str)]) -> Vec<(String, String)> {
        set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_set_goes_over_the_file_and_the_file_over_the_default() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("m.toml");
        std::fs::write(&file, "[l2]\nkib = 512\nhit_cycles = 14\n").unwrap();
        let set = pairs(&[("l2.kib", "1024"), ("memory.latency", "100 ns"), ("chip.cores", "4")]);
        let found = differences(&machine(Some(&file), &set).unwrap());
        let words: Vec<String> =
            found.iter().map(|one| format!("{}={} not {}", one.key, one.value, one.default)).collect();
        assert_eq!(
            words,
            [
                "chip.cores=4 not 16",
                "l2.hit_cycles=14 not 12",
                "l2.kib=1024 not 256",
                "memory.latency=\"100 ns\" not \"300 cycles\""
            ]
        );
        assert_eq!(differences(&machine(None, &[]).unwrap()), []);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("m.toml");
        std::fs::write(&file, "[l2]\nkb = 512\n").unwrap();
        let error = machine(Some(&file), &[]).unwrap_err();
        assert_eq!(status_of(&error, &[]), ExitCode::BadInput);
        assert!(error.to_string().contains("m.toml: ") && error.to_string().contains("kb"), "{error}");
        for (set, said) in [(("l2.kib", "100"), "kib"), (("l3.kib", "1"), "l3"), (("l2", "3"), "l2")] {
            let error = machine(None, &pairs(&[set])).unwrap_err();
            assert_eq!(status_of(&error, &[]), ExitCode::Usage);
            assert!(error.to_string().contains(said), "{error}");
        }
        let nowhere = machine(Some(Path::new("/nowhere/m.toml")), &[]).unwrap_err();
        assert_eq!(status_of(&nowhere, &[]), ExitCode::BadInput);
    }
}
