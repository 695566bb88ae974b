//! What waits inside a Java virtual machine are for, and the functions of Java that a perf map names.

use std::collections::BTreeMap;

/// Functions of the virtual machine, by a part of their names, and what a call through them is for. The first that fits counts.
const DEEDS: [(&str, &str); 6] = [
    ("ObjectMonitor::wait", "Java Object.wait"),
    ("ObjectMonitor::enter", "Java synchronized"),
    ("ObjectMonitor::exit", "Java synchronized"),
    ("ObjectMonitor::INotify", "Java Object.notify"),
    ("Unsafe_Park", "Java LockSupport.park"),
    ("Unsafe_Unpark", "Java LockSupport.unpark"),
];
/// Beginnings of the names of functions that are no program's own.
const OF_LIBRARY: [&str; 9] =
    ["java.", "jdk.", "sun.", "javax.", "Interpreter", "Stub", "MethodHandle", "Runtime", "~"];

/// What a call through these functions of the virtual machine is for.
pub fn deed<'a>(functions: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    let is_on_way = |part: &str| functions.clone().any(|function| function.contains(part));
    DEEDS.iter().find(|(part, _)| is_on_way(part)).map(|(_, deed)| *deed)
}

/// Names of code that was made while the program ran (`/tmp/perf-PID.map`), by its end.
#[derive(Clone, Debug, Default)]
pub struct PerfMap(BTreeMap<u64, (u64, String)>);

impl PerfMap {
    /// Of each line `START LENGTH NAME`, numbers in base 16. Others are left out.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (start, length) = (number()?, number()?);
            Some((start.checked_add(length)?, (start, words.next()?.trim().to_owned())))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function that an address lies in.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, (start, name)) = self.0.range(address + 1..).next()?;
        (*start <= address).then_some(name)
    }
}

/// `J.work` for `void J.work(int)`; none where it is no function of the program itself.
pub fn own_function(name: &str) -> Option<String> {
    let plain = name.split('(').next().unwrap_or(name);
    let plain = plain.rsplit(' ').next().unwrap_or(plain);
    let is_own = plain.contains('.') && !OF_LIBRARY.iter().any(|one| plain.starts_with(one));
    is_own.then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perf_map_names_code_by_where_it_lies() {
        let map = PerfMap::parse(
            "0x00007f00 0x0000000000000020 void Queue.push(int)\nrubbish\n7f20 10 Interpreter\n7f40 8 x\n",
        );
        let name = |address| map.name(address).unwrap_or("-");
        let found = [0x7eff, 0x7f00, 0x7f1f, 0x7f20, 0x7f30, 0x7f47, 0x7f48].map(name);
        assert_eq!(
            found,
            ["-", "void Queue.push(int)", "void Queue.push(int)", "Interpreter", "-", "x", "-"]
        );
    }

    #[test]
    fn functions_of_the_program_are_told_from_those_of_java() {
        assert_eq!(own_function("void Queue.push(int)").as_deref(), Some("Queue.push"));
        assert_eq!(
            own_function("int org.x.A.lambda$run$0(long, org.x.B)").as_deref(),
            Some("org.x.A.lambda$run$0")
        );
        for other in
            ["Interpreter", "void java.util.A.b()", "boolean jdk.internal.misc.Unsafe.park(boolean)", "x"]
        {
            assert_eq!(own_function(other), None, "{other}");
        }
        let deed = |functions: &[&str]| deed(functions.iter().copied());
        assert_eq!(deed(&["os::PlatformEvent::park", "ObjectMonitor::enter"]), Some("Java synchronized"));
        assert_eq!(deed(&["Parker::park", "Unsafe_Park"]), Some("Java LockSupport.park"));
        assert_eq!(deed(&["os::PlatformMonitor::wait", "CompileQueue::get"]), None);
    }
}
