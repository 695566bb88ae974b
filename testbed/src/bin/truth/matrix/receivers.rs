//! Receivers of other makers: how each is built and started, and what it can be told to do itself.

use super::program::silent;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sources of the receivers that are made here.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/receivers");

/// A program that receives the stream. In `build` and `run`, `{src}` is the folder of the sources, `{out}` that of what is
/// built, `{port}` the port and `{deed}` what it does each 250 packets.
pub(super) struct Receiver {
    pub(super) name: &'static str,
    /// How it waits for packets.
    pub(super) waits: &'static str,
    /// Programs that it needs.
    needs: &'static [&'static str],
    /// Empty: there is nothing to build.
    build: &'static str,
    run: &'static str,
    /// What it can be told to do each 250 packets.
    pub(super) deeds: &'static [&'static str],
}

const BUILD_C: &str = "gcc -O2 -pthread -o {out}/receiver-c {src}/receiver.c";
const C_DEEDS: &[&str] = &["sleep", "timerfd", "compute", "disk", "faults", "pipe"];
const COMMON_DEEDS: &[&str] = &["sleep", "compute", "disk"];
const PYTHON_DEEDS: &[&str] = &["sleep", "compute", "disk", "gc"];

/// All of them.
pub(super) const ALL: [Receiver; 10] = [
    Receiver {
        name: "c-blocking",
        waits: "blocking",
        needs: &["gcc"],
        build: BUILD_C,
        run: "{out}/receiver-c block {port} {deed} {out}",
        deeds: C_DEEDS,
    },
    Receiver {
        name: "c-poll",
        waits: "poll",
        needs: &["gcc"],
        build: BUILD_C,
        run: "{out}/receiver-c poll {port} {deed} {out}",
        deeds: C_DEEDS,
    },
    Receiver {
        name: "c-busy",
        waits: "polling",
        needs: &["gcc"],
        build: BUILD_C,
        run: "{out}/receiver-c busy {port} {deed} {out}",
        deeds: C_DEEDS,
    },
    Receiver {
        name: "c-threads",
        waits: "blocking",
        needs: &["gcc"],
        build: BUILD_C,
        run: "{out}/receiver-c threads {port} {deed} {out}",
        deeds: &["sleep", "timerfd", "compute", "disk", "faults", "pipe", "lock", "lock-sleep"],
    },
    Receiver {
        name: "python",
        waits: "blocking",
        needs: &["python3"],
        build: "",
        run: "python3 {src}/receiver.py block {port} {deed} {out}",
        deeds: PYTHON_DEEDS,
    },
    Receiver {
        name: "asyncio",
        waits: "epoll",
        needs: &["python3"],
        build: "",
        run: "python3 {src}/receiver.py asyncio {port} {deed} {out}",
        deeds: PYTHON_DEEDS,
    },
    Receiver {
        name: "java",
        waits: "blocking",
        needs: &["java", "javac"],
        build: "javac -d {out} {src}/Receiver.java",
        run: "java -cp {out} Receiver block {port} {deed} {out}",
        deeds: COMMON_DEEDS,
    },
    Receiver {
        name: "go",
        waits: "epoll",
        needs: &["go"],
        build: "go build -o {out}/receiver-go {src}/receiver.go",
        run: "{out}/receiver-go block {port} {deed} {out}",
        deeds: COMMON_DEEDS,
    },
    Receiver {
        name: "gst",
        waits: "poll",
        needs: &["gst-launch-1.0"],
        build: "",
        run: "gst-launch-1.0 -q udpsrc address=127.0.0.1 port={port} ! fakesink sync=false",
        deeds: &[],
    },
    Receiver {
        name: "socat",
        waits: "poll",
        needs: &["socat"],
        build: "",
        run: "socat -u UDP4-RECV:{port},bind=127.0.0.1 OPEN:/dev/null,wronly",
        deeds: &[],
    },
];

impl Receiver {
    /// Builds it into a folder.
    ///
    /// # Errors
    /// A program that it needs is missing, or the compiler refuses: the receiver is not available here.
    pub(super) fn build(&self, out: &Path) -> anyhow::Result<()> {
        if let Some(missing) = self.needs.iter().find(|program| !is_installed(program)) {
            bail!("{missing} is not installed");
        }
        if self.build.is_empty() {
            return Ok(());
        }
        let mut words = words(self.build, out, 0, "");
        let mut command = Command::new(words.remove(0));
        let built = command.args(words).stdin(Stdio::null()).output().context("starting the compiler")?;
        if !built.status.success() {
            bail!("{}: {}", self.build, String::from_utf8_lossy(&built.stderr).trim());
        }
        Ok(())
    }

    /// The command that starts it.
    pub(super) fn command(&self, out: &Path, port: u16, deed: &str) -> Command {
        let mut words = words(self.run, out, port, deed);
        let mut command = silent(&words.remove(0));
        command.args(words);
        command
    }
}

fn words(template: &str, out: &Path, port: u16, deed: &str) -> Vec<String> {
    let fill = |word: &str| {
        word.replace("{src}", SOURCES)
            .replace("{out}", &out.display().to_string())
            .replace("{port}", &port.to_string())
            .replace("{deed}", deed)
    };
    template.split_whitespace().map(fill).collect()
}

/// Whether a program lies in one of the folders of PATH.
pub(super) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program)).any(|file| file.is_file())
}
