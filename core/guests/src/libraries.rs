//! What this program is made of on disk: itself and the libraries that the dynamic linker gave it.

use super::GuestError;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// This program.
pub const SELF: &str = "/proc/self/exe";

/// Paths of the libraries under which the dynamic linker looks for them, its own among them; none where the program is
/// linked statically. What was opened later by name, such as libpcap, stands there too and does no harm.
#[must_use]
pub fn loaded() -> Vec<PathBuf> {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the linker calls this with a valid description for the time of the call, and `found` is what `loaded`
        // handed to it below, which nobody else uses meanwhile.
        let (name, found) = unsafe { ((*info).dlpi_name, &mut *found.cast::<Vec<PathBuf>>()) };
        if !name.is_null() {
            // SAFETY: the linker's names are strings that end with a zero and live as long as the object is loaded.
            let name = unsafe { CStr::from_ptr(name) };
            let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
            // The program has no name here, and the kernel's vDSO no path.
            if path.is_absolute() {
                found.push(path);
            }
        }
        0
    }
    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: `each` has the signature that is asked for and does not unwind; `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::from_mut(&mut found).cast()) };
    found.sort();
    found.dedup();
    found
}

/// Paths of the libraries that a program needs, which the dynamic linker says in its place; none of a file that is no program,
/// and of one that is linked statically.
///
/// # Errors
/// [`GuestError::File`] where it cannot be started.
pub(super) fn needed(program: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let failed =
        |source| GuestError::File { operation: "list libraries of", path: program.to_owned(), source };
    let metadata = std::fs::metadata(program).map_err(failed)?;
    let runs = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    let is_elf = contents(program)?.starts_with(b"\x7fELF");
    if !runs || !is_elf {
        return Ok(Vec::new());
    }
    // A line for each: `name => path (address)`, and of the linker itself `path (address)`.
    let said = Command::new(program).env("LD_TRACE_LOADED_OBJECTS", "1").output().map_err(failed)?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

/// Reads a file of the host as a whole.
///
/// # Errors
/// [`GuestError::File`].
pub(super) fn contents(path: &std::path::Path) -> Result<Vec<u8>, GuestError> {
    std::fs::read(path).map_err(|source| GuestError::File {
        operation: "read",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_and_libc_are_among_them_and_all_can_be_read() {
        let found = loaded();
        let has = |part: &str| found.iter().any(|path| path.to_string_lossy().contains(part));
        assert!(has("libc.so") && has("ld-linux"), "{found:?}");
        for path in &found {
            assert_eq!(contents(path).unwrap().get(..4), Some(&b"\x7fELF"[..]), "{}", path.display());
        }
    }

    #[test]
    fn a_program_needs_its_c_library_and_a_text_nothing() {
        let needs = needed(Path::new("/bin/sh")).unwrap();
        let has = |part: &str| needs.iter().any(|path| path.to_string_lossy().contains(part));
        assert!(has("libc.so") && has("ld-linux"), "{needs:?}");
        assert!(needed(Path::new("/etc/passwd")).unwrap().is_empty());
        let error = needed(Path::new("/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("list libraries of /no/such: "), "{error}");
    }
}
