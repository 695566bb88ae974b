//! A run as lists show it.

use crate::facts::run_facts;
use crate::registry::RunKind;
use crate::threshold::number_at;
use quaver_store::error::StoreError;
use quaver_store::listing::{Listed, tags};
use quaver_store::run::RunDir;
use quaver_view::Unit;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A run with what a list tells of it.
pub(super) struct RunRow {
    pub listed: Listed,
    /// Size of its directory.
    pub bytes: u64,
    /// Path into the summary and value of the number that stands for it.
    pub headline: Option<(String, f64)>,
    /// Its summary; null where there is none.
    pub summary: Value,
}

impl RunRow {
    pub(super) fn of(listed: Listed, kinds: &[&'static dyn RunKind]) -> Self {
        let summary: Value = listed.run.read_summary().unwrap_or_default();
        let kind = kinds.iter().find(|kind| kind.verbs().contains(&listed.manifest.verb.as_str()));
        let paths = kind.map_or(&[][..], |kind| kind.headline());
        let headline = paths.iter().find_map(|path| Some(((*path).to_owned(), number_at(&summary, path)?)));
        Self { bytes: size_bytes(listed.run.path()), listed, headline, summary }
    }

    pub(super) fn read(run: RunDir, kinds: &[&'static dyn RunKind]) -> Result<Self, StoreError> {
        let (manifest, tags) = (run.read_manifest()?, tags(&run));
        Ok(Self::of(Listed { run, manifest, tags }, kinds))
    }

    pub(super) fn verb(&self) -> &str {
        &self.listed.manifest.verb
    }

    pub(super) fn host(&self) -> String {
        run_facts(&self.listed.run, &self.listed.manifest).host
    }

    /// A number of the summary: by its path, or by its name beside the headline number.
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        let beside = || {
            let (above, _) = self.headline.as_ref()?.0.rsplit_once('.')?;
            number_at(&self.summary, &format!("{above}.{path}"))
        };
        number_at(&self.summary, path).or_else(beside)
    }

    pub(super) fn json(&self) -> Value {
        let manifest = &self.listed.manifest;
        json!({
            "name": self.listed.run.name(),
            "path": self.listed.run.path(),
            "verb": manifest.verb,
            "when": manifest.started,
            "host": self.host(),
            "complete": manifest.complete,
            "headline": self.headline.as_ref().map(|(path, value)| json!({"figure": path, "value": value})),
            "size_bytes": self.bytes,
            "tags": self.listed.tags,
        })
    }
}

/// The unit of a number of a summary, by the end of its name.
pub(crate) fn unit_of(path: &str) -> Unit {
    match path {
        _ if path.ends_with("_ns") => Unit::Duration,
        _ if path.ends_with("share") => Unit::Share,
        _ if path.ends_with("_bytes") => Unit::Bytes,
        _ => Unit::Number,
    }
}

/// Bytes of all files below; symbolic links count as themselves.
fn size_bytes(place: &Path) -> u64 {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some(if metadata.is_dir() { size_bytes(&entry.path()) } else { metadata.len() })
        })
        .sum()
}
