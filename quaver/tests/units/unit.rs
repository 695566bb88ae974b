//! What a unit of systemd leaves a program, made without systemd: its rights, files and system calls.

use quaver_testbed::privileged::{Lack, skip};
use quaver_testbed::refusal::{self, Answer, Call, Refused};
use rustix::fs::{Gid, Uid};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::{self, CapabilitySet, CapabilitySets, UnshareFlags, unshare_unsafe};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::io::{Error, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use syscalls::Sysno;

/// The first user that `DynamicUser=` takes.
pub(crate) const USER: u32 = 61_184;
const FAMILIES: [(&str, i32); 4] = [
    ("AF_UNIX", libc::AF_UNIX),
    ("AF_INET", libc::AF_INET),
    ("AF_INET6", libc::AF_INET6),
    ("AF_NETLINK", libc::AF_NETLINK),
];

/// The path of a unit that is shipped.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../packaging/quaver-{name}.service"))
}

/// What `systemd-analyze` says; none, and the test of this name is skipped, where it is not installed.
pub(crate) fn systemd_analyze(test: &str, words: &[&str]) -> Option<std::process::Output> {
    let output = Command::new("systemd-analyze").args(words).output();
    if output.is_err() {
        skip(test, Lack::Installed("systemd-analyze"));
    }
    output.ok()
}

/// A unit's settings.
pub(crate) struct Unit {
    text: String,
    /// Members of each group of system calls, as this systemd has them.
    groups: BTreeMap<String, Vec<String>>,
}

impl Unit {
    /// A shipped one; none, and the test of this name is skipped, where systemd's groups of calls are not to be had.
    pub(crate) fn read(name: &str, test: &str) -> Option<Self> {
        let listed = systemd_analyze(test, &["syscall-filter"])?.stdout;
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut group = String::new();
        for line in String::from_utf8(listed).unwrap().lines() {
            match line.trim() {
                name if line.starts_with('@') => group = name.to_owned(),
                "" => {}
                member if member.starts_with('#') => {}
                member => groups.entry(group.clone()).or_default().push(member.to_owned()),
            }
        }
        Some(Self { text: std::fs::read_to_string(shipped(name)).unwrap(), groups })
    }

    fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.text.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
    }

    fn value<'a>(&'a self, key: &'a str) -> &'a str {
        self.values(key).next().unwrap_or_else(|| panic!("the unit has no {key}"))
    }

    /// Words of the command that it starts, without the program.
    pub(crate) fn command(&self) -> Vec<&str> {
        self.value("ExecStart").split_whitespace().skip(1).collect()
    }

    fn members(&self, name: &str) -> Vec<Sysno> {
        match self.groups.get(name) {
            Some(members) => members.iter().flat_map(|member| self.members(member)).collect(),
            // Names of other processors are not known here.
            None => Sysno::from_str(name).into_iter().collect(),
        }
    }

    /// Calls that `SystemCallFilter=` refuses.
    fn refused_calls(&self) -> Vec<i64> {
        let mut allowed: BTreeSet<Sysno> = self.members("@default").into_iter().collect();
        for line in self.values("SystemCallFilter") {
            let (taken, names) = line.strip_prefix('~').map_or((false, line), |names| (true, names));
            for name in names.split_whitespace() {
                let members = self.members(name);
                assert!(!members.is_empty(), "{name} is no system call and no group of them");
                if taken {
                    members.iter().for_each(|call| {
                        allowed.remove(call);
                    });
                } else {
                    allowed.extend(members);
                }
            }
        }
        Sysno::iter().filter(|call| !allowed.contains(call)).map(|call| i64::from(call.id())).collect()
    }

    fn capabilities(&self) -> CapabilitySet {
        let known = |name: &str| CapabilitySet::from_name(name.strip_prefix("CAP_")?);
        let names = self.value("CapabilityBoundingSet").split_whitespace();
        names.map(|name| known(name).unwrap_or_else(|| panic!("{name} is no capability"))).collect()
    }

    fn families(&self) -> Vec<u64> {
        let names = self.value("RestrictAddressFamilies").split_whitespace();
        let number = |name| FAMILIES.iter().find(|known| known.0 == name).map(|known| known.1 as u64);
        names.filter_map(number).collect()
    }

    /// Starts the program in a place of its own, under `words`, with what the unit leaves it. It may write into `writable`.
    pub(crate) fn start(
        &self,
        program: &Path,
        place: &Path,
        writable: &[&Path],
        prepare: impl FnOnce(&mut Command, &Path),
    ) -> Started {
        // Whoever has no rights may not reach where it was built.
        let inside = place.join("quaver");
        std::fs::write(&inside, "").unwrap();
        let user = self.text.contains("\nDynamicUser=yes\n").then_some(USER);
        for path in writable.iter().copied().chain([place]) {
            std::os::unix::fs::chown(path, user, user).unwrap();
        }
        let files = Files {
            program: (text(program), text(&inside)),
            writable: writable.iter().map(|path| text(path)).collect(),
            kernel: self.text.contains("\nProtectKernelTunables=yes\n"),
            network: self.text.contains("\nPrivateNetwork=yes\n"),
        };
        let capabilities = self.capabilities();
        let mut command = Command::new(&inside);
        command.current_dir(place);
        prepare(&mut command, &inside);
        // SAFETY: what runs between fork and exec makes system calls only, with memory that was made before.
        unsafe {
            command.pre_exec(move || {
                files.keep()?;
                Ok(keep_rights(capabilities, user)?)
            })
        };
        let mut numbers = self.refused_calls();
        let always = numbers.clone();
        numbers.extend([libc::SYS_socket, libc::SYS_sched_setscheduler]);
        let (families, refused) = (self.families(), Arc::new(Mutex::new(BTreeSet::new())));
        let noted = Arc::clone(&refused);
        let judge = move |call: &Call| {
            let real_time = [libc::SCHED_FIFO as u64, libc::SCHED_RR as u64];
            let answer = match call.number {
                number if always.contains(&number) => Answer::Fail(libc::EPERM),
                libc::SYS_socket if families.contains(&call.arguments[0]) => Answer::GoOn,
                libc::SYS_socket => Answer::Fail(libc::EAFNOSUPPORT),
                _ if real_time.contains(&call.arguments[1]) => Answer::Fail(libc::EPERM),
                _ => Answer::GoOn,
            };
            if answer != Answer::GoOn {
                let name = Sysno::new(call.number as usize).map_or("", |call| call.name());
                noted.lock().unwrap().insert(format!("{name}({})", call.arguments[0] as i32));
            }
            answer
        };
        Started { process: refusal::start(&mut command, &numbers, judge).unwrap(), refused }
    }
}

/// A program under a unit's restrictions.
pub(crate) struct Started {
    pub(crate) process: Refused,
    /// System calls that were refused so far, with their first argument.
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Started {
    pub(crate) fn refused(&self) -> BTreeSet<String> {
        self.refused.lock().unwrap().clone()
    }
}

fn text(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// `ProtectSystem=strict`, `ReadWritePaths=`, `ProtectKernelTunables=` and `PrivateNetwork=`.
struct Files {
    /// The program, and where it is to be found.
    program: (CString, CString),
    writable: Vec<CString>,
    kernel: bool,
    /// A network of its own, without an interface that is up.
    network: bool,
}

impl Files {
    /// Makes the system so for the calling process alone.
    fn keep(&self) -> Result<()> {
        // SAFETY: the child has one thread, so no other one shares its file descriptors or its root.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        if self.network {
            // SAFETY: as above.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        }
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount_bind(&*self.program.0, &*self.program.1)?;
        for path in &self.writable {
            mount_bind(&**path, &**path)?;
        }
        mount_bind(c"/proc/sys", c"/proc/sys")?;
        read_only(c"/", true)?;
        for path in self.writable.iter().map(CString::as_c_str).chain([c"/dev", c"/proc"]) {
            read_only(path, false)?;
        }
        if !self.kernel {
            read_only(c"/sys", false)?;
            read_only(c"/proc/sys", false)?;
        }
        Ok(())
    }
}

/// Sets the mount at this place, for `true` with all below it.
fn read_only(path: &CStr, is: bool) -> Result<()> {
    // struct mount_attr: set, cleared, propagation, user namespace.
    let attributes = if is { [libc::MOUNT_ATTR_RDONLY, 0, 0, 0] } else { [0, libc::MOUNT_ATTR_RDONLY, 0, 0] };
    let flags = if is { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: `path` ends with a NUL, and `attributes` has the size that is passed. Both outlive the call.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if status < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// `CapabilityBoundingSet=`, and for another user `AmbientCapabilities=` alike.
fn keep_rights(kept: CapabilitySet, user: Option<u32>) -> rustix::io::Result<()> {
    for (_, capability) in CapabilitySet::all().difference(kept).iter_names() {
        thread::remove_capability_from_bounding_set(capability)?;
    }
    let Some(user) = user else { return Ok(()) };
    thread::set_thread_groups(&[])?;
    thread::set_keep_capabilities(true)?;
    let group = Gid::from_raw(user);
    thread::set_thread_res_gid(group, group, group)?;
    let user = Uid::from_raw(user);
    thread::set_thread_res_uid(user, user, user)?;
    thread::set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    kept.iter().try_for_each(|capability| thread::configure_capability_in_ambient_set(capability, true))
}
