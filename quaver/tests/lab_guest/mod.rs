//! A shell script in a guest of the QEMU lab: how tests have real drivers and queueing disciplines of a stock kernel do things.

use quaver_testbed::privileged::{Lack, skip};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Two interfaces on one wire, `eth0` here and `eth1` in the namespace `far`; waits until both have a carrier. A guest's time jumps
/// while all of it sleeps, so that asking again after a pause costs the host nothing.
const WIRE: &str = "
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
far() { ip netns exec far \"$@\"; }
say() { echo \"=== $1\"; }
await() { until \"$@\"; do sleep 0.01; done; }
ip link set lo up
ip netns add far
ip link set eth1 netns far
ip addr add 10.9.0.1/24 dev eth0
ip link set eth0 up
far ip link set lo up
far ip addr add 10.9.0.2/24 dev eth1
far ip link set eth1 up
await grep -q 1 /sys/class/net/eth0/carrier
await far grep -q 1 /sys/class/net/eth1/carrier
";

/// What a guest has.
pub(crate) struct Script<'a> {
    /// Further options of `quaver lab run`.
    pub(crate) options: &'a [&'a str],
    /// Programs of this host, by name.
    pub(crate) programs: &'a [&'a str],
    pub(crate) text: &'a str,
}

fn path_of(program: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let further = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&directories).chain(further);
    places.find_map(|place| Some(place.join(program)).filter(|path| path.is_file()))
}

/// Runs the script in a guest and takes what it printed apart, by what it said before; none where the lab or a program is not
/// there, which the test `name` says.
pub(crate) fn run(name: &str, script: &Script<'_>) -> Option<BTreeMap<String, String>> {
    let quaver = env!("CARGO_BIN_EXE_quaver");
    let looked = Command::new(quaver).args(["lab", "doctor", "qemu"]).output().unwrap();
    if !looked.status.success() {
        println!("{}", String::from_utf8_lossy(&looked.stdout));
        skip(name, Lack::Installed("the QEMU lab"));
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script.sh");
    std::fs::write(&file, format!("{WIRE}{}", script.text)).unwrap();
    let mut command = Command::new(quaver);
    command.args(["lab", "run"]).args(script.options).arg("--file").arg(&file);
    for program in ["ip", "cat", "grep", "sh", "sleep"].iter().chain(script.programs) {
        let Some(path) = path_of(program) else {
            skip(name, Lack::Installed(program));
            return None;
        };
        command.arg("--file").arg(path);
    }
    let output = command.args(["--", "/bin/sh"]).arg(&file).stdin(Stdio::null()).output().unwrap();
    let (text, error) =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{error}");
    let parts = text.split("=== ").skip(1).filter_map(|part| part.split_once('\n'));
    Some(parts.map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
}
