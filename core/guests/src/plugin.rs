//! Our plugin, as QEMU is told of it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// How QEMU is told of the plugin, and of the directory with its plan.
#[must_use]
pub fn plugin_words(plugin: &Path, control: &Path) -> OsString {
    let mut words = escaped(plugin);
    words.push(",control=");
    words.push(escaped(control));
    words
}

/// A path in a list of options of QEMU's: a comma is written twice.
fn escaped(path: &Path) -> OsString {
    let octets = path.as_os_str().as_bytes();
    OsString::from_vec(
        octets
            .iter()
            .flat_map(|octet| [*octet; 2].into_iter().take(1 + usize::from(*octet == b',')))
            .collect(),
    )
}
