//! The programs of `kernels/`, built once for whichever test needs them, to where `quaver` looks for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// All programs, with a size that takes some hundredths of a second.
pub(crate) const KERNELS: [(&str, &str); 17] = [
    ("barnes", "512"),
    ("fmm", "1024"),
    ("lu", "128"),
    ("ocean", "32"),
    ("radix", "20000"),
    ("raytrace", "48"),
    ("water-nsquared", "125"),
    ("water-spatial", "512"),
    ("facesim", "32"),
    ("ferret", "200"),
    ("bodytrack", "512"),
    ("x264", "4"),
    ("raytrace-pool", "48"),
    ("vips", "128"),
    ("dedup", "256"),
    ("fluidanimate", "1000"),
    ("streamcluster", "2000"),
];

/// Where a program is, after `make` made sure that it is up to date.
pub(crate) fn kernel(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).join(name)
}

fn build() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
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
