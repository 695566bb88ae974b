//! What lay where in a process (`/proc/PID/maps`, proc_pid_maps(5)).

use std::path::PathBuf;

/// A file, whatever it is called: device and inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    device: String,
    inode: u64,
}

/// A stretch of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Where in the file the stretch begins.
    pub offset: u64,
    /// Whether code runs from it.
    pub executable: bool,
    /// The file where others may share the stretch; memory without a name has one of the kernel's own.
    pub shared: Option<FileId>,
    /// The file, or a name in brackets; none for memory without either.
    pub name: Option<String>,
}

impl Mapped {
    /// The file; none for memory without one, or whose file was removed.
    pub fn file(&self) -> Option<PathBuf> {
        let name = self.name.as_deref()?;
        (name.starts_with('/') && !name.ends_with(" (deleted)")).then(|| PathBuf::from(name))
    }
}

/// The memory of a process at one time, in the order of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMap(Vec<Mapped>);

impl MemoryMap {
    /// Reads the text of `/proc/PID/maps`. Lines that make no sense are left out.
    pub fn parse(text: &str) -> Self {
        let mut all: Vec<Mapped> = text.lines().filter_map(line).collect();
        all.sort_by_key(|mapped| mapped.start);
        Self(all)
    }

    /// That of a process that runs; none when it is gone.
    pub fn of_process(pid: u32) -> Option<Self> {
        std::fs::read_to_string(format!("/proc/{pid}/maps")).ok().map(|text| Self::parse(&text))
    }

    /// The stretch that an address lies in.
    pub fn find(&self, address: u64) -> Option<&Mapped> {
        let at = self.0.partition_point(|mapped| mapped.start <= address).checked_sub(1)?;
        self.0.get(at).filter(|mapped| address < mapped.end)
    }

    /// The stretch of memory without a file (the zeroed data) that follows directly on one of `file`'s.
    pub fn follows(&self, mapped: &Mapped) -> Option<&Mapped> {
        let at = self.0.iter().position(|one| one == mapped)?;
        let before = self.0.get(at.checked_sub(1)?)?;
        (before.end == mapped.start).then_some(before)
    }

    /// All stretches.
    pub fn iter(&self) -> impl Iterator<Item = &Mapped> {
        self.0.iter()
    }
}

/// `55d0-55e0 r-xp 00001000 fe:00 1234  /usr/bin/x`
fn line(text: &str) -> Option<Mapped> {
    let mut rest = text;
    let mut word = || {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let (word, after) = trimmed.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    };
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?;
    let offset = word()?;
    let (device, inode) = (word()?.to_owned(), word()?.parse().ok()?);
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let name = rest.trim();
    Some(Mapped {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        executable: rights.contains('x'),
        shared: (rights.ends_with('s') && inode != 0).then_some(FileId { device, inode }),
        name: (!name.is_empty()).then(|| name.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
5600-5700 r--p 00000000 fe:00 77                         /opt/a b/prog
5700-5800 r-xp 00000100 fe:00 77                         /opt/a b/prog
5800-5900 rw-p 00000200 fe:00 77                         /opt/a b/prog
5900-5a00 rw-p 00000000 00:00 0
6000-7000 rw-p 00000000 00:00 0                          [heap]
rubbish
8000-9000 r-xp 00000000 fe:00 79                         /opt/gone.so (deleted)
";

    #[test]
    fn addresses_are_found_in_the_stretch_that_holds_them() {
        let map = MemoryMap::parse(TEXT);
        assert_eq!(map.iter().count(), 6);
        let code = map.find(0x5701).unwrap();
        assert_eq!((code.offset, code.executable), (0x100, true));
        assert_eq!(code.file(), Some(PathBuf::from("/opt/a b/prog")));
        assert_eq!(map.find(0x6fff).unwrap().name.as_deref(), Some("[heap]"));
        assert_eq!(map.find(0x7000), None);
        assert_eq!(map.find(0x10), None);
        assert_eq!(map.find(0x8000).unwrap().file(), None);
        let zeroed = map.find(0x5900).unwrap();
        assert_eq!(map.follows(zeroed).unwrap().start, 0x5800);
        assert_eq!(map.follows(map.find(0x6000).unwrap()), None);
    }

    #[test]
    fn the_own_process_has_a_map() {
        let map = MemoryMap::of_process(std::process::id()).unwrap();
        let here = the_own_process_has_a_map as fn() as usize as u64;
        assert!(map.find(here).unwrap().executable);
        assert_eq!(MemoryMap::of_process(0), None);
    }
}
