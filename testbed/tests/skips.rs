//! Skips of tests are kept, and are failures where all is required.

use quaver_testbed::privileged::{Feature, Lack, skip};
use std::path::Path;
use std::process::Command;

/// Set for a child: what it is to skip for lack of.
const LACK: &str = "QUAVER_TEST_LACK";

#[test]
fn what_a_child_skips() {
    let Ok(lack) = std::env::var(LACK) else { return };
    let lack = match lack.as_str() {
        "root" => Lack::Root,
        "installed" => Lack::Installed("a tool"),
        "quiet" => Lack::Quiet("another program is in the way"),
        "ipv6" => Lack::Feature(Feature::Ipv6),
        "time" => Lack::Feature(Feature::TimeNamespaces),
        "x86-64" => Lack::Feature(Feature::X86_64),
        other => panic!("{other}"),
    };
    skip("the child", lack);
}

/// Whether the child ended well, and what it noted.
fn child(lack: &str, required: bool, directory: &Path) -> (bool, String) {
    let skipped = directory.join("skipped");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "what_a_child_skips"]).env(LACK, lack).env("QUAVER_SKIPPED", &skipped);
    if required {
        command.env("QUAVER_REQUIRE_PRIVILEGED", "1");
    } else {
        command.env_remove("QUAVER_REQUIRE_PRIVILEGED");
    }
    let ended_well = command.output().unwrap().status.success();
    (ended_well, std::fs::read_to_string(skipped).unwrap_or_default())
}

#[test]
fn a_skip_is_noted_and_fails_where_all_is_required() {
    for (lack, why) in [
        ("root", "needs root"),
        ("installed", "needs a tool, which scripts/setup.sh test installs"),
        ("quiet", "another program is in the way"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(child(lack, true, directory.path()), (false, String::new()), "{lack}");
        let line = format!("the child: {why}\n");
        assert_eq!(child(lack, false, directory.path()), (true, line.clone()), "{lack}");
        assert_eq!(child(lack, false, directory.path()), (true, line.repeat(2)), "{lack}");
    }
}

/// A feature is the one reason that is permitted everywhere, so the host decides, not the test.
#[test]
fn a_feature_that_the_host_has_is_no_reason() {
    let has_ipv6 = std::net::UdpSocket::bind("[::1]:0").is_ok();
    let has_time = Path::new("/proc/self/ns/time").exists();
    for (lack, there) in [("x86-64", cfg!(target_arch = "x86_64")), ("ipv6", has_ipv6), ("time", has_time)] {
        for required in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (ended_well, noted) = child(lack, required, directory.path());
            assert_eq!((ended_well, noted.is_empty()), (!there, there), "{lack} {required}");
        }
    }
}
