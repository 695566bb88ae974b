//! The file of a machine, and `--set`: what they say over the default.

use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::config::Config;
use std::path::Path;

/// The default machine with what `file` says, and then what each of `set` (name and value) says.
///
/// # Errors
/// The file cannot be read or is no machine (status 5), or a name or value of `set` is wrong (status 2).
pub(super) fn read(file: Option<&Path>, set: &[(String, String)]) -> anyhow::Result<Config> {
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
    use crate::digest::differences;
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
        let found = differences(&read(Some(&file), &set).unwrap());
        let words: Vec<String> =
            found.iter().map(|one| format!("{}={} not {}", one.key, one.value, one.default)).collect();
        assert_eq!(
            words,
            [
                "chip.cores=4 not 16",
                "l2.hit_cycles=14 not 12",
                "l2.kib=1024 not 256",
                "memory.latency=\"100 ns\" not \"ddr3\""
            ]
        );
        assert_eq!(differences(&read(None, &[]).unwrap()), []);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("m.toml");
        std::fs::write(&file, "[l2]\nkb = 512\n").unwrap();
        let error = read(Some(&file), &[]).unwrap_err();
        assert_eq!(status_of(&error, &[]), ExitCode::BadInput);
        assert!(error.to_string().contains("m.toml: ") && error.to_string().contains("kb"), "{error}");
        for (set, said) in [(("l2.kib", "100"), "kib"), (("l3.kib", "1"), "l3"), (("l2", "3"), "l2")] {
            let error = read(None, &pairs(&[set])).unwrap_err();
            assert_eq!(status_of(&error, &[]), ExitCode::Usage);
            assert!(error.to_string().contains(said), "{error}");
        }
        let nowhere = read(Some(Path::new("/nowhere/m.toml")), &[]).unwrap_err();
        assert_eq!(status_of(&nowhere, &[]), ExitCode::BadInput);
    }
}
