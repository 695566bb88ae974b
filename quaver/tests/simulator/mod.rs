//! The simulator's program, where `quaver sim` looks for it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// When the youngest file in there was written; none where there is none.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return path.metadata().ok()?.modified().ok();
    }
    std::fs::read_dir(path).ok()?.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

/// Makes sure that `quaver-sim` lies beside the program under test and is of this source: cargo builds a program of another
/// package only when it is asked for that package or for the whole workspace. Where no source is newer, it is not asked
/// again.
pub(crate) fn build_simulator() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let quaver = Path::new(env!("CARGO_BIN_EXE_quaver"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sources = ["core", "simulator", "instruments/sync/analysis", "instruments/sync/store"];
        let changed = sources.iter().filter_map(|name| newest(&root.join(name))).max();
        let built = newest(&quaver.with_file_name("quaver-sim"));
        if built.is_some() && built >= changed {
            return;
        }
        let directory = quaver.parent().expect("target/PROFILE/quaver");
        let profile = match directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let words =
            ["build", "--quiet", "--offline", "--package", "quaver-sim-program", "--bin", "quaver-sim"];
        let built = Command::new(env!("CARGO"))
            .args(words)
            .args(["--profile", profile, "--target-dir"])
            .arg(directory.parent().expect("target"))
            .current_dir(root)
            .stdin(Stdio::null())
            .output()
            .expect("cargo, which runs this test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    });
}
