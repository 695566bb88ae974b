//! The program that finds each packet at `netif_receive_skb`, and its cycles where the kernel lets programs read them.

use super::records::Records;
use super::{map_of, records_bytes};
use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject};
use quaver_host::bpf::load::{Aligned, failed, one_at_a_time, set_constants};
use quaver_host::trace::TraceError;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static RAW_OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture_raw.bpf.o")));
/// Interfaces that the program can be told; of more, it records all.
const MOST_INTERFACES: usize = 64;

/// One packet at `netif_receive_skb`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawRecord {
    /// The kernel's stamp, CLOCK_REALTIME nanoseconds: the key.
    pub(crate) kernel_ns: u64,
    /// The processor's counter; 0 where the trace ring has it.
    pub(crate) cycles: u64,
    /// Address of the kernel's packet buffer.
    pub(crate) packet: u64,
    /// CLOCK_MONOTONIC a moment after the trace ring read the counter; 0 where there are cycles.
    pub(crate) monotonic_ns: u64,
    /// Bytes of the packet with its link header.
    pub(crate) length: u32,
    /// Index of its interface.
    pub(crate) interface: u32,
    /// CPU.
    pub(crate) cpu: u32,
    /// Bytes of the packet as the tracepoint shows them, without the link header.
    pub(crate) traced_length: u32,
}
const _: () = assert!(size_of::<RawRecord>() == 48);

/// Configuration of the program, set before it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
struct RawConfig {
    counter: u32,
    name_space: u32,
    count: u32,
    interfaces: [u32; MOST_INTERFACES],
}

/// The program, attached until this is dropped.
pub(crate) struct RawProgram {
    _link: Link,
    _object: Object,
}

/// Loads and attaches the program for these interfaces of the network namespace with that inode (none: all of them), with room
/// for the records of all packets in rings of so many bytes. With `counter` it reads the processor's counter itself.
pub(crate) fn attach(
    interfaces: &[u32],
    name_space: u32,
    rings_bytes: u64,
    counter: bool,
) -> Result<(RawProgram, Records<RawRecord>), TraceError> {
    let mut config =
        RawConfig { counter: counter.into(), name_space, count: 0, interfaces: [0; MOST_INTERFACES] };
    if interfaces.len() <= MOST_INTERFACES {
        config.count = interfaces.len() as u32;
        config.interfaces[..interfaces.len()].copy_from_slice(interfaces);
    }
    let (object, link) = one_at_a_time(|| {
        let mut open = ObjectBuilder::default()
            .open_memory(&RAW_OBJECT.0)
            .map_err(|error| failed("opening the BPF program that finds packets", &error))?;
        configure(&mut open, &config, rings_bytes)?;
        let object =
            open.load().map_err(|error| failed("loading the BPF program that finds packets", &error))?;
        let program = object.progs_mut().next();
        let link = program.map(|program| program.attach()).transpose();
        let link = link.map_err(|error| failed("attaching the BPF program that finds packets", &error))?;
        Ok((object, link))
    })?;
    let missing =
        |source| TraceError::Os { operation: "mapping the records of raw cycles".to_owned(), source };
    let link = link.ok_or_else(|| missing(std::io::ErrorKind::NotFound.into()))?;
    let records = map_of(&object, "raw_records")
        .and_then(|ring| Records::map(ring, map_of(&object, "raw_lost")?))
        .map_err(missing)?;
    Ok((RawProgram { _link: link, _object: object }, records))
}

fn configure(open: &mut OpenObject, config: &RawConfig, rings_bytes: u64) -> Result<(), TraceError> {
    for mut map in open.maps_mut().filter(|map| map.name() == "raw_records") {
        map.set_max_entries(records_bytes(rings_bytes))
            .map_err(|error| failed("sizing the memory of raw cycles", &error))?;
    }
    set_constants(open, config)
}
