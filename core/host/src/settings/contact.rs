//! The only place where settings are read for writing, and written.

use super::class::ThreadClass;
use super::error::TuneError;
use super::knob::{ABSENT, Knob, PRESENT, chosen};
use crate::root::{HostRoot, parse_cpu_list};
use crate::stat::Stat;
use std::fmt::Debug;
use std::io::{self, Write};

/// What is needed to touch a machine. [`Machine`] is the one that exists; tests put machines of files in its place.
///
/// Every method is one effect or none: a crash falls between two of them.
pub trait Contact: Debug + Send + Sync {
    /// Where the machine's files are.
    fn root(&self) -> &HostRoot;

    /// Writes a file that exists, in one write, as the kernel's files want it.
    fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes or removes one directory, which may hold nothing but the kernel's own files.
    fn set_directory(&self, path: &str, present: bool) -> io::Result<()>;

    /// Replaces a configuration file as a whole or removes it (`None`), and makes that lasting.
    fn replace_file(&self, path: &str, bytes: Option<&[u8]>) -> io::Result<()>;

    /// Lets a thread run on these CPUs only.
    fn set_thread_cpus(&self, tid: u32, cpus: &[u16]) -> io::Result<()>;

    /// Gives a thread a scheduling class.
    fn set_thread_class(&self, tid: u32, class: ThreadClass) -> io::Result<()>;

    /// What a network driver says ([`super::ethtool`]).
    fn ethtool(&self, interface: &str, field: &str) -> io::Result<String>;

    /// Sets a field of a network driver.
    fn set_ethtool(&self, interface: &str, field: &str, value: &str) -> io::Result<()>;

    /// Whether a unit of the service manager is active.
    fn unit_active(&self, name: &str) -> io::Result<bool>;

    /// Starts or stops a unit, and waits until that is done.
    fn set_unit(&self, name: &str, active: bool) -> io::Result<()>;
}

/// The machine that this program runs on, or a copy of its files.
#[derive(Clone, Debug)]
pub struct Machine {
    root: HostRoot,
}

impl Machine {
    /// A machine by its files. What is no file can be changed only where that is `/`.
    pub fn new(root: HostRoot) -> Self {
        Self { root }
    }

    fn only_here(&self) -> io::Result<()> {
        if self.root.is_system() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

impl Contact for Machine {
    fn root(&self) -> &HostRoot {
        &self.root
    }

    fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(self.root.path(path))?;
        // One write: a setting is what one write says, and the rest of a short one would be another setting.
        let written = file.write(bytes)?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn set_directory(&self, path: &str, present: bool) -> io::Result<()> {
        let path = self.root.path(path);
        if present { std::fs::create_dir(path) } else { std::fs::remove_dir(path) }
    }

    fn replace_file(&self, path: &str, bytes: Option<&[u8]>) -> io::Result<()> {
        let path = self.root.path(path);
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        match bytes {
            Some(bytes) => {
                let beside = path.with_extension("quaver-new");
                let mut file = std::fs::File::create(&beside)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                std::fs::rename(&beside, &path)?;
            }
            None => std::fs::remove_file(&path)?,
        }
        std::fs::File::open(folder)?.sync_all()
    }

    fn set_thread_cpus(&self, tid: u32, cpus: &[u16]) -> io::Result<()> {
        self.only_here()?;
        let mut set = rustix::thread::CpuSet::new();
        for &cpu in cpus {
            if usize::from(cpu) >= rustix::thread::CpuSet::MAX_CPU {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            set.set(usize::from(cpu));
        }
        let tid = tid.try_into().ok().and_then(rustix::process::Pid::from_raw);
        let tid = tid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(rustix::thread::sched_setaffinity(Some(tid), &set)?)
    }

    fn set_thread_class(&self, tid: u32, class: ThreadClass) -> io::Result<()> {
        self.only_here()?;
        class.set(tid)
    }

    fn ethtool(&self, interface: &str, field: &str) -> io::Result<String> {
        self.only_here()?;
        super::ethtool::get(interface, field)
    }

    fn set_ethtool(&self, interface: &str, field: &str, value: &str) -> io::Result<()> {
        self.only_here()?;
        super::ethtool::set(interface, field, value)
    }

    fn unit_active(&self, name: &str) -> io::Result<bool> {
        self.only_here()?;
        if !self.root.exists("/run/systemd/system") {
            // Not the service manager of this machine (sd_booted(3)).
            return Err(io::ErrorKind::Unsupported.into());
        }
        // The exit status is the answer (systemctl(1)); nothing is parsed.
        Ok(systemctl(&["is-active", "--quiet", name])?.success())
    }

    fn set_unit(&self, name: &str, active: bool) -> io::Result<()> {
        self.only_here()?;
        let status = systemctl(&[if active { "start" } else { "stop" }, name])?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("systemctl: {status}"))) }
    }
}

fn systemctl(arguments: &[&str]) -> io::Result<std::process::ExitStatus> {
    use std::process::{Command, Stdio};
    Command::new("systemctl")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
}

/// What the knob says now, byte for byte.
///
/// # Errors
/// [`TuneError::Vanished`] where the thing that it belongs to is not there, and what the system says else.
pub fn read(contact: &dyn Contact, knob: &Knob) -> Result<Vec<u8>, TuneError> {
    let root = contact.root();
    let text = match knob {
        Knob::File { path } => std::fs::read(root.path(path)),
        Knob::Irq { irq } => std::fs::read(root.path(&format!("/proc/irq/{irq}/smp_affinity_list"))),
        Knob::Thread { tid } => thread_cpus(root, *tid).map(String::into_bytes),
        Knob::Class { tid } => ThreadClass::of(root, *tid).map(|class| class.to_string().into_bytes()),
        Knob::Directory { path } => {
            Ok(if root.path(path).is_dir() { PRESENT } else { ABSENT }.as_bytes().to_vec())
        }
        Knob::Config { path } => match std::fs::read(root.path(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ABSENT.as_bytes().to_vec()),
            other => other,
        },
        Knob::Unit { name } => contact
            .unit_active(name)
            .map(|active| if active { "active" } else { "inactive" }.as_bytes().to_vec()),
        Knob::Ethtool { interface, field } => contact.ethtool(interface, field).map(String::into_bytes),
        Knob::Held { device } => std::fs::read(root.path(device)).and_then(|octets| {
            let octets = octets.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            Ok(i32::from_ne_bytes(octets).to_string().into_bytes())
        }),
    };
    text.map_err(|error| sort(root, knob, "reading", None, error))
}

fn thread_cpus(root: &HostRoot, tid: u32) -> io::Result<String> {
    let status = std::fs::read_to_string(root.path(&format!("/proc/{tid}/status")))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| list.trim().to_owned()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Writes the knob once.
///
/// # Errors
/// [`TuneError::Refused`] where the kernel does not let it be changed so, with what is known about why.
pub fn write(contact: &dyn Contact, knob: &Knob, bytes: &[u8]) -> Result<(), TuneError> {
    let text = String::from_utf8_lossy(bytes);
    let value = chosen(&text);
    let done = match knob {
        Knob::File { path } => contact.write_file(path, bytes),
        Knob::Irq { irq } => contact.write_file(&format!("/proc/irq/{irq}/smp_affinity_list"), bytes),
        Knob::Thread { tid } => contact.set_thread_cpus(*tid, &parse_cpu_list(&value)),
        Knob::Class { tid } => value.parse().and_then(|class| contact.set_thread_class(*tid, class)),
        Knob::Directory { path } => contact.set_directory(path, value == PRESENT),
        Knob::Config { path } => contact.replace_file(path, (bytes != ABSENT.as_bytes()).then_some(bytes)),
        Knob::Unit { name } => contact.set_unit(name, value == "active"),
        Knob::Ethtool { interface, field } => contact.set_ethtool(interface, field, &value),
        // Held open by a process, not written: `Session::apply`.
        Knob::Held { .. } => Err(io::ErrorKind::Unsupported.into()),
    };
    done.map_err(|error| sort(contact.root(), knob, "writing", Some(&value), error))
}

fn sort(root: &HostRoot, knob: &Knob, what: &str, value: Option<&str>, error: io::Error) -> TuneError {
    if let (io::ErrorKind::ReadOnlyFilesystem, Some(path)) = (error.kind(), knob.path()) {
        let mounts = root.text("/proc/self/mounts").unwrap_or_default();
        return TuneError::read_only(format!("{what} {path}"), &path, &mounts);
    }
    let os = error.raw_os_error();
    let gone = [libc::ENXIO, libc::ENODEV, libc::ESRCH].map(Some).contains(&os);
    if gone || error.kind() == io::ErrorKind::NotFound {
        return TuneError::Vanished { knob: knob.to_string(), reason: absent(knob) };
    }
    let Some(value) = value else { return TuneError::new(format!("{what} {knob}"), error) };
    let refused =
        [libc::EINVAL, libc::EIO, libc::EBUSY, libc::EOPNOTSUPP, libc::ENOSPC].map(Some).contains(&os);
    let refused = refused || (matches!(knob, Knob::Class { .. }) && os == Some(libc::EPERM));
    // A thread that is bound to its CPU answers "invalid"; one that may not be touched "not permitted".
    if refused || error.kind() == io::ErrorKind::Unsupported {
        return TuneError::Refused {
            knob: knob.to_string(),
            value: value.to_owned(),
            reason: refusal(knob, os, &error),
        };
    }
    TuneError::new(format!("{what} {knob}"), error)
}

fn absent(knob: &Knob) -> String {
    match knob {
        Knob::File { .. } | Knob::Directory { .. } | Knob::Config { .. } => match knob.cpu() {
            Some(cpu) => format!("CPU {cpu} is offline, or this kernel has no such setting"),
            None => "no such file".to_owned(),
        },
        Knob::Irq { .. } => "no such interrupt".to_owned(),
        Knob::Thread { .. } | Knob::Class { .. } => "no such thread".to_owned(),
        Knob::Ethtool { .. } => "no such interface, or its driver has no such setting".to_owned(),
        Knob::Held { .. } => "no such device".to_owned(),
        Knob::Unit { .. } => "no service manager to ask (systemctl)".to_owned(),
    }
}

fn refusal(knob: &Knob, os: Option<i32>, error: &io::Error) -> String {
    match (knob, os) {
        (Knob::Irq { .. }, Some(libc::EIO)) => {
            "the kernel manages this interrupt's CPUs itself; use fewer queues, or boot with isolcpus=managed_irq,..."
                .to_owned()
        }
        (Knob::Irq { .. }, Some(libc::EINVAL)) => "none of these CPUs is online".to_owned(),
        (Knob::Thread { .. }, Some(libc::EINVAL)) => {
            "the thread is bound to its CPU, or none of these CPUs is online".to_owned()
        }
        (Knob::Class { .. }, Some(libc::EPERM)) => {
            "this needs root, and a control group that gives real-time threads time (cpu.rt_runtime_us of version 1)"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// What tells this object from another that has the same address now: a thread that got the number of one that ended,
/// a device that took the place of one that was removed. None where there is nothing to tell.
pub fn identity(contact: &dyn Contact, knob: &Knob) -> Option<String> {
    let root = contact.root();
    match knob {
        Knob::Thread { tid } | Knob::Class { tid } => {
            start_time(root, *tid).map(|ticks| format!("started {ticks}"))
        }
        Knob::Irq { irq } => {
            let folder = format!("/proc/irq/{irq}");
            let names = root.names(&folder).into_iter();
            let actions: Vec<String> =
                names.filter(|name| root.path(&format!("{folder}/{name}")).is_dir()).collect();
            (!actions.is_empty()).then(|| actions.join(","))
        }
        Knob::Ethtool { interface, .. } => interface_index(root, interface),
        Knob::File { path } => {
            let interface = path.strip_prefix("/sys/class/net/")?.split('/').next()?;
            interface_index(root, interface)
        }
        _ => None,
    }
}

fn interface_index(root: &HostRoot, interface: &str) -> Option<String> {
    root.text(&format!("/sys/class/net/{interface}/ifindex")).map(|index| format!("interface {index}"))
}

/// When a thread started, in ticks since boot. None for one that has ended and waits for its parent.
pub(crate) fn start_time(root: &HostRoot, tid: u32) -> Option<u64> {
    let stat = Stat::read(root, &format!("proc/{tid}"))?;
    (!stat.is_dead()).then_some(stat.started_ticks)
}

/// Number of the network namespace of this thread; none where it is not shown.
pub(crate) fn network_namespace(root: &HostRoot) -> Option<String> {
    let link = std::fs::read_link(root.path("/proc/thread-self/ns/net")).ok()?;
    link.to_str().map(str::to_owned)
}

/// Whether a network namespace lives on.
pub(crate) enum Dwelling {
    /// Nobody is in it and no name keeps it, so it is gone.
    Nobody,
    /// Some processes are hidden from this one, and may be in it.
    Hidden,
    /// It can be entered here.
    At(String),
}

/// Looks for a network namespace among processes and names (`ip netns`).
pub(crate) fn dwelling(root: &HostRoot, namespace: &str) -> Dwelling {
    let links = root.names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut hidden = false;
    for path in links.map(|pid| format!("/proc/{pid}/ns/net")) {
        match std::fs::read_link(root.path(&path)) {
            Ok(link) if link.to_str() == Some(namespace) => return Dwelling::At(path),
            Ok(_) => {}
            Err(error) => hidden |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    for path in root.names("/run/netns").into_iter().map(|name| format!("/run/netns/{name}")) {
        use std::os::unix::fs::MetadataExt;
        let number = std::fs::metadata(root.path(&path)).map(|about| format!("net:[{}]", about.ino()));
        if number.is_ok_and(|number| number == namespace) {
            return Dwelling::At(path);
        }
    }
    if hidden { Dwelling::Hidden } else { Dwelling::Nobody }
}

/// Number of this boot.
pub(crate) fn boot_id(root: &HostRoot) -> String {
    root.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
