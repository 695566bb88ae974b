//! What every trace of ours begins with: an instance of its own that records nothing yet, and its CPUs' rings.

use super::format::PageLayout;
use super::instance::{Instance, remove_stale_instances};
use super::root::{Dir, open_tracefs, refused};
use super::survey::page_layout;
use crate::trace::TraceError;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};

/// Makes an instance that is switched off, and tells how its pages are laid out. Instances that killed runs left
/// behind are removed first. `instead`: what the user may do where the pages are not understood.
pub fn make_instance(instead: &str) -> Result<(Dir, Instance, PageLayout), TraceError> {
    let (root, _) = open_tracefs()?;
    // Leftovers cost memory and time, but a refusal to remove them must not stop this trace.
    let _ = remove_stale_instances(&root);
    let layout = page_layout(&root).ok_or_else(|| TraceError::NotSupported {
        operation: "reading tracefs events/header_page".to_owned(),
        remedy: format!("this kernel's trace pages are not understood; {instead}"),
    })?;
    let instance = Instance::create(&root)?;
    instance.set("tracing_on", "0")?;
    // Saves names at every switch for text output, which no one reads here.
    let _ = instance.set("options/record-cmd", "0");
    Ok((root, instance, layout))
}

/// One CPU's ring.
#[derive(Debug)]
pub struct Ring {
    /// CPU whose ring it is.
    pub cpu: u16,
    file: File,
}

impl Ring {
    /// Reads the next page into `page`, what it does not fill zeroed; false if there is none now.
    pub fn read_page(&mut self, page: &mut [u8]) -> io::Result<bool> {
        loop {
            match self.file.read(page) {
                Ok(0) => return Ok(false),
                Ok(octets) => {
                    page[octets..].fill(0);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Rings of the instance in `dir`, those of `cpus` only unless there are none, by number. They are to be closed before the
/// instance is removed.
pub fn open_rings(dir: &Dir, cpus: &[u16]) -> Result<Vec<Ring>, TraceError> {
    let names = dir.names("per_cpu").map_err(|e| refused("listing tracefs per_cpu", e))?;
    let mut present: Vec<u16> =
        names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    present.retain(|cpu| cpus.is_empty() || cpus.contains(cpu));
    present.sort_unstable();
    let open = |cpu| {
        let path = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let file = dir.open_file(&path, OFlags::RDONLY | OFlags::NONBLOCK);
        let file = file.map_err(|e| refused(&format!("opening tracefs {path}"), e))?;
        Ok(Ring { cpu, file })
    };
    present.into_iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_those_asked_for_in_order_and_pages_end_in_zeroes() {
        let folder = tempfile::tempdir().unwrap();
        for cpu in [10, 2, 0] {
            let ring = folder.path().join(format!("per_cpu/cpu{cpu}"));
            std::fs::create_dir_all(&ring).unwrap();
            std::fs::write(ring.join("trace_pipe_raw"), [cpu; 3]).unwrap();
        }
        let dir = Dir::open(folder.path()).unwrap();
        let cpus = |asked: &[u16]| -> Vec<u16> {
            open_rings(&dir, asked).unwrap().iter().map(|ring| ring.cpu).collect()
        };
        assert_eq!((cpus(&[]), cpus(&[10, 2, 77])), (vec![0, 2, 10], vec![2, 10]));
        let mut page = [0xff; 8];
        let mut ring = open_rings(&dir, &[10]).unwrap().remove(0);
        assert!(ring.read_page(&mut page).unwrap());
        assert_eq!(page, [10, 10, 10, 0, 0, 0, 0, 0]);
        assert!(!ring.read_page(&mut page).unwrap());
    }
}
