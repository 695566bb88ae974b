//! A setting of the system, put back when dropped.

use std::io;
use std::path::PathBuf;

/// A file of `/proc/sys` or `/sys` whose text is put back when this is dropped.
pub struct Setting {
    file: PathBuf,
    before: String,
}

impl Setting {
    /// Remembers what the file says.
    pub fn keep(file: impl Into<PathBuf>) -> io::Result<Self> {
        let file = file.into();
        let before = std::fs::read_to_string(&file)?;
        Ok(Self { file, before })
    }

    /// What it said.
    pub fn before(&self) -> &str {
        self.before.trim()
    }

    /// Writes another value.
    pub fn set(&self, value: &str) -> io::Result<()> {
        std::fs::write(&self.file, value)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.file, self.before.trim()) {
            eprintln!("truth: putting back {}: {error}", self.file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_said_is_put_back() {
        let file = std::env::temp_dir().join(format!("quaver-setting-{}", std::process::id()));
        std::fs::write(&file, "3\n").unwrap();
        let setting = Setting::keep(&file).unwrap();
        setting.set("1").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
        drop(setting);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "3");
        std::fs::remove_file(&file).unwrap();
        assert!(Setting::keep(&file).is_err(), "nothing is made where nothing was");
    }
}
