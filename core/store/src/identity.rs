//! Which run a table belongs to, in the metadata of the table's file: a table that is copied or joined with those
//! of other runs still states its run, its start and how well its clock was known.

use crate::manifest::Manifest;
use std::path::Path;

/// Key of the run's name, which is that of its directory.
pub const RUN_KEY: &str = "quaver.run";
/// Key of the verb that made the run.
pub const VERB_KEY: &str = "quaver.verb";
/// Key of the run's start: CLOCK_REALTIME, nanoseconds.
pub const STARTED_KEY: &str = "quaver.started_realtime_ns";
/// Key of the name of the host (`uname -n`). Absent where the manifest lacks it.
pub const HOST_KEY: &str = "quaver.host";
/// Key of CLOCK_REALTIME minus CLOCK_MONOTONIC when the run began, nanoseconds. Absent where it is unknown.
pub const WALL_CLOCK_KEY: &str = "quaver.realtime_minus_monotonic_ns";
/// Key of the bound of the clock's error: no instant is wrong by more, nanoseconds. Absent where it is unknown.
pub const CLOCK_BOUND_KEY: &str = "quaver.clock_error_bound_ns";

/// Metadata of a table at `table` by the manifest beside it, or one folder above; nothing where there is none, or it cannot be read:
/// whoever reads the run reports that.
pub(crate) fn of_run_around(table: &Path) -> Vec<(&'static str, String)> {
    let Some(directory) = table.parent().and_then(|parent| parent.canonicalize().ok()) else {
        return Vec::new();
    };
    // Some kinds keep their tables in a folder of the run.
    let found = directory.ancestors().take(2).find(|place| place.join("manifest.json").is_file());
    let Some(directory) = found else { return Vec::new() };
    let path = directory.join("manifest.json");
    let Ok(text) = std::fs::read(&path) else { return Vec::new() };
    let Ok(manifest) = Manifest::parse(&path, &text) else { return Vec::new() };
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let host = manifest.host.pointer("/kernel/hostname").and_then(|name| name.as_str().map(str::to_owned));
    let clock = manifest.clock.as_ref();
    let bound = clock.map(|clock| clock.error_bound_ns.to_string());
    let wall_clock = clock.and_then(|clock| clock.realtime_minus_monotonic_ns).map(|ns| ns.to_string());
    [
        (RUN_KEY, name),
        (VERB_KEY, Some(manifest.verb)),
        (HOST_KEY, host),
        (STARTED_KEY, Some(manifest.started_realtime_ns.to_string())),
        (WALL_CLOCK_KEY, wall_clock),
        (CLOCK_BOUND_KEY, bound),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{TableReader, TableWriter};
    use crate::manifest::ClockCalibration;
    use crate::run::RunDir;
    use crate::table::{Column, Layout};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    /// The pairs of a table that is written at `path` now, without those that every table has.
    fn written(path: &Path) -> Vec<(String, String)> {
        let columns = [Column::required("n", Layout::I64, "")];
        let mut writer = TableWriter::create(path, "numbers", &columns).unwrap().of_run();
        writer.rows(1, |group, _| group.i64([7].into_iter())).unwrap();
        writer.finish().unwrap();
        assert_eq!(TableReader::open(path, "numbers").unwrap().rows(), 1);
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let own = |key: &str| key == "quaver.format" || key == "quaver.table";
        pairs
            .iter()
            .filter(|pair| !own(&pair.key))
            .map(|pair| (pair.key.clone(), pair.value.clone().unwrap()))
            .collect()
    }

    #[test]
    fn a_table_states_the_run_beside_which_it_lies() {
        let parent = tempfile::tempdir().unwrap();
        let run = RunDir::create(parent.path(), "chase").unwrap();
        assert_eq!(written(&run.samples()), [], "no manifest, nothing to state");

        let mut manifest = Manifest::begin("0.1.0", "chase", json!({}), json!({}), 1_795_193_880_000_000_001);
        run.write_manifest(&manifest).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut expected = vec![
            pair("quaver.run", &run.name()),
            pair("quaver.verb", "chase"),
            pair("quaver.started_realtime_ns", "1795193880000000001"),
        ];
        assert_eq!(written(&run.samples()), expected, "an unknown bound is absent");

        manifest.clock = Some(ClockCalibration {
            anchors: 12,
            worst_half_bracket_ns: 21,
            error_bound_ns: 30,
            realtime_minus_monotonic_ns: Some(-5),
            realtime_steps: Vec::new(),
            state: None,
        });
        manifest.host = json!({"kernel": {"hostname": "studio"}});
        run.write_manifest(&manifest).unwrap();
        expected.insert(2, pair("quaver.host", "studio"));
        expected.push(pair("quaver.realtime_minus_monotonic_ns", "-5"));
        expected.push(pair("quaver.clock_error_bound_ns", "30"));
        assert_eq!(written(&run.samples()), expected);

        let below = run.path().join("sync");
        std::fs::create_dir(&below).unwrap();
        assert_eq!(written(&below.join("1.parquet")), expected, "of the run whose folder it is");

        std::fs::write(run.manifest(), "{").unwrap();
        assert_eq!(written(&run.samples()), [], "a damaged manifest states nothing");
    }
}
