//! Becoming another user once all that needs rights is open.

use super::error::CaptureError;
use std::ffi::CString;
use std::io;

/// Makes the whole process that user, for good, with its groups.
///
/// # Errors
/// When there is no such user, or the process may not become another.
pub fn become_user(name: &str) -> Result<(), CaptureError> {
    let unknown = || CaptureError::Options(format!("there is no user `{name}` here"));
    let text = CString::new(name).map_err(|_| unknown())?;
    let (user, group) = look_up(&text).ok_or_else(unknown)?;
    let refused =
        |step: &str| CaptureError::os(format!("become user {name}: {step}"), io::Error::last_os_error());
    // SAFETY: the name is NUL-terminated; the calls change only who the process is. The C library applies them to all
    // threads. Groups first, since the right to change them goes with the user.
    unsafe {
        if libc::initgroups(text.as_ptr(), group) != 0 {
            return Err(refused("set its groups"));
        }
        if libc::setresgid(group, group, group) != 0 {
            return Err(refused("set its group"));
        }
        if libc::setresuid(user, user, user) != 0 {
            return Err(refused("set the user"));
        }
    }
    Ok(())
}

fn look_up(name: &CString) -> Option<(libc::uid_t, libc::gid_t)> {
    let mut room = vec![0u8; 16_384];
    // SAFETY: an all-zero passwd (null pointers and zeros) is a value of it.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and `room` is as long as it says.
    let outcome = unsafe {
        libc::getpwnam_r(name.as_ptr(), &raw mut entry, room.as_mut_ptr().cast(), room.len(), &raw mut found)
    };
    (outcome == 0 && !found.is_null()).then_some((entry.pw_uid, entry.pw_gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_looked_up() {
        assert_eq!(look_up(&CString::new("root").unwrap()), Some((0, 0)));
        assert!(matches!(become_user("no-such-user"), Err(CaptureError::Options(_))));
    }
}
