//! Requests to a network interface by its name (netdevice(7)), in the calling thread's network namespace.

use std::io::{Error, Result};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Asks the interface of this name, with `value` behind the request's pointer.
///
/// # Errors
/// `ENODEV` without the interface, and what the kernel or the driver answers.
///
/// # Safety
/// The request reads and writes no more than a `T` behind the pointer of its ifreq, any bytes of which are a `T`.
pub unsafe fn with_data<T>(interface: &str, request: libc::Ioctl, value: &mut T) -> Result<()> {
    let data = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut *value).cast() };
    // SAFETY: as the caller promises; `value` lives through the call.
    unsafe { ask(interface, request, data) }.map(drop)
}

/// Asks the interface of this name, and gives what the kernel left in the request.
///
/// # Errors
/// As [`with_data`].
///
/// # Safety
/// What the request reads and writes behind pointers in `given` is there, and is theirs for that long.
pub unsafe fn ask(
    interface: &str,
    request: libc::Ioctl,
    given: libc::__c_anonymous_ifr_ifru,
) -> Result<libc::__c_anonymous_ifr_ifru> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).or_else(|_| UdpSocket::bind(("::", 0)))?;
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
        return Err(Error::from_raw_os_error(libc::ENODEV));
    }
    let mut ifreq = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: given };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: a whole ifreq, whose name is NUL-terminated, as it is shorter than its room; the caller answers for the rest.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut ifreq) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok(ifreq.ifr_ifru)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused_before_the_kernel_is_asked() {
        for name in ["", "a-name-that-is-far-too-long", "no-such-dev"] {
            let mut flags = 0_u64;
            // SAFETY: the kernel finds no interface of that name, and reads and writes no data.
            let asked = unsafe { with_data(name, libc::SIOCGIFHWADDR, &mut flags) };
            assert_eq!(asked.unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name:?}");
        }
    }
}
