//! A machine made of files that answers writes as a kernel does, for tests.

use super::class::ThreadClass;
use super::contact::{Contact, Machine};
use super::journal::JournalPlace;
use super::knob::{cpu_list, cpu_mask, mask_cpus};
use crate::root::{HostRoot, parse_cpu_list};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The machine and, beside it, a directory for its journal. Removed when dropped.
#[derive(Debug)]
pub struct FakeMachine {
    directory: tempfile::TempDir,
}

impl FakeMachine {
    /// A machine with these files, each with its text.
    pub fn new(files: &[(&str, &str)]) -> Self {
        // Tests end the world thousands of times: where there is memory for it, no disk is waited for.
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let machine = Self { directory: made.expect("a temporary directory can be made") };
        machine.file("proc/sys/kernel/random/boot_id", "first boot\n");
        for (name, text) in files {
            machine.file(name, text);
        }
        machine
    }

    /// Where a file of this machine really lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("machine").join(name.trim_start_matches('/'))
    }

    /// Adds or replaces a file, byte for byte.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the directory is ours");
        std::fs::write(path, text).expect("the directory is ours");
    }

    /// Takes a file away.
    pub fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
            .expect("the directory is ours");
    }

    /// What a file holds.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file is there")
    }

    /// The machine as its readers take it.
    pub fn root(&self) -> HostRoot {
        HostRoot::at(self.directory.path().join("machine"))
    }

    /// Where its journal lies.
    pub fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    /// The place of its journal.
    pub fn place(&self) -> JournalPlace {
        JournalPlace::at(self.journal(), self.root()).with_contact(Arc::new(FakeKernel::new(self.root())))
    }

    /// Every file and directory of the machine, with its content.
    pub fn listing(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        collect(&self.directory.path().join("machine"), &mut found);
        found.sort();
        found
    }
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, Option<Vec<u8>>)>) {
    for entry in std::fs::read_dir(folder).expect("the directory is ours") {
        let path = entry.expect("the directory is ours").path();
        if path.is_dir() {
            collect(&path, found);
            found.push((path, None));
        } else {
            let text = std::fs::read(&path).expect("the directory is ours");
            found.push((path, Some(text)));
        }
    }
}

/// Answers writes as a kernel does: it normalises, refuses and rounds.
#[derive(Debug)]
pub struct FakeKernel {
    machine: Machine,
    root: HostRoot,
}

impl FakeKernel {
    /// The kernel of the machine at this root.
    pub fn new(root: HostRoot) -> Self {
        Self { machine: Machine::new(root.clone()), root }
    }

    /// What the file says after `value` was written to it.
    fn answer(&self, path: &str, value: &str) -> io::Result<String> {
        let before = self.root.text(path).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or(path);
        if name == "smp_affinity_list" {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            if self.root.exists(&format!("{folder}/managed")) {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            let online = self.root.cpu_list("/sys/devices/system/cpu/online");
            if !parse_cpu_list(value).iter().any(|cpu| online.contains(cpu)) {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            return Ok(cpu_list(&parse_cpu_list(value)));
        }
        if before.contains('[') && before.contains(' ') {
            let choices: Vec<String> =
                before.split_whitespace().map(|choice| choice.trim_matches(['[', ']']).to_owned()).collect();
            if !choices.iter().any(|choice| choice == value) {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            let mark = |choice: String| if choice == value { format!("[{choice}]") } else { choice };
            return Ok(choices.into_iter().map(mark).collect::<Vec<_>>().join(" "));
        }
        Ok(match name {
            "rps_cpus" => {
                let cpus = mask_cpus(value).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
                format!("00000000,{:0>8}", cpu_mask(&cpus))
            }
            "cgroup.subtree_control" => {
                let (kept, controller) = (value.starts_with('+'), value.trim_start_matches(['+', '-']));
                let others = before.split_whitespace().filter(|word| *word != controller);
                others.chain(kept.then_some(controller)).collect::<Vec<_>>().join(" ")
            }
            // A setting that takes every write and stays what it is.
            "deaf" => before,
            // One that knows even numbers only.
            "even" => (value.parse::<u64>().unwrap_or(0) / 2 * 2).to_string(),
            // One that lies on a file system that is mounted read-only.
            "sealed" => return Err(io::Error::from_raw_os_error(libc::EROFS)),
            "stubborn" => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            _ => value.to_owned(),
        })
    }
}

impl Contact for FakeKernel {
    fn root(&self) -> &HostRoot {
        &self.root
    }

    fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        if !self.root.exists(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let value = String::from_utf8_lossy(bytes);
        let text = self.answer(path, value.trim_end_matches('\n'))?;
        self.machine.write_file(path, format!("{text}\n").as_bytes())
    }

    fn set_directory(&self, path: &str, present: bool) -> io::Result<()> {
        // The kernel's own files come and go with a control group.
        let files = [("cpuset.cpus", "\n"), ("cpuset.cpus.partition", "member\n")];
        if present {
            self.machine.set_directory(path, true)?;
            files.iter().try_for_each(|(name, text)| std::fs::write(self.root.path(path).join(name), text))
        } else {
            std::fs::remove_dir_all(self.root.path(path))
        }
    }

    fn replace_file(&self, path: &str, bytes: Option<&[u8]>) -> io::Result<()> {
        self.machine.replace_file(path, bytes)
    }

    fn set_thread_cpus(&self, tid: u32, cpus: &[u16]) -> io::Result<()> {
        let path = format!("/proc/{tid}/status");
        let status = self.root.text(&path).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        if status.contains("bound") {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let line = |line: &str| match line.split_once(':') {
            Some(("Cpus_allowed_list", _)) => format!("Cpus_allowed_list:\t{}\n", cpu_list(cpus)),
            _ => format!("{line}\n"),
        };
        self.machine.write_file(&path, status.lines().map(line).collect::<String>().as_bytes())
    }

    fn set_thread_class(&self, tid: u32, class: ThreadClass) -> io::Result<()> {
        let path = format!("/proc/{tid}/stat");
        let stat = self.root.text(&path).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let (head, rest) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
        let mut fields: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        let (policy, priority) = class.numbers();
        // proc(5) counts fields from 1, and the first two stand before.
        fields.resize(fields.len().max(39), "0".to_owned());
        (fields[37], fields[38]) = (priority.to_string(), policy.to_string());
        self.machine.write_file(&path, format!("{head}) {}\n", fields.join(" ")).as_bytes())
    }

    fn ethtool(&self, interface: &str, field: &str) -> io::Result<String> {
        let text = self.root.text(&format!("/drivers/{interface}/{field}"));
        text.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    fn set_ethtool(&self, interface: &str, field: &str, value: &str) -> io::Result<()> {
        // A driver that takes every request and stays as it is.
        if interface == "deaf" {
            return Ok(());
        }
        // As some drivers do, it counts in steps of two.
        let steps = value.parse::<u64>().map_or_else(|_| value.to_owned(), |us| (us / 2 * 2).to_string());
        self.machine.write_file(&format!("/drivers/{interface}/{field}"), format!("{steps}\n").as_bytes())
    }

    fn unit_active(&self, name: &str) -> io::Result<bool> {
        Ok(self.root.text(&format!("/units/{name}")).as_deref() == Some("active"))
    }

    fn set_unit(&self, name: &str, active: bool) -> io::Result<()> {
        let text: &[u8] = if active { b"active\n" } else { b"inactive\n" };
        self.machine.write_file(&format!("/units/{name}"), text)
    }
}
