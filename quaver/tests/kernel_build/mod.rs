//! The programs of `kernels/`, built once for whichever test needs them, to where `quaver` looks for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where a program is, after `make` made sure that it is up to date.
pub(crate) fn kernel(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).join(name)
}

fn build() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
    // Beside the profile's directory: target/kernels, wherever target is.
    let target = Path::new(env!("CARGO_BIN_EXE_quaver")).ancestors().nth(2).expect("target/PROFILE/quaver");
    let out = target.join("kernels");
    // The options of a make that runs us are not for this one.
    let made = Command::new("make")
        .args(["--no-print-directory", "--jobs=2", "-C"])
        .arg(&sources)
        .arg(format!("OUT={}", out.display()))
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make, which `make setup` installs");
    assert!(made.status.success(), "make -C kernels: {}", String::from_utf8_lossy(&made.stderr));
    out
}
