//! Which programs run here that correct clocks. The kernel names none of them.

use std::fs;
use std::path::Path;

/// Programs that correct the kernel's clock, by the first 15 characters of their names as the kernel keeps them. ptp4l does so
/// with stamps of the kernel; with those of an interface it corrects that interface's clock, and phc2sys the kernel's.
const NAMES: [&str; 8] =
    ["chronyd", "ntpd", "ptp4l", "phc2sys", "ptpd", "ptpd2", "sfptpd", "systemd-timesyn"];
/// Number of the first namespace of processes (PROC_PID_INIT_INO): from there all processes are seen.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Programs that correct clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockDaemons {
    /// Name and process of each.
    pub running: Vec<(String, u32)>,
    /// All processes of the machine are seen, so that no others run.
    pub all_seen: bool,
}

impl ClockDaemons {
    /// Those below `root`.
    pub fn find(root: &Path) -> Self {
        let processes = root.join("proc");
        let entries = fs::read_dir(&processes).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let named = |process: u32| {
            let name = fs::read_to_string(processes.join(process.to_string()).join("comm")).ok()?;
            NAMES.contains(&name.trim()).then(|| (name.trim().to_owned(), process))
        };
        let mut running: Vec<(String, u32)> = numbers.filter_map(named).collect();
        running.sort();
        let namespace = fs::read_link(processes.join("self/ns/pid"));
        let first = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_NAMESPACE);
        // With hidepid= the first process is hidden from those who have no rights over it.
        let all_seen = first && fs::read_to_string(processes.join("1/comm")).is_ok();
        Self { running, all_seen }
    }

    /// As words: `chronyd (process 71)`.
    pub fn words(&self) -> String {
        let each = self.running.iter().map(|(name, process)| format!("{name} (process {process})"));
        match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() && self.all_seen => "no program known to correct clocks runs".to_owned(),
            none if none.is_empty() => {
                "no program known to correct clocks is seen from this container".to_owned()
            }
            some => format!("running: {some}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_found_by_name_and_their_absence_is_known_from_the_first_namespace_only() {
        let root = tempfile::tempdir().unwrap();
        for (process, name) in [("1", "systemd"), ("40", "phc2sys"), ("7", "ptp4l"), ("8", "ntpdate")] {
            let place = root.path().join("proc").join(process);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("comm"), format!("{name}\n")).unwrap();
        }
        let namespaces = root.path().join("proc/self/ns");
        fs::create_dir_all(&namespaces).unwrap();
        let found = ClockDaemons::find(root.path());
        assert_eq!(found.running, [("phc2sys".to_owned(), 40), ("ptp4l".to_owned(), 7)]);
        assert_eq!(found.words(), "running: phc2sys (process 40), ptp4l (process 7)");
        assert!(!found.all_seen);
        std::os::unix::fs::symlink(FIRST_NAMESPACE, namespaces.join("pid")).unwrap();
        assert!(ClockDaemons::find(root.path()).all_seen);
        fs::remove_dir_all(root.path().join("proc/1")).unwrap();
        assert!(!ClockDaemons::find(root.path()).all_seen);
        let none = |all_seen| ClockDaemons { running: Vec::new(), all_seen }.words();
        assert!(none(true).ends_with("runs") && none(false).ends_with("this container"));
    }
}
