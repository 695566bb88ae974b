//! QEMU's emulator of single programs, where `quaver sim trace` runs a program to see each of its instructions.

use quaver_abi::marks::MARKS_VARIABLE;
use quaver_lab_guests::plugin::plugin_words;
use quaver_launch::program;
use quaver_launch::program::{Obstacle, Program};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the emulator.
pub const NAME: &str = "qemu-x86_64";
/// Environment variable that names another one.
pub const VARIABLE: &str = "QUAVER_QEMU_USER";
/// File name of the plugin that it loads, which lies beside the recorder.
pub const PLUGIN: &str = "libquaver_qemu_plugin.so";
/// All that it can emulate but the fast string instructions: it would run those a byte at a time.
const PROCESSOR: &str = "max,-erms,-fsrm";
/// From this version on it tells plugins of a new thread elsewhere than where it is made, so that nobody knows who made it.
const FIRST_FOREIGN: u32 = 9;

/// What is needed to trace a program is not there, or is of no use.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// There is no emulator.
    #[error(
        "there is no {NAME}, in which programs are traced; install qemu-user (Debian: apt-get install qemu-user), or name it in {VARIABLE}"
    )]
    Absent,
    /// It takes no plugins.
    #[error(
        "{} is of no use for plugins ({why}); install Debian 12's qemu-user 7.2, or name another {NAME} in {VARIABLE}",
        .path.display()
    )]
    Useless {
        /// The emulator.
        path: PathBuf,
        /// How that is known.
        why: String,
    },
    /// It could not be asked.
    #[error("asking {} what it can: {source}", .path.display())]
    Silent {
        /// The emulator.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The plugin is not installed.
    #[error(
        "the plugin {PLUGIN} is not in {}, where the recorder is; install it there (cargo build -p quaver-qemu-plugin makes it), \
         or name a directory with both in QUAVER_LIBDIR",
        .directory.display()
    )]
    NoPlugin {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// A path that QEMU would cut.
    #[error("the path {} holds a comma, at which QEMU would cut it; put it elsewhere", .path.display())]
    Unspeakable {
        /// The path.
        path: PathBuf,
    },
    /// The program cannot be traced.
    #[error("{0}")]
    Program(String),
}

/// Finds the emulator: the one that `named` names, or the first in the directories of `search`; and looks at whether it takes
/// plugins.
///
/// # Errors
/// There is none, or it is of no use.
pub fn find(named: Option<&OsStr>, search: Option<&OsStr>) -> Result<PathBuf, EmulatorError> {
    let name = named.filter(|name| !name.is_empty()).unwrap_or(OsStr::new(NAME));
    let path = program::find(name, search).filter(|path| path.is_file()).ok_or(EmulatorError::Absent)?;
    let useless = |why: &str| EmulatorError::Useless { path: path.clone(), why: why.to_owned() };
    if program::inspect(&path, search).obstacles.contains(&Obstacle::Static) {
        return Err(useless("it is linked statically"));
    }
    let say = |option: &str| {
        let output = Command::new(&path).arg(option).stdin(std::process::Stdio::null()).output();
        output.map_err(|source| EmulatorError::Silent { path: path.clone(), source })
    };
    if !String::from_utf8_lossy(&say("-help")?.stdout).contains("-plugin") {
        return Err(useless("it was built without them"));
    }
    let version = String::from_utf8_lossy(&say("-version")?.stdout).into_owned();
    match major_version(&version) {
        Some(major) if major < FIRST_FOREIGN => Ok(path),
        Some(major) => {
            Err(useless(&format!("it is version {major}, which does not tell them who makes a thread")))
        }
        None => Err(useless("it does not tell its version")),
    }
}

/// The first number of `… version 7.2.22 (Debian …)`.
fn major_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("version ")?;
    version.split('.').next()?.parse().ok()
}

/// Finds the plugin, which lies beside the recorder.
///
/// # Errors
/// It is not there, or its path cannot be told to QEMU.
pub fn plugin(recorder: &Path) -> Result<PathBuf, EmulatorError> {
    let directory = recorder.parent().unwrap_or(Path::new("/"));
    let path = directory.join(PLUGIN);
    if !path.is_file() {
        return Err(EmulatorError::NoPlugin { directory: directory.to_owned() });
    }
    Ok(path)
}

/// Looks at whether a program can be traced; what will not be seen of it is told in sentences.
///
/// # Errors
/// It cannot.
pub fn look_at(program: &Program) -> Result<Vec<String>, EmulatorError> {
    let refuse = |sentence: String| Err(EmulatorError::Program(sentence));
    let name = program.path.display();
    if let Some(interpreter) = &program.interpreter {
        let interpreter = interpreter.display();
        return refuse(format!("{name} is a script; trace what runs it: {interpreter} {name}"));
    }
    let mut sentences = Vec::new();
    for obstacle in &program.obstacles {
        match obstacle {
            Obstacle::Static => {
                return refuse(format!(
                    "{name} is linked statically: no recorder can be put before its C library, so nobody would know how its \
                     threads wait; link it dynamically"
                ));
            }
            Obstacle::Foreign => {
                return refuse(format!("{name} is no program for x86-64 and this machine: it cannot be traced here"));
            }
            Obstacle::Musl => {
                return refuse(format!("{name} uses musl's C library, for which the recorder is not built"));
            }
            Obstacle::Go | Obstacle::RustStd => sentences.push(format!(
                "{name} waits in futex calls of its own, which are not seen: in the trace its threads do not wait for each other"
            )),
            Obstacle::Privileged => {}
        }
    }
    Ok(sentences)
}

/// What to run a program with.
#[derive(Clone, Copy, Debug)]
pub struct Emulated<'a> {
    /// The emulator.
    pub emulator: &'a Path,
    /// The plugin.
    pub plugin: &'a Path,
    /// Directory with the plan.
    pub control: &'a Path,
    /// `LD_PRELOAD` of the program.
    pub preload: &'a OsStr,
    /// The program's file.
    pub program: &'a Path,
    /// The program as its user named it, and its arguments.
    pub words: &'a [OsString],
}

impl Emulated<'_> {
    /// The words to start.
    ///
    /// # Errors
    /// A path cannot be told to QEMU.
    pub fn words(&self) -> Result<Vec<OsString>, EmulatorError> {
        // The list of variables has no way to write a comma.
        if self.preload.as_bytes().contains(&b',') {
            return Err(EmulatorError::Unspeakable { path: self.preload.into() });
        }
        let variable = |name: &str, value: &OsStr| {
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            word
        };
        let marks = MARKS_VARIABLE.to_str().expect("a constant of ASCII");
        let plugin = plugin_words(self.plugin, self.control);
        // Loaded before the emulator too, the plugin learns of a signal that kills the program. By `env`, so that the tool's own
        // children keep theirs.
        let first = variable("LD_PRELOAD", self.plugin.as_os_str());
        let mut words: Vec<OsString> =
            vec!["env".into(), first, self.emulator.into(), "-cpu".into(), PROCESSOR.into()];
        let environment = [
            variable("LD_PRELOAD", self.preload),
            variable(marks, OsStr::new("1")),
            // What the loader binds when a function is first called is no part of the program.
            variable("LD_BIND_NOW", OsStr::new("1")),
        ];
        for variable in environment {
            words.extend(["-E".into(), variable]);
        }
        words.extend(["-plugin".into(), plugin, "-0".into(), self.words[0].clone()]);
        words.push(self.program.into());
        words.extend_from_slice(&self.words[1..]);
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(interpreter: Option<&str>, obstacles: Vec<Obstacle>) -> Program {
        Program { path: "/bin/prog".into(), interpreter: interpreter.map(PathBuf::from), obstacles }
    }

    #[test]
    fn what_cannot_be_traced_is_refused_with_a_sentence() {
        assert_eq!(look_at(&program(None, vec![])).unwrap(), Vec::<String>::new());
        for (obstacle, said) in [
            (Obstacle::Static, "linked statically"),
            (Obstacle::Foreign, "no program for x86-64"),
            (Obstacle::Musl, "musl"),
        ] {
            let refused = look_at(&program(None, vec![obstacle])).unwrap_err().to_string();
            assert!(refused.starts_with("/bin/prog ") && refused.contains(said), "{refused}");
        }
        let script = look_at(&program(Some("/bin/sh"), vec![])).unwrap_err().to_string();
        assert_eq!(script, "/bin/prog is a script; trace what runs it: /bin/sh /bin/prog");
        assert_eq!(look_at(&program(None, vec![Obstacle::RustStd, Obstacle::Privileged])).unwrap().len(), 1);
    }

    #[test]
    fn an_emulator_that_takes_no_plugins_is_refused() {
        let place = tempfile::tempdir().unwrap();
        assert!(matches!(find(None, Some(place.path().as_os_str())), Err(EmulatorError::Absent)));
        let make = |help: &str, version: &str| {
            let path = place.path().join(NAME);
            let script = format!("#!/bin/sh\n[ \"$1\" = -help ] && echo '{help}' || echo '{version}'\n");
            quaver_testbed::stand_in::stand_in(&path, &script);
            find(None, Some(place.path().as_os_str())).map_err(|error| error.to_string())
        };
        let version = "qemu-x86_64 version 7.2.22 (Debian)";
        assert_eq!(make("-plugin", version).unwrap(), place.path().join(NAME));
        assert!(make("-strace", version).unwrap_err().contains("built without them"));
        assert!(make("-plugin", "qemu-x86_64 version 10.0.2").unwrap_err().contains("version 10"));
        assert!(make("-plugin", "what").unwrap_err().contains("does not tell"));
    }

    #[test]
    fn commas_in_paths_are_escaped_or_refused() {
        let words = [OsString::from("prog"), OsString::from("-x,y")];
        let mut emulated = Emulated {
            emulator: Path::new("/q"),
            plugin: Path::new("/a,b/p.so"),
            control: Path::new("/c"),
            preload: OsStr::new("/r.so"),
            program: Path::new("/bin/prog"),
            words: &words,
        };
        let text = emulated.words().unwrap().join(OsStr::new(" ")).into_string().unwrap();
        assert_eq!(
            text,
            "env LD_PRELOAD=/a,b/p.so /q -cpu max,-erms,-fsrm -E LD_PRELOAD=/r.so -E QUAVER_SIM_MARKS=1 -E LD_BIND_NOW=1 -plugin \
             /a,,b/p.so,control=/c -0 prog /bin/prog -x,y"
        );
        emulated.preload = OsStr::new("/r,.so");
        assert!(emulated.words().is_err());
    }
}
