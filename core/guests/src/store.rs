//! Where the lab's parts lie: an emulator and kernels, unpacked aside from the system by `quaver lab fetch`.

use super::GuestError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory, over everything else.
pub const VARIABLE: &str = "QUAVER_LABDIR";
/// The emulator's program.
const PROGRAM: &str = "qemu-system-x86_64";
/// Older ones hang with two processors in virtual time (7.2 was seen to).
const LEAST_MAJOR: u32 = 8;

/// The directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabStore {
    directory: PathBuf,
}

/// A kernel that guests boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Compressed image.
    pub image: PathBuf,
    /// Its version, as `uname -r` has it.
    pub release: String,
    /// Directory of its modules, with a `modules.dep` as depmod(8) writes it.
    pub modules: PathBuf,
}

/// An emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// Program.
    pub program: PathBuf,
    /// Directories of its libraries, beside the system's.
    pub libraries: Vec<PathBuf>,
    /// Directories of its firmware, where it does not know by itself.
    pub firmware: Vec<PathBuf>,
    /// Version as it says, such as `10.0.2`.
    pub version: String,
}

impl LabStore {
    /// The one of this user: `QUAVER_LABDIR`, else `quaver/lab` in the cache directory (XDG_CACHE_HOME, else ~/.cache).
    #[must_use]
    pub fn standard() -> Self {
        Self::of(&|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    fn of(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let cache = || {
            let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
            let cache = cache.or_else(|| variable("HOME").map(|home| home.join(".cache")));
            cache.unwrap_or_else(|| PathBuf::from("/var/cache")).join("quaver/lab")
        };
        Self { directory: variable(VARIABLE).unwrap_or_else(cache) }
    }

    /// The one in this directory.
    #[must_use]
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Path of the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kernel of this name: `kernel`, or `kernel-rt` for the one with real-time preemption.
    ///
    /// # Errors
    /// [`GuestError::Missing`].
    pub fn kernel(&self, name: &str) -> Result<Kernel, GuestError> {
        let place = self.directory.join(name);
        let image = place.join("vmlinuz");
        let release = std::fs::read_to_string(place.join("release")).unwrap_or_default().trim().to_owned();
        if release.is_empty() || !image.is_file() {
            return Err(GuestError::Missing { what: format!("there is no kernel in {}", place.display()) });
        }
        Ok(Kernel { image, release, modules: place.join("modules") })
    }

    /// The emulator: the one fetched, else the system's.
    ///
    /// # Errors
    /// [`GuestError::Missing`] where there is none, it does not run, or it is too old.
    pub fn emulator(&self) -> Result<Emulator, GuestError> {
        let own = self.directory.join("qemu");
        let fetched = Emulator {
            program: own.join("usr/bin").join(PROGRAM),
            libraries: ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|path| own.join(path)).into(),
            firmware: ["usr/share/qemu", "usr/share/seabios"].map(|path| own.join(path)).into(),
            version: String::new(),
        };
        let system = || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let program =
                std::env::split_paths(&path).map(|one| one.join(PROGRAM)).find(|path| path.is_file());
            let nothing = || Vec::new();
            program.map(|program| Emulator {
                program,
                libraries: nothing(),
                firmware: nothing(),
                version: String::new(),
            })
        };
        let found = if fetched.program.is_file() { Some(fetched) } else { system() };
        let what = || format!("there is no {PROGRAM}, neither in {} nor in PATH", own.display());
        let mut found = found.ok_or_else(|| GuestError::Missing { what: what() })?;
        found.version = found.ask_version()?;
        let major = found.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < LEAST_MAJOR) {
            let what = format!(
                "{} is QEMU {}, which hangs in virtual time; {LEAST_MAJOR} or newer is wanted",
                found.program.display(),
                found.version
            );
            return Err(GuestError::Missing { what });
        }
        Ok(found)
    }
}

impl Emulator {
    /// The command that runs it, without arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Ok(path) = std::env::join_paths(&self.libraries)
            && !self.libraries.is_empty()
        {
            command.env("LD_LIBRARY_PATH", path);
        }
        for directory in &self.firmware {
            command.arg("-L").arg(directory);
        }
        command
    }

    fn ask_version(&self) -> Result<String, GuestError> {
        let failed = |why: &str| GuestError::Missing {
            what: format!("{} does not run ({})", self.program.display(), why.trim()),
        };
        let output = self.command().arg("--version").output().map_err(|error| failed(&error.to_string()))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        version(&text).map(str::to_owned).ok_or_else(|| failed("it does not say its version"))
    }
}

/// The version in what QEMU says of itself.
fn version(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(" version ")?;
    rest.split(|c: char| c.is_whitespace() || c == '(').next().filter(|word| !word.is_empty())
}

impl Kernel {
    /// Files to load for `module`, in the order in which they have to be.
    ///
    /// # Errors
    /// [`GuestError::Missing`] where it has no such module; [`GuestError::File`] where its list cannot be read.
    pub fn load_order(&self, module: &str) -> Result<Vec<PathBuf>, GuestError> {
        let list = self.modules.join("modules.dep");
        let text = std::fs::read_to_string(&list);
        let text =
            text.map_err(|source| GuestError::File { operation: "read", path: list.clone(), source })?;
        let order = load_order(&text, module).ok_or_else(|| GuestError::Missing {
            what: format!("{} does not have {module}", list.display()),
        })?;
        Ok(order.into_iter().map(|file| self.modules.join(file)).collect())
    }
}

/// Files of a `modules.dep` that `module` needs, and its own last. A line is `file: file file ...`, the last one needed first.
fn load_order<'a>(text: &'a str, module: &str) -> Option<Vec<&'a str>> {
    let stem = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or(file);
        name.split(".ko").next().unwrap_or(name).replace('-', "_")
    };
    let wanted = module.replace('-', "_");
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let (file, needs) = lines.into_iter().find(|(file, _)| stem(file) == wanted)?;
    let mut order: Vec<&str> = needs.split_whitespace().rev().collect();
    order.push(file.trim());
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_one_named_else_in_the_cache() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<_> =
                set.iter().map(|(name, value)| ((*name).to_owned(), PathBuf::from(value))).collect();
            LabStore::of(&move |name| {
                set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            })
        };
        let is = |path: &str| LabStore::at(path.into());
        assert_eq!(of(&[(VARIABLE, "/x"), ("HOME", "/h")]), is("/x"));
        assert_eq!(of(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]), is("/c/quaver/lab"));
        assert_eq!(of(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]), is("/h/.cache/quaver/lab"));
        assert_eq!(of(&[]), is("/var/cache/quaver/lab"));
    }

    #[test]
    fn what_a_module_needs_comes_before_it() {
        let text = "kernel/a/i2c-algo-bit.ko.xz:\nkernel/b/igb.ko.xz: kernel/c/dca.ko.xz kernel/a/i2c-algo-bit.ko.xz\n";
        let wanted = ["kernel/a/i2c-algo-bit.ko.xz", "kernel/c/dca.ko.xz", "kernel/b/igb.ko.xz"];
        assert_eq!(load_order(text, "igb").unwrap(), wanted);
        assert_eq!(load_order(text, "i2c_algo_bit").unwrap(), ["kernel/a/i2c-algo-bit.ko.xz"]);
        assert_eq!(load_order(text, "ig"), None);
    }

    #[test]
    fn an_emulator_says_its_version() {
        assert_eq!(version("QEMU emulator version 10.0.2 (Debian 1:10.0.2)\nCopyright"), Some("10.0.2"));
        assert_eq!(version("QEMU emulator version 9.1.0\n"), Some("9.1.0"));
        assert_eq!(version("nothing"), None);
    }

    #[test]
    fn an_empty_directory_says_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let error = LabStore::at(place.path().into()).kernel("kernel").unwrap_err().to_string();
        assert!(error.contains("no kernel in") && error.contains("quaver lab fetch"), "{error}");
    }
}
