//! Tests that need root: skipped visibly without it, and failed where they must not be skipped.
//!
//! Tests of `quaver-measure`, which this crate imports, have this file by its path.

/// Whether the test of this name goes on. Without root it is skipped, which is said, or fails where `QUAVER_REQUIRE_PRIVILEGED` is set.
pub fn privileged(name: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    assert!(
        std::env::var_os("QUAVER_REQUIRE_PRIVILEGED").is_none(),
        "{name} needs root and must not be skipped here"
    );
    println!("SKIPPED (needs root): {name}");
    false
}
