//! CPUs that a run depends on: a measuring thread whose CPU is taken offline goes on elsewhere, and what it measures
//! from then on is something else.

use quaver_host::root::HostRoot;

/// Kernel's list of the CPUs that are online.
const ONLINE: &str = "sys/devices/system/cpu/online";

/// The CPUs that must stay.
#[derive(Debug)]
pub struct CpuWatch {
    root: HostRoot,
    needed: Vec<(u16, &'static str)>,
}

/// A CPU that went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuGone {
    /// Its number.
    pub cpu: u16,
    /// Who was bound to it.
    pub whose: &'static str,
}

impl CpuGone {
    /// What happened and what to do.
    pub fn sentence(&self) -> String {
        format!(
            "CPU {0}, which the {1} was bound to, was taken offline; what was measured until then is kept. \
             Bring it back (echo 1 > /sys/devices/system/cpu/cpu{0}/online) or choose another CPU, and measure again",
            self.cpu, self.whose
        )
    }
}

impl CpuWatch {
    /// Watches nothing yet on the machine of `root`.
    pub fn new(root: HostRoot) -> Self {
        Self { root, needed: Vec::new() }
    }

    /// From now on `cpu` must stay, for it is that of `whose`.
    pub fn need(&mut self, cpu: u16, whose: &'static str) {
        self.needed.push((cpu, whose));
    }

    /// The first needed CPU that is offline now. A machine that tells of no CPU at all is believed to have all.
    pub fn gone(&self) -> Option<CpuGone> {
        if self.needed.is_empty() {
            return None;
        }
        let online = self.root.cpu_list(ONLINE);
        let (cpu, whose) = *self.needed.iter().find(|(cpu, _)| !online.contains(cpu))?;
        (!online.is_empty()).then_some(CpuGone { cpu, whose })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needed_cpu_that_goes_is_named_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ONLINE);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut watch = CpuWatch::new(HostRoot::at(folder.path()));
        watch.need(0, "source");
        watch.need(3, "sink");
        assert_eq!(watch.gone(), None, "nothing tells which CPUs there are");
        std::fs::write(&file, "0-3\n").unwrap();
        assert_eq!(watch.gone(), None);
        std::fs::write(&file, "0-2,4\n").unwrap();
        let gone = watch.gone().unwrap();
        assert_eq!(gone, CpuGone { cpu: 3, whose: "sink" });
        assert!(gone.sentence().starts_with("CPU 3, which the sink was bound to, was taken offline;"));
        assert!(gone.sentence().contains("/sys/devices/system/cpu/cpu3/online"));
        assert_eq!(CpuWatch::new(HostRoot::at(folder.path())).gone(), None, "nothing is needed");
    }
}
