//! The recorder, where `quaver` looks for it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Makes sure that the recorder lies beside the program under test and is of this source: cargo builds a package's shared
/// library only when it is asked for that package or for the whole workspace.
pub(crate) fn build_recorder() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let profile_directory =
            Path::new(env!("CARGO_BIN_EXE_quaver")).parent().expect("target/PROFILE/quaver");
        let profile = match profile_directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--offline",
                "--lib",
                "--package",
                "quaver-preload",
                "--profile",
                profile,
            ])
            .arg("--target-dir")
            .arg(profile_directory.parent().expect("target"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .output()
            .expect("cargo, which runs this test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    });
}
