//! Filters in the language of tcpdump, compiled by libpcap, which is looked for when one is asked for.

use super::error::CaptureError;
use super::frame::LinkKind;
use super::libpcap::{self, MASK_UNKNOWN, PacketHeader, Program};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, u32) -> c_int;
type GetError = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);
type Offline = unsafe extern "C" fn(*const Program, *const PacketHeader, *const u8) -> c_int;

/// A compiled filter.
#[derive(Debug)]
pub struct Filter {
    /// As it was given.
    pub expression: String,
    /// The program, in the kernel's own format.
    pub(super) program: Vec<libc::sock_filter>,
    /// What runs it here, where the kernel cannot: it does not see the packet as the file has it.
    here: Option<Here>,
}

struct Here {
    run: Offline,
    /// Holds the function.
    _library: Library,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Here")
    }
}

fn library() -> Result<Library, CaptureError> {
    libpcap::find().ok_or_else(|| CaptureError::NotSupported {
        operation: "compile the filter: libpcap, which knows the language, is not installed".to_owned(),
        remedy: "install it (Debian, Ubuntu: apt install libpcap0.8; Fedora: dnf install libpcap), or capture without a \
                 filter"
            .to_owned(),
    })
}

impl Filter {
    /// Compiles `expression` for packets that begin as `link` says, of which `snap_length` bytes are kept.
    ///
    /// # Errors
    /// [`CaptureError::Filter`] with libpcap's own sentence; [`CaptureError::NotSupported`] where there is no libpcap.
    pub fn compile(expression: &str, link: LinkKind, snap_length: u32) -> Result<Self, CaptureError> {
        let library = library()?;
        let program = compile_with(&library, expression, link, snap_length)?;
        // The kernel keeps the tag of a VLAN beside the packet, and has no cooked header at all.
        let tags = expression.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "vlan");
        let here = if tags || link == LinkKind::Cooked {
            // SAFETY: the type is that of the documented function.
            let run = unsafe { symbol::<Offline>(&library, c"pcap_offline_filter") }?;
            Some(Here { run, _library: library })
        } else {
            None
        };
        Ok(Self { expression: expression.to_owned(), program, here })
    }

    /// Whether packets pass through the kernel and are filtered here.
    pub fn runs_here(&self) -> bool {
        self.here.is_some()
    }

    /// Whether the packet passes; always where the kernel filters.
    pub fn passes(&self, data: &[u8], original_length: u32) -> bool {
        let Some(here) = &self.here else { return true };
        let header = PacketHeader {
            time: libc::timeval { tv_sec: 0, tv_usec: 0 },
            captured: data.len() as u32,
            length: original_length,
        };
        let program =
            Program { length: self.program.len() as c_uint, instructions: self.program.as_ptr().cast_mut() };
        // SAFETY: the function reads the program, which has as many instructions as it says, and no more of the packet
        // than the header says; both live through the call.
        unsafe { (here.run)(&raw const program, &raw const header, data.as_ptr()) != 0 }
    }
}

/// # Safety
/// `T` is the type of the function.
unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, CaptureError> {
    // SAFETY: as the caller promises.
    unsafe { libpcap::symbol(library, name) }.map_err(|e| CaptureError::NotSupported {
        operation: format!("compile the filter: libpcap has no {} ({e})", name.to_string_lossy()),
        remedy: "install libpcap 1.0 or newer".to_owned(),
    })
}

fn compile_with(
    library: &Library,
    expression: &str,
    link: LinkKind,
    snap_length: u32,
) -> Result<Vec<libc::sock_filter>, CaptureError> {
    let refused = |why: &str| CaptureError::Filter { expression: expression.to_owned(), why: why.to_owned() };
    let text = CString::new(expression).map_err(|_| refused("it holds a zero byte"))?;
    // SAFETY: the types are those of the documented functions (pcap/pcap.h).
    let (open, compile, error, free, close) = unsafe {
        (
            symbol::<OpenDead>(library, c"pcap_open_dead")?,
            symbol::<Compile>(library, c"pcap_compile")?,
            symbol::<GetError>(library, c"pcap_geterr")?,
            symbol::<FreeCode>(library, c"pcap_freecode")?,
            symbol::<Close>(library, c"pcap_close")?,
        )
    };
    let mut program = Program { length: 0, instructions: std::ptr::null_mut() };
    // SAFETY: the handle is valid between open and close; the text is NUL-terminated; libpcap fills the program, which is
    // copied and then freed by it; its error text is valid until the handle is closed.
    unsafe {
        let handle = open(link.pcap_type(), snap_length.min(i32::MAX as u32) as c_int);
        if handle.is_null() {
            return Err(refused("libpcap has no memory"));
        }
        let outcome = if compile(handle, &raw mut program, text.as_ptr(), 1, MASK_UNKNOWN) == 0 {
            let compiled = std::slice::from_raw_parts(program.instructions, program.length as usize).to_vec();
            free(&raw mut program);
            Ok(compiled)
        } else {
            Err(refused(&CStr::from_ptr(error(handle)).to_string_lossy()))
        };
        close(handle);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with UDP to `port`, tagged for VLAN 5 if asked.
    fn udp(port: u16, tagged: bool) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if tagged {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend([8, 0]);
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0, 9]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    #[test]
    fn a_filter_becomes_a_program_for_the_kernel() {
        let filter = Filter::compile("udp dst port 7", LinkKind::Ethernet, 96).unwrap();
        assert!(!filter.runs_here() && filter.program.len() > 5);
        // The last instructions return what is kept, or nothing.
        assert!(filter.program.iter().any(|line| line.code == 6 && line.k == 96));
        assert!(filter.program.iter().any(|line| line.code == 6 && line.k == 0));
        assert!(Filter::compile("", LinkKind::RawIp, 96).unwrap().program.len() == 1);
    }

    #[test]
    fn tags_are_looked_at_here_because_the_kernel_takes_them_out() {
        let filter = Filter::compile("vlan 5 and udp dst port 7", LinkKind::Ethernet, 96).unwrap();
        assert!(filter.runs_here());
        let passes = |frame: &[u8]| filter.passes(frame, frame.len() as u32);
        assert!(passes(&udp(7, true)));
        assert!(!passes(&udp(8, true)) && !passes(&udp(7, false)) && !passes(&[]));
    }

    #[test]
    fn the_sentence_of_libpcap_is_passed_on() {
        let error = Filter::compile("udp prot 7", LinkKind::Ethernet, 96).unwrap_err();
        assert!(
            matches!(&error, CaptureError::Filter { why, .. } if why.contains("syntax error")),
            "{error}"
        );
        assert!(Filter::compile("a\0b", LinkKind::Ethernet, 96).is_err());
    }
}
