//! Archives as the kernel unpacks them into its first file system: the `newc` format
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Component, Path};

/// Bytes of a header: the magic and thirteen numbers of eight hexadecimal digits.
const HEADER: usize = 6 + 13 * 8;
/// Names and contents end on a multiple of so many bytes.
const ALIGN: usize = 4;
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const TRAILER: &str = "TRAILER!!!";

/// Writes one archive. Directories are made as they are needed.
#[derive(Debug)]
pub struct Archive<W: Write> {
    out: W,
    entries: u32,
    made: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// An archive into `out`.
    pub fn new(out: W) -> Self {
        Self { out, entries: 0, made: BTreeSet::new() }
    }

    /// Adds a file that anybody may read and run.
    ///
    /// # Errors
    /// Of the writer; [`io::ErrorKind::InvalidInput`] for a path that leads out of the archive, or contents of 4 GiB and more.
    pub fn file(&mut self, path: &str, contents: &[u8]) -> io::Result<()> {
        let name = inside(path)?;
        if let Some((directory, _)) = name.rsplit_once('/') {
            self.directory(directory)?;
        }
        if !self.made.insert(name.clone()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is there already")));
        }
        self.entry(&name, PROGRAM, contents)
    }

    /// Adds a directory, and those that it lies in.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn directory(&mut self, path: &str) -> io::Result<()> {
        let name = inside(path)?;
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for end in ends.collect::<Vec<_>>() {
            if self.made.insert(name[..end].to_owned()) {
                self.entry(&name[..end], DIRECTORY, &[])?;
            }
        }
        Ok(())
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(TRAILER, 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        let size = u32::try_from(contents.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.entries += 1;
        // Inode, mode, owner, group, links, time, size, two device numbers of the file and two that it stands for, length of
        // the name with its end, checksum (none in this format).
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        let mut head = String::with_capacity(HEADER);
        head.push_str("070701");
        fields.iter().for_each(|field| head.push_str(&format!("{field:08x}")));
        self.out.write_all(head.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        let named = HEADER + name.len() + 1;
        self.out.write_all(&[0; ALIGN + 1][..1 + padding(named)])?;
        self.out.write_all(contents)?;
        self.out.write_all(&[0; ALIGN][..padding(contents.len())])
    }
}

fn padding(octets: usize) -> usize {
    octets.next_multiple_of(ALIGN) - octets
}

/// The path as archives have it: without a leading slash, and nothing that leads upwards.
fn inside(path: &str) -> io::Result<String> {
    let refused =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is no path of an archive"));
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(refused)?),
            Component::ParentDir | Component::Prefix(_) => return Err(refused()),
        }
    }
    if parts.is_empty() { Err(refused()) } else { Ok(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive again: name, mode and contents of each entry.
    fn read(mut octets: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !octets.is_empty() {
            let head = std::str::from_utf8(&octets[..HEADER]).unwrap();
            assert_eq!(&head[..6], "070701");
            let field = |n: usize| u32::from_str_radix(&head[6 + n * 8..14 + n * 8], 16).unwrap();
            let (mode, size, named) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(octets[HEADER..HEADER + named - 1].to_vec()).unwrap();
            let begin = (HEADER + named).next_multiple_of(4);
            found.push((name, mode, octets[begin..begin + size].to_vec()));
            octets = &octets[(begin + size).next_multiple_of(4)..];
        }
        found
    }

    #[test]
    fn an_archive_has_directories_before_what_is_in_them_and_ends_with_its_trailer() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/lib/x/one.so", b"12345").unwrap();
        archive.file("/lib/x/two", b"").unwrap();
        archive.directory("/proc").unwrap();
        archive.file("init", b"abcd").unwrap();
        let octets = archive.finish().unwrap();
        assert_eq!(octets.len() % 4, 0);
        let names: Vec<_> =
            read(&octets).into_iter().map(|(name, mode, data)| (name, mode, data.len())).collect();
        let is = |name: &str, mode, size| (name.to_owned(), mode, size);
        let wanted = [
            is("lib", DIRECTORY, 0),
            is("lib/x", DIRECTORY, 0),
            is("lib/x/one.so", PROGRAM, 5),
            is("lib/x/two", PROGRAM, 0),
            is("proc", DIRECTORY, 0),
            is("init", PROGRAM, 4),
            is(TRAILER, 0, 0),
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn the_first_octets_are_those_of_the_format() {
        let mut archive = Archive::new(Vec::new());
        archive.file("a", b"hi").unwrap();
        let octets = archive.finish().unwrap();
        //             magic inode    mode     owner    group    links    time     size     device numbers
        let wanted = "070701\
            00000001000081ed00000000000000000000000100000000000000020000000000000000\
            00000000000000000000000200000000a\0hi\0\0";
        assert_eq!(&octets[..wanted.len()], wanted.as_bytes());
    }

    #[test]
    fn paths_that_lead_out_and_doubles_are_refused() {
        let mut archive = Archive::new(Vec::new());
        for path in ["", "/", "../x", "a/../../x"] {
            assert!(archive.file(path, b"").is_err(), "{path:?}");
        }
        archive.file("a", b"").unwrap();
        assert!(archive.file("/a", b"").is_err());
    }
}
