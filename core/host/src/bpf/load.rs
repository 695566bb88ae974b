//! Opening, sizing, loading and attaching the programs.

use super::btf::KernelTypes;
use super::layout::{Config, Control, CpuState, PORTS, QUEUES, STACK_DEPTH, STACKS};
use super::programs::{CAST, ENQUEUE, PROGRAMS, READY};
use super::steal::StealCount;
use crate::trace::{Payload, TraceError, TraceSpec};
use libbpf_rs::{ErrorKind, MapCore as _, Object, ObjectBuilder, OpenObject, PrintLevel};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use zerocopy::{Immutable, IntoBytes};

/// Compiled programs, aligned as the ELF reader wants them.
#[repr(C, align(8))]
pub struct Aligned<B: ?Sized>(pub B);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/quaver.bpf.o")));

/// What libbpf said last. Held while one of its objects loads, because its log is global to the process.
static LOADING: Mutex<()> = Mutex::new(());
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn keep_log(_: PrintLevel, line: String) {
    if let Ok(mut log) = LOG.lock() {
        if log.len() == 64 {
            log.remove(0);
        }
        log.push(line.trim_end().to_owned());
    }
}

/// Memory sizes in records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// CPUs that the kernel may ever bring up.
    pub(crate) cpus: u32,
    /// Stamp slots, a power of two.
    pub(crate) stamps: u32,
    /// Event slots of all CPUs together.
    pub(crate) events: u32,
}

/// What a load goes by.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// What is asked for.
    pub(crate) spec: &'a TraceSpec,
    /// What the kernel says of itself.
    pub(crate) types: &'a KernelTypes,
    /// Memory.
    pub(crate) sizes: Sizes,
    /// Where the host counts what it takes.
    pub(crate) steal: &'a StealCount,
}

/// Programs in the kernel, not attached.
pub(crate) struct Loaded {
    /// libbpf's object.
    pub(crate) object: Object,
    /// Why a program that was wanted is not there.
    pub(crate) missing: BTreeMap<&'static str, String>,
}

/// Loads the programs that are asked for and the kernel takes. A program that the kernel refuses is left out
/// and the rest is tried again, because one refusal fails the whole object.
pub(crate) fn load(request: Request<'_>) -> Result<Loaded, TraceError> {
    one_at_a_time(|| load_what_is_taken(request))
}

/// Runs `body`, of which libbpf's log is kept for [`failed`], while no other object of ours loads.
pub fn one_at_a_time<T>(body: impl FnOnce() -> T) -> T {
    let _one_at_a_time = LOADING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Ok(mut log) = LOG.lock() {
        log.clear();
    }
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
    let outcome = body();
    libbpf_rs::set_print(before);
    outcome
}

fn load_what_is_taken(request: Request<'_>) -> Result<Loaded, TraceError> {
    let Request { spec, types, .. } = request;
    let mut missing = BTreeMap::new();
    for program in PROGRAMS.iter().filter(|program| program.wanted(spec)) {
        if program.name == ENQUEUE && !types.functions.contains(CAST) {
            missing.insert(program.name, format!("the kernel has no {CAST} (Linux 6.2)"));
        } else if !program.tracepoint.is_empty() && !types.tracepoints.contains(program.tracepoint) {
            missing.insert(program.name, format!("the kernel has no tracepoint {}", program.tracepoint));
        }
    }
    loop {
        if let Ok(mut log) = LOG.lock() {
            log.clear();
        }
        let mut open = ObjectBuilder::default()
            .open_memory(&OBJECT.0)
            .map_err(|error| failed("opening the BPF programs", &error))?;
        configure(&mut open, request)?;
        for mut program in open.progs_mut() {
            let wanted = PROGRAMS.iter().any(|known| {
                program.name() == known.name && known.wanted(spec) && !missing.contains_key(known.name)
            });
            program.set_autoload(wanted);
        }
        match open.load() {
            Ok(object) => return Ok(Loaded { object, missing }),
            Err(error) => match refused() {
                Some((program, why)) if !unprivileged(error.kind()) && !missing.contains_key(program) => {
                    missing.insert(program, why);
                }
                _ => return Err(failed("loading the BPF programs", &error)),
            },
        }
    }
}

/// Whether the kernel refused for want of privilege. The verifier's refusal (EACCES) is of the same kind, and
/// only the log tells the two apart.
fn unprivileged(kind: ErrorKind) -> bool {
    let verifier = LOG.lock().is_ok_and(|log| log.iter().any(|line| line.contains("-EACCES")));
    kind == ErrorKind::PermissionDenied && !verifier
}

/// The program that the kernel refused, with the reason as far as the log tells.
fn refused() -> Option<(&'static str, String)> {
    let log = LOG.lock().ok()?;
    let name = log.iter().rev().find_map(|line| {
        let name = line.split_once("prog '")?.1.split_once('\'')?;
        name.1.contains("failed to load").then(|| name.0.to_owned())
    })?;
    let program = PROGRAMS.iter().find(|program| program.name == name)?;
    Some((
        program.name,
        format!("the kernel refuses the program for {}: {}", program.tracepoint, reason(&log)),
    ))
}

/// The most telling line of a load's log.
fn reason(log: &[String]) -> String {
    log.iter()
        .rev()
        .find(|line| line.contains("BPF program load failed") || line.contains("failed to find"))
        .map_or_else(
            || log.last().cloned().unwrap_or_default(),
            |line| line.trim_start_matches("libbpf: ").to_owned(),
        )
}

fn configure(open: &mut OpenObject, request: Request<'_>) -> Result<(), TraceError> {
    let Request { spec, sizes, .. } = request;
    set_constants(open, &config(request)?)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let sized = match name.as_str() {
            "cpus" => map.set_max_entries(sizes.cpus),
            "stamps" => map.set_max_entries(sizes.stamps),
            "events" => map.set_max_entries(sizes.events),
            "queued" if spec.observed_process.is_some() => map.set_max_entries(QUEUES.0 * QUEUES.1),
            "stacks" if spec.observed_process.is_some() && !spec.threads.is_empty() => {
                map.set_max_entries(STACKS)
            }
            _ => Ok(()),
        };
        sized.map_err(|error| failed(&format!("sizing the BPF map {name}"), &error))?;
    }
    Ok(())
}

/// Gives `config` of an object, which its programs find constant, its value.
///
/// # Errors
/// The object has none, or a smaller one.
pub fn set_constants(open: &mut OpenObject, config: &(impl IntoBytes + Immutable)) -> Result<(), TraceError> {
    let octets = config.as_bytes();
    let mut maps = open.maps_mut();
    let value = maps.find(|map| map.name() == ".rodata.config").and_then(|mut map| {
        let value = map.initial_value_mut()?.get_mut(..octets.len())?;
        value.copy_from_slice(octets);
        Some(())
    });
    value.ok_or_else(|| invalid("configuring the BPF programs", "the object has no such configuration"))
}

fn config(request: Request<'_>) -> Result<Config, TraceError> {
    let Request { spec, types, sizes, steal } = request;
    let mut config = Config {
        stamp_mask: u64::from(sizes.stamps - 1),
        observed_process: spec.observed_process.unwrap_or(0),
        ready_by_waking: u32::from(!types.tracepoints.contains(READY)),
        ..Config::default()
    };
    if let StealCount::At(offset) = steal {
        (config.steal_counted, config.steal_offset) = (1, *offset);
    }
    let Some(flow) = &spec.flow else { return Ok(config) };
    if flow.ports.is_empty() || flow.ports.len() > PORTS {
        return Err(invalid("following a flow", "name 1 to 8 UDP ports"));
    }
    config.ports[..flow.ports.len()].copy_from_slice(&flow.ports);
    config.port_count = flow.ports.len() as u32;
    (config.payload, config.payload_offset) = match flow.payload {
        Payload::Opaque => (0, 0),
        Payload::Ours { offset } => (1, u32::from(offset)),
        Payload::Rtp => (2, 0),
    };
    match flow.address {
        None => {}
        Some(IpAddr::V4(address)) => {
            config.address_family = 4;
            config.address[..4].copy_from_slice(&address.octets());
        }
        Some(IpAddr::V6(address)) => {
            config.address_family = 6;
            config.address = address.octets();
        }
    }
    Ok(config)
}

/// Size in bytes of one value of the shared maps, as user space believes; checked against the object.
pub(crate) fn check_sizes(object: &Object) -> Result<(), TraceError> {
    let expected = [
        ("cpus", size_of::<CpuState>()),
        ("control", size_of::<Control>()),
        ("stamps", 96),
        ("events", 32),
        ("stacks", STACK_DEPTH * 8),
    ];
    for (name, bytes) in expected {
        let found = object.maps().find(|map| map.name() == name).map(|map| map.value_size() as usize);
        if found != Some(bytes) {
            return Err(invalid(
                "mapping the BPF memory",
                &format!("map {name} has values of {found:?} bytes"),
            ));
        }
    }
    Ok(())
}

/// An error of libbpf as ours. Without privilege its log guesses at the kernel's configuration, and says nothing that helps.
pub fn failed(operation: &str, error: &libbpf_rs::Error) -> TraceError {
    let operation = operation.to_owned();
    if unprivileged(error.kind()) {
        return TraceError::NotPermitted { operation, remedy: super::PRIVILEGE_REMEDY.to_owned() };
    }
    let operation = match LOG.lock() {
        Ok(log) if !log.is_empty() => format!("{operation} ({})", reason(&log)),
        _ => operation,
    };
    TraceError::Os { operation, source: io::Error::other(format!("{error:#}")) }
}

/// An error of the caller's, or of ours.
pub fn invalid(operation: &str, why: &str) -> TraceError {
    TraceError::Os {
        operation: operation.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()),
    }
}
