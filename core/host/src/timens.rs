//! Time namespaces: CLOCK_MONOTONIC of a container may be ahead of the kernel's own, which BPF programs read.

use crate::root::HostRoot;

/// How far this process's CLOCK_MONOTONIC is ahead of the kernel's own, in nanoseconds (time_namespaces(7)); none where
/// the kernel does not tell, because the process left its time namespace to its children.
pub fn monotonic_ahead_ns(root: &HostRoot) -> Option<i64> {
    let namespace = |name: &str| std::fs::read_link(root.path(&format!("/proc/self/ns/{name}"))).ok();
    // What the file tells is what children get.
    if namespace("time") != namespace("time_for_children") {
        return None;
    }
    match root.text("/proc/self/timens_offsets") {
        Some(text) => offset_ns(&text),
        // A kernel without time namespaces.
        None => Some(0),
    }
}

fn offset_ns(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("monotonic"))?;
    let mut words = line.split_whitespace().map(str::parse::<i64>);
    let (Some(Ok(seconds)), Some(Ok(ns))) = (words.next(), words.next()) else { return None };
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_seconds_and_nanoseconds() {
        assert_eq!(offset_ns("monotonic           0         0\nboottime            0         0\n"), Some(0));
        assert_eq!(offset_ns("monotonic      864000 123456789\nboottime 1 2\n"), Some(864_000_123_456_789));
        assert_eq!(offset_ns("monotonic          -3         7\n"), Some(-2_999_999_993));
        for text in ["", "boottime 1 2", "monotonic 1", "monotonic x 1", "monotonic 9223372036854775807 0"] {
            assert_eq!(offset_ns(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_knows_its_own() {
        assert!(monotonic_ahead_ns(&HostRoot::system()).is_some());
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(monotonic_ahead_ns(&HostRoot::at(nothing.path())), Some(0));
    }
}
