//! What a program is, before it is started: whether the recorder can see its synchronisation at all.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ReadRef};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why the recorder will see nothing of a program, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No dynamic loader runs, so nothing can be put before the C library.
    Static,
    /// The loader is musl's, for which the recorder is not built.
    Musl,
    /// For another kind of machine than the recorder.
    Foreign,
    /// Runs with another user's rights: the dynamic loader ignores `LD_PRELOAD`.
    Privileged,
    /// Written in Go: its threads wait in futex system calls of the runtime's own.
    Go,
    /// Written in Rust: the standard library's locks and parking are futex calls of its own, seen as waits and signals.
    RustStd,
}

impl Obstacle {
    /// Whether the recorder does not get into the program.
    pub fn keeps_out(&self) -> bool {
        matches!(self, Self::Static | Self::Musl | Self::Foreign | Self::Privileged)
    }

    /// Whether the recorder must not even be offered: musl's loader ends a program whose preloaded library does not fit.
    pub fn forbids_preload(&self) -> bool {
        matches!(self, Self::Musl)
    }

    /// What to tell the user, with what to do about it.
    pub fn sentence(&self, program: &Path) -> String {
        let name = program.display();
        match self {
            Self::Static => format!(
                "{name} is linked statically: no recorder can be put before its C library; link it dynamically, or look at \
                 its futex system calls alone (as root)"
            ),
            Self::Musl => format!(
                "{name} uses musl's C library, for which the recorder is not built; its futex system calls can be looked at \
                 alone (as root)"
            ),
            Self::Foreign => format!(
                "{name} is for another kind of machine than this recorder, so its own synchronisation is not seen; its \
                 futex system calls can be looked at alone (as root)"
            ),
            Self::Privileged => format!(
                "{name} runs with rights of another user or with capabilities, so the dynamic loader ignores the recorder; \
                 run it as that user"
            ),
            Self::Go => format!(
                "{name} is written in Go: goroutines wait in futex calls of the Go runtime, which the recorder does not see; \
                 what is shown are calls of C libraries"
            ),
            Self::RustStd => format!(
                "{name} is written in Rust: locks, condition variables and parking of its standard library are futex calls of \
                 its own, so each has a row by its futex word, and who had it is inferred or not known"
            ),
        }
    }
}

/// A program that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that will run.
    pub path: PathBuf,
    /// The interpreter where the file is a script: what the recorder sees is its doing.
    pub interpreter: Option<PathBuf>,
    /// What the recorder will not see.
    pub obstacles: Vec<Obstacle>,
}

/// Finds a program as the shell does: by its path if its name holds a slash, else in the directories of `PATH`. None where
/// there is none that may be run.
pub fn find(name: &OsStr, search: Option<&OsStr>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(search?).map(|directory| directory.join(name)).find(runs)
}

/// Looks at a program, through the line `#!` of scripts. A file that cannot be read has no obstacles that are known.
pub fn inspect(path: &Path, search: Option<&OsStr>) -> Program {
    let mut program = Program { path: path.to_owned(), interpreter: None, obstacles: Vec::new() };
    let mut file = path.to_owned();
    // The kernel follows as many scripts of scripts.
    for _ in 0..4 {
        match interpreter_of(&file, search) {
            Some(interpreter) => {
                file.clone_from(&interpreter);
                program.interpreter = Some(interpreter);
            }
            None => break,
        }
    }
    if is_privileged(&file) {
        program.obstacles.push(Obstacle::Privileged);
    }
    program.obstacles.extend(File::open(&file).ok().and_then(|file| of_elf(&file)).unwrap_or_default());
    program
}

/// What runs a script; through `env` and `/bin/sh -c` lines only `env` is followed, since it starts the named program.
fn interpreter_of(path: &Path, search: Option<&OsStr>) -> Option<PathBuf> {
    let mut first = [0; 256];
    let length = File::open(path).and_then(|mut file| file.read(&mut first)).ok()?;
    let line = first[..length].strip_prefix(b"#!")?;
    let line = line.split(|octet| *octet == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let interpreter = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    if interpreter.file_name() == Some(OsStr::new("env")) {
        let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        return find(OsStr::from_bytes(named?), search);
    }
    Some(interpreter)
}

/// Whether the kernel gives it rights that its caller has not, which makes the loader careful.
fn is_privileged(path: &Path) -> bool {
    let Ok(data) = path.metadata() else { return false };
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let set_user = data.mode() & 0o4000 != 0 && data.uid() != user;
    let set_group = data.mode() & 0o2010 == 0o2010 && data.gid() != group;
    let mut value = [0_u8; 1];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut value);
    let has_capabilities = matches!(capabilities, Ok(_) | Err(rustix::io::Errno::RANGE));
    set_user || set_group || (has_capabilities && user != 0)
}

/// What an ELF file tells of itself; none where it is none.
fn of_elf(file: &File) -> Option<Vec<Obstacle>> {
    let cache = object::ReadCache::new(file);
    let data = &cache;
    let mut obstacles = Vec::new();
    match object::FileKind::parse(data).ok()? {
        object::FileKind::Elf64 => {}
        object::FileKind::Elf32 => return Some(vec![Obstacle::Foreign]),
        _ => return None,
    }
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != own_machine() {
        return Some(vec![Obstacle::Foreign]);
    }
    match loader_of(header, endian, data) {
        None => obstacles.push(Obstacle::Static),
        Some(loader) if loader.windows(7).any(|part| part == b"ld-musl") => obstacles.push(Obstacle::Musl),
        Some(_) => {}
    }
    let whole = object::File::parse(data).ok()?;
    if whole.section_by_name(".go.buildinfo").is_some() || whole.section_by_name(".gopclntab").is_some() {
        obstacles.push(Obstacle::Go);
    } else if is_rust(&whole) {
        obstacles.push(Obstacle::RustStd);
    }
    Some(obstacles)
}

/// The path of the dynamic loader, without its last zero byte; none where the file asks for none.
fn loader_of<'data, R: ReadRef<'data>>(
    header: &elf::FileHeader64<Endianness>,
    endian: Endianness,
    data: R,
) -> Option<&'data [u8]> {
    let headers = header.program_headers(endian, data).ok()?;
    headers.iter().find_map(|segment| segment.interpreter(endian, data).ok().flatten())
}

/// The compiler leaves its name in the comment section, which `strip` keeps; where that was removed, panics still name the
/// standard library's source.
fn is_rust<'data>(file: &impl Object<'data>) -> bool {
    let holds = |section: &str, text: &[u8]| {
        let octets = file.section_by_name(section).and_then(|section| section.data().ok());
        octets.is_some_and(|octets| octets.windows(text.len()).any(|part| part == text))
    };
    // Libraries in Rust are linked into programs in C too: the standard library's start-up code makes it a Rust program.
    holds(".comment", b"rustc version") || holds(".rodata", b"library/std/src/rt.rs")
}

const fn own_machine() -> u16 {
    if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
