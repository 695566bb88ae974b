//! What a program's addresses are called: functions and variables of the files that were mapped.

use super::demangling::demangled;
use super::maps::{Mapped, MemoryMap};
use super::source::{Line, Lines};
use super::spins;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind, elf};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Most symbols of one file that are kept; more would be a generated giant, whose first are named all the same.
const MOST_SYMBOLS: usize = 4_000_000;

/// Files without a function of a program's own: the beginnings of their names.
const OF_RUNTIMES: [&str; 7] =
    ["libc.so", "libc-", "libpthread", "ld-", "libstdc++", "libc++", "libquaver_preload"];
/// Functions that compilers put into a program from their libraries: the beginnings of their names.
const OF_LIBRARIES: [&str; 6] = ["std::", "core::", "alloc::", "__gnu_cxx::", "__gthread_", "__pthread_"];

/// A function or a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

/// One file's symbols, with what turns an offset in the file into the addresses that the symbols are given in.
#[derive(Debug, Default)]
struct Image {
    symbols: Vec<Symbol>,
    /// Offset in the file, bytes in memory, address.
    loaded: Vec<(u64, u64, u64)>,
}

/// Names addresses of one process, files being read when they are needed first.
#[derive(Debug)]
pub struct Symbolizer {
    map: MemoryMap,
    images: BTreeMap<PathBuf, Option<Image>>,
    lines: Lines,
}

impl Symbolizer {
    /// For a process that had this memory.
    pub fn new(map: MemoryMap) -> Self {
        Self { map, images: BTreeMap::new(), lines: Lines::default() }
    }

    /// What lies at an address: `queue.lock`, `queue+0x28`, `main+0x1f (prog)`, `[heap]+0x2a0`, `prog+0x4010`. None where the
    /// address lies in nothing that was mapped.
    pub fn name(&mut self, address: u64) -> Option<String> {
        let mapped = self.map.find(address)?.clone();
        let Some((file, offset)) =
            self.place_in_file(&mapped, address).filter(|place| self.is_loaded(&mapped, place))
        else {
            let from = address - mapped.start;
            return Some(match mapped.name.as_deref() {
                Some(name) => format!("{name}+{from:#x}"),
                // Large allocations and the stacks of threads have mappings without a name.
                None => format!("anonymous memory+{from:#x}"),
            });
        };
        let short = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let named = self.image(&file).and_then(|image| image.name(offset));
        Some(named.unwrap_or_else(|| format!("{short}+{offset:#x}")))
    }

    /// Name of the file that an address lies in, without its directory.
    pub fn file(&self, address: u64) -> Option<String> {
        let file = self.map.find(address)?.file()?;
        Some(file.file_name()?.to_string_lossy().into_owned())
    }

    /// Whether an address is in a symbol of a file: what has no such name is called after the memory that it lies in.
    pub fn is_named(&mut self, address: u64) -> bool {
        let Some(mapped) = self.map.find(address).cloned() else { return false };
        let place = self.place_in_file(&mapped, address).filter(|place| self.is_loaded(&mapped, place));
        let image = place.and_then(|(file, offset)| Some((self.image(&file)?, offset)));
        image.is_some_and(|(image, offset)| image.name(offset).is_some())
    }

    /// The line of the source that a call returns to, with its function: `push (queue.c:12)`. None without debug information.
    pub fn line(&mut self, return_address: u64) -> Option<Line> {
        let (file, address) = self.place_of_call(return_address)?;
        self.lines.of(&file, address)
    }

    /// Functions of libraries that a call returns into, the innermost first, until one of the program's own.
    pub fn of_libraries(&mut self, return_address: u64) -> Vec<String> {
        let place = self.place_of_call(return_address);
        match place.and_then(|(file, address)| self.lines.of_libraries(&file, address)) {
            Some(functions) => functions,
            None if self.is_own(return_address) => Vec::new(),
            None => self.name(return_address.saturating_sub(1)).into_iter().collect(),
        }
    }

    fn place_of_call(&mut self, return_address: u64) -> Option<(PathBuf, u64)> {
        let address = return_address.checked_sub(1)?;
        let mapped = self.map.find(address)?;
        let (file, offset) = (mapped.file()?, mapped.offset + (address - mapped.start));
        let address = self.image(&file)?.address(offset)?;
        Some((file, address))
    }

    /// Whether the function that a call returns into is the program's own, and not one of what comes with compilers and with us.
    pub fn is_own(&mut self, return_address: u64) -> bool {
        let Some(address) = return_address.checked_sub(1) else { return false };
        if self.file(address).is_some_and(|file| OF_RUNTIMES.iter().any(|one| file.starts_with(one))) {
            return false;
        }
        match self.line(return_address) {
            Some(line) => line.is_own,
            None => !self
                .name(address)
                .is_some_and(|name| OF_LIBRARIES.iter().any(|library| name.starts_with(library))),
        }
    }

    /// Whether code at an address waits for others in a loop without sleeping. False where its file cannot be read.
    pub fn spins(&self, address: u64) -> bool {
        let place = self
            .map
            .find(address)
            .filter(|mapped| mapped.executable)
            .and_then(|mapped| Some((mapped.file()?, mapped.offset + (address - mapped.start))));
        let Some((file, offset)) = place else { return false };
        let from = offset.saturating_sub(spins::AROUND as u64);
        let mut code = vec![0; (offset - from) as usize + spins::AROUND];
        let read = File::open(file).and_then(|file| file.read_at(&mut code, from)).unwrap_or(0);
        spins::is_in_spin(&code[..read], (offset - from) as usize)
    }

    fn image(&mut self, file: &Path) -> Option<&Image> {
        self.images.entry(file.to_owned()).or_insert_with(|| read_image(file)).as_ref()
    }

    /// The function that a call returns into: the name of the byte before the return address, since a call may be the
    /// last thing that a function does.
    pub fn caller(&mut self, return_address: u64) -> Option<String> {
        let file = self.file(return_address.checked_sub(1)?);
        let name = self.name(return_address - 1)?;
        // Offsets are those of the byte before; the return address is one further.
        let name = match name.rsplit_once("+0x") {
            Some((stem, offset)) => match u64::from_str_radix(offset, 16) {
                Ok(offset) => format!("{stem}+{:#x}", offset + 1),
                Err(_) => name,
            },
            None => format!("{name}+0x1"),
        };
        Some(match file {
            Some(file) if !name.starts_with(&file) => format!("{name} ({file})"),
            _ => name,
        })
    }

    /// Whether a place is in memory that its file asks for. What follows a library without a gap may be anybody's.
    fn is_loaded(&mut self, mapped: &Mapped, (file, offset): &(PathBuf, u64)) -> bool {
        if mapped.file().is_some() {
            return true;
        }
        self.image(file).is_some_and(|image| image.reaches(*offset))
    }

    /// File and offset in it; zeroed data lies behind what the file holds.
    fn place_in_file(&self, mapped: &Mapped, address: u64) -> Option<(PathBuf, u64)> {
        if let Some(file) = mapped.file() {
            return Some((file, mapped.offset + (address - mapped.start)));
        }
        if mapped.name.is_some() {
            return None;
        }
        let before = self.map.follows(mapped)?;
        let offset = before.offset + (address - before.start);
        before.file().map(|file| (file, offset))
    }
}

impl Image {
    /// Whether the last segment that begins before an offset reaches there, in whole pages.
    fn reaches(&self, offset: u64) -> bool {
        let holds = self.loaded.iter().rev().find(|(from, ..)| *from <= offset);
        holds.is_some_and(|(from, bytes, _)| offset - from < bytes.next_multiple_of(4096))
    }

    /// Where an offset of the file is, in the addresses that the symbols are given in.
    fn address(&self, offset: u64) -> Option<u64> {
        // Zeroed data is mapped behind the last bytes of its segment, so that segment begins last before it.
        let holds = self.loaded.iter().rev().find(|(from, ..)| *from <= offset);
        holds.map(|(from, _, address)| address + (offset - from))
    }

    /// The name of what lies at an offset of the file, as it was mapped.
    fn name(&self, offset: u64) -> Option<String> {
        let address = self.address(offset)?;
        let at = self.symbols.partition_point(|symbol| symbol.address <= address).checked_sub(1)?;
        let symbol = &self.symbols[at];
        let within = address - symbol.address;
        if symbol.size != 0 && within >= symbol.size || symbol.size == 0 && is_mark(&symbol.name) {
            return None;
        }
        let name = demangled(&symbol.name);
        Some(if within == 0 { name } else { format!("{name}+{within:#x}") })
    }
}

/// Whether a linker put the symbol there to mark an end: what lies behind it is not its own.
fn is_mark(name: &str) -> bool {
    matches!(
        name,
        "_end"
            | "end"
            | "_edata"
            | "edata"
            | "__bss_start"
            | "_etext"
            | "etext"
            | "__data_start"
            | "data_start"
    )
}

fn read_image(path: &Path) -> Option<Image> {
    let file = File::open(path).ok()?;
    let data = object::ReadCache::new(&file);
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let mut loaded: Vec<(u64, u64, u64)> = header
        .program_headers(endian, &data)
        .ok()?
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        // The kernel maps whole pages, so a segment begins with its page.
        .map(|segment| {
            let into = segment.p_offset(endian) % 4096;
            let address = segment.p_vaddr(endian).saturating_sub(into);
            (segment.p_offset(endian) - into, segment.p_memsz(endian) + into, address)
        })
        .collect();
    loaded.sort_unstable();
    let whole = object::File::parse(&data).ok()?;
    let mut symbols: Vec<Symbol> = whole
        .symbols()
        .chain(whole.dynamic_symbols())
        .filter(|symbol| symbol.is_definition())
        .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data | SymbolKind::Unknown))
        .take(MOST_SYMBOLS)
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some(Symbol { address: symbol.address(), size: symbol.size(), name: name.to_owned() })
        })
        .collect();
    // Of several at one address the one with a size, then the shortest name: the others are aliases and markers.
    symbols.sort_by(|a, b| {
        (a.address, a.size == 0, a.name.len(), &a.name).cmp(&(b.address, b.size == 0, b.name.len(), &b.name))
    });
    symbols.dedup_by_key(|symbol| symbol.address);
    Some(Image { symbols, loaded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Addresses that a program prints of itself, with the memory that it had.
    fn program(place: &Path) -> (MemoryMap, Vec<u64>) {
        let source = place.join("named.c");
        let text = r#"
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
pthread_mutex_t set_lock = PTHREAD_MUTEX_INITIALIZER;
struct { int before[10]; pthread_mutex_t lock; } zeroed_queue;
static char padding[70000];
static pthread_cond_t late_condition;
void worker(void) { padding[1] = 1; }
int main(void) {
	FILE *maps = fopen("/proc/self/maps", "r");
	int octet;
	printf("%lx\n%lx\n%lx\n%lx\n%lx\n--\n", (long)&set_lock, (long)&zeroed_queue.lock, (long)&late_condition,
	       (long)worker + 4, (long)malloc(100));
	while ((octet = fgetc(maps)) != EOF)
		putchar(octet);
	return 0;
}
"#;
        std::fs::write(&source, text).unwrap();
        let target = place.join("named");
        assert!(Command::new("cc").arg("-o").arg(&target).arg(&source).status().unwrap().success());
        let said = String::from_utf8(Command::new(&target).output().unwrap().stdout).unwrap();
        let (addresses, maps) = said.split_once("--\n").unwrap();
        let addresses = addresses.lines().map(|line| u64::from_str_radix(line, 16).unwrap()).collect();
        (MemoryMap::parse(maps), addresses)
    }

    #[test]
    fn zeroed_data_ends_with_the_last_page_that_its_file_asks_for() {
        let loaded = vec![(0, 0x1000, 0), (0x1000, 0x2345, 0x5000)];
        let image = Image { symbols: Vec::new(), loaded };
        assert!(image.reaches(0xfff) && image.reaches(0x3fff));
        assert!(!image.reaches(0x4000), "that is another's memory");
        assert!(!Image::default().reaches(0));
    }

    #[test]
    fn locks_and_functions_of_a_program_have_their_names() {
        let place = tempfile::tempdir().unwrap();
        let (map, addresses) = program(place.path());
        let mut symbols = Symbolizer::new(map);
        let mut name = |at: usize| symbols.name(addresses[at]).unwrap();
        assert_eq!(name(0), "set_lock");
        assert_eq!(name(1), "zeroed_queue+0x28");
        assert_eq!(name(2), "late_condition");
        assert_eq!(name(3), "worker+0x4");
        assert!(name(4).starts_with("[heap]+0x"), "{}", name(4));
        assert_eq!(symbols.caller(addresses[3] + 1).unwrap(), "worker+0x5 (named)");
        assert_eq!(symbols.name(8), None);
    }
}
