//! Tests that need more than every machine has: skipped without it, and failed where they must not be skipped.
//!
//! The output of a test that passes is captured, so a skip is also written to the file that `QUAVER_SKIPPED` names, and
//! `scripts/test.sh` shows that file at the end. Where `QUAVER_REQUIRE_PRIVILEGED` is set, only the lack of a [`Feature`]
//! permits a skip.
//!
//! Tests of crates that this one imports have this file by its path.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a test needs and does not find.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "a test that has this file by its path uses a part of it")]
pub enum Lack<'a> {
    /// Root's rights.
    Root,
    /// A program, or the QEMU lab, by name: `scripts/setup.sh test` installs it.
    Installed(&'a str),
    /// A state of the host that whoever runs the tests can end.
    Quiet(&'a str),
    /// A part of the kernel or of the machine.
    Feature(Feature),
}

/// What a kernel or a machine has or has not, whatever is installed: the reasons for which a test may be skipped even where all
/// is required.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "a test that has this file by its path uses a part of it")]
pub enum Feature {
    /// `CONFIG_OSNOISE_TRACER`
    OsnoiseTracer,
    /// `CONFIG_TIME_NS`
    TimeNamespaces,
    /// An address `::1`.
    Ipv6,
    /// A processor of this architecture.
    X86_64,
}

impl Feature {
    /// Whether the host itself shows that it is absent. A test's word for it is not enough.
    fn is_absent(self) -> bool {
        match self {
            Self::OsnoiseTracer => kernel_has_no("osnoise_"),
            Self::TimeNamespaces => kernel_has_no("timens_") && !Path::new("/proc/self/ns/time").exists(),
            Self::Ipv6 => std::net::UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_err(),
            Self::X86_64 => cfg!(not(target_arch = "x86_64")),
        }
    }
}

/// Whether no function or variable of the kernel has a name that begins so. Unknown where the kernel does not list its symbols.
fn kernel_has_no(prefix: &str) -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let names = || symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    names().next().is_some() && !names().any(|name| name.starts_with(prefix))
}

/// Tells that the test of this name, or a part of it, does not run for lack of something.
///
/// # Panics
/// Where the host has the feature that is said to be absent, and where `QUAVER_REQUIRE_PRIVILEGED` is set and something else
/// than a feature is lacking.
#[allow(dead_code, reason = "a test that has this file by its path uses a part of it")]
pub fn skip(name: &str, lack: Lack<'_>) {
    let why = match lack {
        Lack::Root => "needs root".to_owned(),
        Lack::Installed(what) => format!("needs {what}, which scripts/setup.sh test installs"),
        Lack::Quiet(what) => what.to_owned(),
        Lack::Feature(feature) => {
            assert!(feature.is_absent(), "{name} is not to be skipped: this host has {feature:?}");
            format!("this host has no {feature:?}")
        }
    };
    let required = std::env::var_os("QUAVER_REQUIRE_PRIVILEGED").is_some();
    assert!(!required || matches!(lack, Lack::Feature(_)), "{name} must not be skipped here: {why}");
    println!("SKIPPED ({why}): {name}");
    if let Some(path) = std::env::var_os("QUAVER_SKIPPED") {
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened
            .and_then(|mut file| file.write_all(format!("{name}: {why}\n").as_bytes()))
            .expect("QUAVER_SKIPPED can be written");
    }
}

/// Whether the test of this name goes on as root; otherwise it is [skipped](skip).
#[allow(dead_code, reason = "a test that has this file by its path uses a part of it")]
pub fn privileged(name: &str) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !root {
        skip(name, Lack::Root);
    }
    root
}
