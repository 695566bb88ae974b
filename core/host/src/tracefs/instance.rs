//! A private trace instance: its own buffers and switches, beside whatever else traces on this machine.

use super::root::{Dir, refused};
use crate::trace::TraceError;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, test_kill_process};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// Names of our instances: `quaver-<pid>-<random>`.
const PREFIX: &str = "quaver-";

/// An instance of ours. Dropping it removes it; all files opened below it must be closed by then.
#[derive(Debug)]
pub struct Instance {
    instances: Dir,
    name: String,
    /// Holds a lock for as long as we live, so that no one takes the instance for a leftover (another process may
    /// see other process numbers than we do).
    dir: Dir,
}

impl Instance {
    /// Makes an instance below the tracefs `root`.
    pub fn create(root: &Dir) -> Result<Self, TraceError> {
        let instances = root.open_dir("instances").map_err(|e| refused("opening tracefs instances", e))?;
        let random = RandomState::new().build_hasher().finish() as u32;
        let name = format!("{PREFIX}{}-{random:08x}", std::process::id());
        let operation = format!("making trace instance {name}");
        instances.make_dir(&name).map_err(|e| refused(&operation, e))?;
        let dir = match instances.open_dir(&name) {
            Ok(dir) => dir,
            Err(error) => {
                remove(&instances, &name);
                return Err(refused(&operation, error));
            }
        };
        let instance = Self { instances, name, dir };
        rustix::fs::flock(&instance.dir, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| refused(&operation, e.into()))?;
        Ok(instance)
    }

    /// Its name below `instances`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Writes a setting, with an error that names it.
    pub fn set(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let shown: String = value.chars().take(40).collect();
        self.dir
            .write(file, value)
            .map_err(|e| refused(&format!("writing {shown:?} to tracefs {}/{file}", self.name), e))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.instances, &self.name);
    }
}

/// Stops and removes an instance; false if the kernel still held on to it after a tenth of a second.
fn remove(instances: &Dir, name: &str) -> bool {
    // Recording must end even where removing fails. In a plain folder, as in tests, these files do not exist.
    let _ = instances.write(&format!("{name}/tracing_on"), "0");
    let _ = instances.write(&format!("{name}/events/enable"), "0");
    for _ in 0..10 {
        match instances.remove_dir(name) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => sleep(Duration::from_millis(10)),
            Err(_) => return false,
        }
    }
    false
}

/// Removes the instances that killed runs left behind below the tracefs `root`: ours by name, their process gone, and
/// locked by no one. Returns their names.
pub fn remove_stale_instances(root: &Dir) -> io::Result<Vec<String>> {
    let instances = root.open_dir("instances")?;
    let mut removed = stale_instances(root)?;
    removed.retain(|name| remove(&instances, name));
    Ok(removed)
}

/// The instances that [`remove_stale_instances`] would remove. Changes nothing.
pub fn stale_instances(root: &Dir) -> io::Result<Vec<String>> {
    let mut names = root.names("instances")?;
    let instances = root.open_dir("instances")?;
    names.retain(|name| owner(name).is_some_and(|pid| !alive(pid)) && !locked(&instances, name));
    Ok(names)
}

/// The process that made an instance of ours.
fn owner(name: &str) -> Option<Pid> {
    let (pid, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
    if random.len() != 8 || !random.bytes().all(|octet| octet.is_ascii_hexdigit()) {
        return None;
    }
    Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?)
}

fn alive(pid: Pid) -> bool {
    // Any other refusal means that there is such a process.
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

fn locked(instances: &Dir, name: &str) -> bool {
    let Ok(dir) = instances.open_dir(name) else { return true };
    rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_an_owner() {
        assert_eq!(owner("quaver-12-0badcafe"), Pid::from_raw(12));
        for name in
            ["quaver-12", "quaver-x-0badcafe", "quaver-0-0badcafe", "other-12-0badcafe", "quaver-12-../../xx"]
        {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
