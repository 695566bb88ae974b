//! The files that git tracks.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// All tracked files by their path from the repository's root, with `/` between the parts.
pub(crate) struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Reads them from a work tree. A tracked file that was deleted is left out.
    pub(crate) fn tracked(root: &Path) -> anyhow::Result<Self> {
        let listing = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
        let listing = listing.context("git ls-files: is git installed?")?;
        if !listing.status.success() {
            bail!("git ls-files in {}: {}", root.display(), String::from_utf8_lossy(&listing.stderr));
        }
        let names = String::from_utf8(listing.stdout).context("git ls-files: a path is not UTF-8")?;
        let files = names
            .split('\0')
            .filter(|name| !name.is_empty())
            .filter_map(|name| Some((name.to_owned(), std::fs::read(root.join(name)).ok()?)))
            .collect();
        Ok(Self { files })
    }

    /// Made-up files, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        Self { files: files.collect() }
    }

    /// Number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Paths in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// A file's text; none if it is missing or is not text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(self.files.get(path)?).ok()
    }

    /// Text files in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, bytes)| Some((path.as_str(), std::str::from_utf8(bytes).ok()?)))
    }

    /// Rust sources in order.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }
}
