//! The place that host facts are read from: `/`, or a copy of a part of it in tests.

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where `/proc` and `/sys` are found. Everything read through it is read only: no method writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot {
    path: PathBuf,
}

impl HostRoot {
    /// This machine.
    pub fn system() -> Self {
        Self { path: PathBuf::from("/") }
    }

    /// A directory that holds `proc/` and `sys/` as a machine would show them.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Whether this is the running machine, so that a system call tells of the same machine as the files.
    pub fn is_system(&self) -> bool {
        self.path == Path::new("/")
    }

    /// The full path of a file named from the root, with or without its leading slash.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name.trim_start_matches('/'))
    }

    /// Whether the file is there.
    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Text of a file without its last line end; none if it is missing, unreadable or not text.
    pub fn text(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(name)).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.trim_end_matches(['\n', '\0']).to_owned())
    }

    /// The file's first word as a value; none if it is missing or is no such value.
    pub fn value<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.split_whitespace().next()?.parse().ok()
    }

    /// A file that holds 0 or 1.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.value::<i64>(name).map(|value| value != 0)
    }

    /// A file that holds a list of CPUs, such as `0-3,8`; empty if it is missing.
    pub fn cpu_list(&self, name: &str) -> Vec<u16> {
        self.text(name).map(|text| parse_cpu_list(&text)).unwrap_or_default()
    }

    /// Names of what is in a directory, sorted; empty if it is missing.
    pub fn names(&self, name: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(name)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Last component of what a symbolic link points to.
    pub fn link_name(&self, name: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(name)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}

/// Reads a kernel CPU list (`0-3,8`, `(null)` for none). Parts that are no numbers are left out.
pub fn parse_cpu_list(text: &str) -> Vec<u16> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5\n"), vec![0, 1, 2, 5]);
        assert_eq!(parse_cpu_list(""), Vec::<u16>::new());
        assert_eq!(parse_cpu_list("(null)"), Vec::<u16>::new());
        assert_eq!(parse_cpu_list("7-5"), Vec::<u16>::new());
    }

    #[test]
    fn a_missing_file_is_none_and_not_zero() {
        let directory = tempfile::tempdir().expect("temporary directory");
        std::fs::write(directory.path().join("five"), "5 words\n").expect("write");
        let root = HostRoot::at(directory.path());
        assert_eq!(root.value::<u64>("/five"), Some(5));
        assert_eq!(root.value::<u64>("five"), Some(5));
        assert_eq!(root.value::<u64>("six"), None);
        assert_eq!(root.names("nowhere"), Vec::<String>::new());
        assert!(!root.is_system() && HostRoot::system().is_system());
    }
}
