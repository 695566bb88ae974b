//! What is known of a run that is asked about, wherever it lies.

use crate::exports::tables_below;
use anyhow::Context;
use quaver_store::columns::table_name;
use quaver_store::listing::Listed;
use quaver_store::manifest::Manifest;

/// A run. Its places are absolute paths, or of the form `s3://bucket/prefix`.
#[derive(Debug)]
pub(super) struct Asked {
    /// Where it is; the last part is its name.
    pub place: String,
    /// What was asked, and when.
    pub manifest: Manifest,
    /// Where that stands.
    pub manifest_file: String,
    /// Names that people gave it.
    pub tags: Vec<String>,
    /// The file with all numbers; none where it was not analysed.
    pub summary_file: Option<String>,
    /// Its tables, and those of runs within it.
    pub tables: Vec<TableFile>,
}

/// A table in a file.
#[derive(Debug)]
pub(super) struct TableFile {
    /// Name of the table.
    pub name: String,
    /// Where it is.
    pub file: String,
    /// It lies so many folders deep in its run.
    pub depth: usize,
}

/// A run of this machine. Standard error names each table that cannot be read; it is left out.
///
/// # Errors
/// Its directory cannot be read.
pub(super) fn here(listed: Listed) -> anyhow::Result<Asked> {
    let Listed { run, manifest, tags } = listed;
    let path = run.path().canonicalize().with_context(|| format!("reading {}", run.path().display()))?;
    let text = |name: &str| path.join(name).to_string_lossy().into_owned();
    let mut tables = Vec::new();
    for (place, file) in tables_below(&path).with_context(|| format!("reading {}", path.display()))? {
        match table_name(&file) {
            Ok(name) => {
                let (depth, file) = (place.matches('/').count(), file.to_string_lossy().into_owned());
                tables.push(TableFile { name, file, depth });
            }
            Err(error) => crate::tell!("{error}; it is left out"),
        }
    }
    let summary = Some(run.whole_summary()).filter(|file| file.is_file());
    let summary_file = summary.and_then(|file| Some(text(file.file_name()?.to_str()?)));
    let (place, manifest_file) = (path.to_string_lossy().into_owned(), text("manifest.json"));
    Ok(Asked { place, manifest, manifest_file, tags, summary_file, tables })
}
