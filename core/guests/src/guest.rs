//! What the first process of a guest does with its machine.

use super::GuestError;
use quaver_host::root::HostRoot;
use rustix::mount::MountFlags;
use rustix::thread::CpuSet;
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a guest finds what it is asked to do.
pub const REQUEST: &str = "/quaver-request.json";
/// Where it finds its modules, in the order of their names.
pub const MODULES: &str = "/quaver-modules";
/// The device through which it answers, a line for each answer.
pub const ANSWERS: &str = "/dev/vport0p1";
/// Its first line: the kernel has booted. It is for [`crate::process::Guest`] alone.
pub(super) const BOOTED: &str = "booted";
/// The interface that the source sends from.
pub const SOURCE_ADDRESS: &str = "02:51:c0:00:02:01";
/// The interface that the sink receives from.
pub const SINK_ADDRESS: &str = "02:51:c0:00:02:02";
/// Where guests write; of the first file system, which is memory, so that the image can bring files for there.
pub(super) const WRITTEN: [&str; 2] = ["/tmp", "/run"];
/// What is mounted: source, place and type, in this order.
pub(super) const MOUNTS: [(&str, &str, &str); 5] = [
    ("proc", "/proc", "proc"),
    ("sysfs", "/sys", "sysfs"),
    ("devtmpfs", "/dev", "devtmpfs"),
    ("tracefs", "/sys/kernel/tracing", "tracefs"),
    ("bpf", "/sys/fs/bpf", "bpf"),
];
/// Most time that devices get to appear, of the guest's own.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// Modules are compressed, and the kernel can undo that (MODULE_INIT_COMPRESSED_FILE of linux/module.h).
const COMPRESSED: i32 = 4;

/// Whether this process is the first of its machine, or of its PID namespace.
#[must_use]
pub fn is_first_process() -> bool {
    rustix::process::getpid().is_init()
}

/// Mounts what the kernel shows.
///
/// # Errors
/// [`GuestError::Os`].
pub fn mount_all() -> Result<(), GuestError> {
    for (source, place, kind) in MOUNTS {
        rustix::mount::mount(source, place, kind, MountFlags::empty(), None)
            .map_err(|error| GuestError::os(format!("mount {kind} on {place}"), error))?;
    }
    Ok(())
}

/// Lets this thread, and what it starts, run everywhere: the kernel keeps its first process off CPUs that are isolated.
///
/// # Errors
/// [`GuestError::Os`].
pub fn use_all_cpus(root: &HostRoot) -> Result<(), GuestError> {
    let mut all = CpuSet::new();
    root.cpu_list("/sys/devices/system/cpu/online").into_iter().for_each(|cpu| all.set(usize::from(cpu)));
    rustix::thread::sched_setaffinity(None, &all)
        .map_err(|error| GuestError::os("let the first process run on every CPU", error))
}

/// Mounts control groups of version 2 where they usually are.
///
/// # Errors
/// [`GuestError::Os`].
pub fn mount_control_groups() -> Result<(), GuestError> {
    rustix::mount::mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MountFlags::empty(), None)
        .map_err(|error| GuestError::os("mount control groups", error))
}

/// What this guest is asked to do.
///
/// # Errors
/// [`GuestError::File`].
pub fn request() -> Result<Vec<u8>, GuestError> {
    read(Path::new(REQUEST))
}

fn read(path: &Path) -> Result<Vec<u8>, GuestError> {
    fs::read(path).map_err(|source| GuestError::File { operation: "read", path: path.to_owned(), source })
}

/// Opens the way back to the host, and says there that the kernel has booted.
///
/// # Errors
/// [`GuestError::File`] where the emulator gave the guest none.
pub fn answers() -> Result<fs::File, GuestError> {
    let open = || {
        let mut answers = fs::OpenOptions::new().write(true).open(ANSWERS)?;
        writeln!(answers, "{BOOTED}")?;
        Ok(answers)
    };
    open().map_err(|source| GuestError::File { operation: "open", path: ANSWERS.into(), source })
}

/// Words of `wanted` that are not on the kernel's command line.
#[must_use]
pub fn missing_words<'a>(root: &HostRoot, wanted: &'a [String]) -> Vec<&'a str> {
    let line = root.text("/proc/cmdline").unwrap_or_default();
    let there: Vec<&str> = line.split_ascii_whitespace().collect();
    wanted.iter().map(String::as_str).filter(|word| !there.contains(word)).collect()
}

/// Loads the modules that the guest was given; `parameters` go to the last, for whose sake the others are there.
///
/// # Errors
/// [`GuestError`] where the kernel refuses one.
pub fn load_modules(parameters: &str) -> Result<(), GuestError> {
    let listed = fs::read_dir(MODULES);
    let listed =
        listed.map_err(|source| GuestError::File { operation: "list", path: MODULES.into(), source })?;
    let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    for (place, path) in files.iter().enumerate() {
        let last = place + 1 == files.len();
        let parameters = CString::new(if last { parameters } else { "" }).unwrap_or_default();
        let failed = |source: std::io::Error| GuestError::File {
            operation: "load module",
            path: path.clone(),
            source,
        };
        let file = fs::File::open(path).map_err(failed)?;
        let flags = if path.extension().is_some_and(|ending| ending != "ko") { COMPRESSED } else { 0 };
        rustix::system::finit_module(&file, &parameters, flags).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

/// Name of the interface with this hardware address, waited for.
///
/// # Errors
/// [`GuestError::Os`] where none appears.
pub fn interface_with(root: &HostRoot, address: &str) -> Result<String, GuestError> {
    let find = || {
        let names = root.names("/sys/class/net");
        names.into_iter().find(|name| {
            root.text(&format!("/sys/class/net/{name}/address")).is_some_and(|text| text.trim() == address)
        })
    };
    let begin = Instant::now();
    loop {
        if let Some(name) = find() {
            return Ok(name);
        }
        if begin.elapsed() > MOST_WAIT {
            let operation = format!("find the interface {address}");
            return Err(GuestError::os(operation, std::io::ErrorKind::NotFound));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Number of the interface's interrupt, which is the one of its device.
///
/// # Errors
/// [`GuestError::Os`] where the device has none.
pub fn interrupt_of(root: &HostRoot, interface: &str) -> Result<u32, GuestError> {
    let text = root.text(&format!("/sys/class/net/{interface}/device/irq"));
    let number = text.and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| {
        GuestError::os(format!("read the interrupt of {interface}"), std::io::ErrorKind::NotFound)
    })
}

/// Lets an interrupt go to one CPU.
///
/// # Errors
/// [`GuestError::File`] where the kernel refuses.
pub fn steer_interrupt(number: u32, cpu: u16) -> Result<(), GuestError> {
    let path = PathBuf::from(format!("/proc/irq/{number}/smp_affinity_list"));
    let write = || fs::OpenOptions::new().write(true).open(&path)?.write_all(cpu.to_string().as_bytes());
    write().map_err(|source| GuestError::File { operation: "write", path: path.clone(), source })
}

/// Ends the machine. Comes back only where it may not.
pub fn power_off() {
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
}
