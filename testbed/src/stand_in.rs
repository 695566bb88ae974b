//! Programs that stand in for others.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script that can be run at once. Another process writes it: a child that another thread starts meanwhile would inherit
/// a file of ours that is open for writing, and nobody could run it until that child has begun (ETXTBSY).
///
/// # Panics
/// If it cannot be written.
pub fn stand_in(path: &Path, script: &str) {
    let mut writer = Command::new("install");
    let writer = writer.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().expect("install of coreutils");
    let written = writer.stdin.take().map(|mut input| input.write_all(script.as_bytes()));
    written.expect("a pipe").expect("it takes the script");
    assert!(writer.wait().expect("it ends").success(), "{} is not written", path.display());
}
