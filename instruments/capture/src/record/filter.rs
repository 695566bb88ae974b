//! Filters in the language of tcpdump, compiled by libpcap, which is looked for when one is asked for.

use super::error::CaptureError;
use super::frame::{ADDRESSES_BYTES, Frame, LinkKind, TAG_BYTES};
use super::libpcap::{self, MASK_UNKNOWN, PacketHeader, Program};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, u32) -> c_int;
type OpenLive = unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, *mut c_char) -> *mut c_void;
type GetError = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type LookUpNet = unsafe extern "C" fn(*const c_char, *mut u32, *mut u32, *mut c_char) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);
type Offline = unsafe extern "C" fn(*const Program, *const PacketHeader, *const u8) -> c_int;

/// PCAP_ERRBUF_SIZE.
const ERROR_BYTES: usize = 256;

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
    /// Compiles `expression` for an interface, in whose packets the kernel keeps the tag of a VLAN beside the data. Then
    /// libpcap asks the kernel for the tag, as it does for tcpdump, and all other terms see the packet without it.
    ///
    /// # Errors
    /// As [`Self::compile`], and where libpcap may not open the interface.
    pub fn for_interface(
        expression: &str,
        interface: &str,
        link: LinkKind,
        snap_length: u32,
    ) -> Result<Self, CaptureError> {
        let library = library()?;
        let mask = mask_of(&library, interface);
        if link == LinkKind::Ethernet && has_tags(expression) {
            let program = compile_with(&library, expression, link, snap_length, (Some(interface), mask))?;
            // With a loop it runs here, where the tag is in the packet and the kernel is not there to be asked.
            if !has_loops(&program) {
                return Ok(Self { expression: expression.to_owned(), program, here: None });
            }
        }
        Self::compiled(library, expression, link, snap_length, mask)
    }

    /// Compiles `expression` for packets that begin as `link` says, of which `snap_length` bytes are kept.
    ///
    /// # Errors
    /// [`CaptureError::Filter`] with libpcap's own sentence; [`CaptureError::NotSupported`] where there is no libpcap.
    pub fn compile(expression: &str, link: LinkKind, snap_length: u32) -> Result<Self, CaptureError> {
        Self::compiled(library()?, expression, link, snap_length, MASK_UNKNOWN)
    }

    fn compiled(
        library: Library,
        expression: &str,
        link: LinkKind,
        snap_length: u32,
        mask: u32,
    ) -> Result<Self, CaptureError> {
        let program = compile_with(&library, expression, link, snap_length, (None, mask))?;
        // The kernel keeps the tag of a VLAN beside the packet, has no cooked header at all, and takes no loop.
        let here = if has_tags(expression) || link == LinkKind::Cooked || has_loops(&program) {
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

    /// As [`Self::passes`], for a packet in which a tag may have been put back: a filter that asks for none sees it without, as it
    /// does in the kernel.
    pub fn passes_frame(&self, frame: &Frame<'_>) -> bool {
        let tagged = frame.original_length.wrapping_sub(frame.kernel_length) == TAG_BYTES as u32;
        if self.here.is_none() || !tagged || has_tags(&self.expression) {
            return self.passes(frame.data, frame.original_length);
        }
        let (addresses, rest) = frame.data.split_at(frame.data.len().min(ADDRESSES_BYTES));
        let rest = rest.get(TAG_BYTES..).unwrap_or_default();
        self.passes(&[addresses, rest].concat(), frame.kernel_length)
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

/// Whether the filter asks for tags of VLANs.
fn has_tags(expression: &str) -> bool {
    expression.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "vlan")
}

/// Whether the program jumps back, as it does for `protochain`.
fn has_loops(program: &[libc::sock_filter]) -> bool {
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
    program.iter().any(|line| line.code == JUMP && line.k.cast_signed() < 0)
}

/// The mask of the network that an interface is in, as tcpdump asks for it; unknown where it is in none.
fn mask_of(library: &Library, interface: &str) -> u32 {
    let Ok(name) = CString::new(interface) else { return MASK_UNKNOWN };
    let (mut net, mut mask, mut why) = (0, 0, [0 as c_char; ERROR_BYTES]);
    // SAFETY: the type is that of the documented function; the name is NUL-terminated, both numbers live through the call, and the
    // error has the documented room.
    let found = unsafe {
        symbol::<LookUpNet>(library, c"pcap_lookupnet")
            .is_ok_and(|look_up| look_up(name.as_ptr(), &raw mut net, &raw mut mask, why.as_mut_ptr()) == 0)
    };
    if found && mask != 0 { mask } else { MASK_UNKNOWN }
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
    (interface, mask): (Option<&str>, u32),
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
        let snap_length = snap_length.min(i32::MAX as u32) as c_int;
        let handle = match interface {
            None => open(link.pcap_type(), snap_length),
            Some(name) => open_live(library, name, snap_length)?,
        };
        if handle.is_null() {
            return Err(refused("libpcap has no memory"));
        }
        let outcome = if compile(handle, &raw mut program, text.as_ptr(), 1, mask) == 0 {
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

/// libpcap's own handle of an interface, for compiling alone.
fn open_live(library: &Library, name: &str, snap_length: c_int) -> Result<*mut c_void, CaptureError> {
    let operation = format!("have libpcap compile a filter for {name}");
    let failed = |why: String| CaptureError::os(operation, io::Error::other(why));
    let Ok(name) = CString::new(name) else { return Err(failed("the name holds a zero byte".to_owned())) };
    let mut why = [0 as c_char; ERROR_BYTES];
    // SAFETY: the type is that of the documented function; the name is NUL-terminated, and the error has the documented
    // room and begins with a NUL.
    let handle = unsafe {
        let open: OpenLive = symbol(library, c"pcap_open_live")?;
        open(name.as_ptr(), snap_length, 0, 1, why.as_mut_ptr())
    };
    if handle.is_null() {
        // SAFETY: libpcap ends its text with a NUL within the room.
        let text = unsafe { CStr::from_ptr(why.as_ptr()) };
        return Err(failed(text.to_string_lossy().into_owned()));
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::super::frame::{PacketKind, RingStamp};
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
    fn a_loop_runs_here_because_the_kernel_takes_none() {
        let filter = Filter::compile("ip6 protochain 17", LinkKind::Ethernet, 96).unwrap();
        assert!(filter.runs_here());
        // IPv6 with a hop-by-hop header, then `next`.
        let packet = |next: u8| {
            let mut frame = vec![0; 12];
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 0, 64]);
            frame.extend([0; 32]);
            frame.extend([next, 0, 1, 4, 0, 0, 0, 0, 0, 9, 0, 9, 0, 8, 0, 0]);
            frame
        };
        let passes = |frame: &[u8]| filter.passes(frame, frame.len() as u32);
        assert!(passes(&packet(17)) && !passes(&packet(6)) && !passes(&udp(7, false)));
    }

    #[test]
    fn a_filter_that_asks_for_no_tag_sees_the_packet_without_it() {
        let data = udp(7, true);
        let length = data.len() as u32;
        let frame = Frame {
            time_ns: 0,
            stamped_by: RingStamp::Kernel,
            original_length: length,
            kernel_length: length - 4,
            data: &data,
            kind: PacketKind::Host,
            interface: 1,
            losing: false,
        };
        for (expression, passes) in
            [("ip protochain 17", true), ("ip protochain 6", false), ("vlan 5 and ip protochain 17", true)]
        {
            let filter = Filter::compile(expression, LinkKind::Ethernet, 96).unwrap();
            assert_eq!((filter.runs_here(), filter.passes_frame(&frame)), (true, passes), "{expression}");
        }
        // As long as the kernel has it, the tag is a part of the packet.
        let inner = Frame { kernel_length: length, ..frame };
        let filter = Filter::compile("ip protochain 17", LinkKind::Ethernet, 96).unwrap();
        assert!(!filter.passes_frame(&inner));
    }

    #[test]
    fn a_broadcast_is_known_by_the_mask_of_the_interface() {
        let filter = |interface| Filter::for_interface("ip broadcast", interface, LinkKind::Ethernet, 96);
        // Loopback has 127.0.0.1/8 wherever it is up; a name that nobody has, no network.
        if mask_of(&library().unwrap(), "lo") != MASK_UNKNOWN {
            assert!(!filter("lo").unwrap().runs_here());
        }
        let error = filter("nobody0").unwrap_err();
        assert!(matches!(&error, CaptureError::Filter { why, .. } if why.contains("netmask")), "{error}");
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
