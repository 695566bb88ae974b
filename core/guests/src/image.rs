//! The first file system of a guest: this program as its first process, what it needs, and what it is to do.

use super::cpio::Archive;
use super::libraries::{SELF, contents, loaded, needed};
use super::store::Kernel;
use super::{GuestError, guest};
use rustix::fs::MemfdFlags;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

/// A file system in memory. It has no name, so that nothing is left of it, however we end.
#[derive(Debug)]
pub struct Image {
    /// The archive.
    pub archive: File,
    /// Words for the kernel's command line that its first process needs.
    pub words: Vec<String>,
}

/// What a guest has beside this program and its driver, each at the path that it has here.
#[derive(Clone, Debug, Default)]
pub struct Supplies {
    /// Modules: by name of the lab's kernel, by path of any other place. They are loaded in this order, before the driver.
    pub modules: Vec<String>,
    /// Programs, which come with their libraries, and other files.
    pub files: Vec<PathBuf>,
}

impl Image {
    /// The file system for `kernel`, with the module of that name and those that it needs, and `request` for
    /// [`guest::request`].
    ///
    /// # Errors
    /// [`GuestError`] where a part is missing or memory is.
    pub fn build(
        kernel: &Kernel,
        module: &str,
        request: &[u8],
        supplies: &Supplies,
    ) -> Result<Self, GuestError> {
        let failed = |source| GuestError::os("make the guest's file system in memory", source);
        let memory =
            rustix::fs::memfd_create("quaver-guest", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let mut archive = Archive::new(BufWriter::new(File::from(memory)));
        let libraries = loaded();
        archive.file("/init", &contents(Path::new(SELF))?).map_err(failed)?;
        let mut files: BTreeSet<PathBuf> = libraries.iter().chain(&supplies.files).cloned().collect();
        for path in &supplies.files {
            files.extend(needed(path)?);
        }
        for path in &files {
            archive.file(&path.to_string_lossy(), &contents(path)?).map_err(failed)?;
        }
        for (place, file) in load_order(kernel, module, supplies)?.iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Numbered, so that the guest needs no list of its own.
            let name = format!("{}/{place:02}-{name}", guest::MODULES);
            archive.file(&name, &contents(file)?).map_err(failed)?;
        }
        for (_, directory, _) in
            guest::MOUNTS.iter().filter(|(_, _, kind)| *kind != "tracefs" && *kind != "bpf")
        {
            archive.directory(directory).map_err(failed)?;
        }
        for directory in guest::WRITTEN {
            archive.directory(directory).map_err(failed)?;
        }
        archive.file(guest::REQUEST, request).map_err(failed)?;
        let mut archive = archive.finish().map_err(failed)?;
        archive.flush().and_then(|()| archive.rewind()).map_err(failed)?;
        let archive = archive.into_inner().map_err(|error| failed(error.into_error()))?;
        Ok(Self { archive, words: words(&libraries) })
    }
}

/// Files of all modules, each once and behind those that it needs, the driver's last.
fn load_order(kernel: &Kernel, driver: &str, supplies: &Supplies) -> Result<Vec<PathBuf>, GuestError> {
    let mut order: Vec<PathBuf> = Vec::new();
    for module in supplies.modules.iter().map(String::as_str).chain([driver]) {
        let files =
            if module.contains('/') { vec![PathBuf::from(module)] } else { kernel.load_order(module)? };
        for file in files {
            if !order.contains(&file) {
                order.push(file);
            }
        }
    }
    Ok(order)
}

/// Where the linker finds the libraries, as a variable of the first process's environment.
fn words(libraries: &[PathBuf]) -> Vec<String> {
    let directories: BTreeSet<_> = libraries.iter().filter_map(|path| path.parent()).collect();
    let path: Vec<_> = directories.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
    if path.is_empty() { Vec::new() } else { vec![format!("LD_LIBRARY_PATH={}", path.join(":"))] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_is_told_every_directory_once() {
        let libraries = ["/lib/a/x.so", "/lib/a/y.so", "/opt/b/z.so"].map(PathBuf::from);
        assert_eq!(words(&libraries), ["LD_LIBRARY_PATH=/lib/a:/opt/b"]);
        assert!(words(&[]).is_empty());
    }

    #[test]
    fn a_module_is_loaded_once_and_the_driver_last() {
        let modules = tempfile::tempdir().unwrap();
        let list = "sch_a.ko.xz:\nigb.ko.xz: dca.ko.xz\nother.ko.xz: dca.ko.xz\n";
        std::fs::write(modules.path().join("modules.dep"), list).unwrap();
        let place = modules.path().to_owned();
        let kernel = Kernel { image: place.join("vmlinuz"), release: "6".to_owned(), modules: place.clone() };
        let wanted = ["other", "sch_a", "./own.ko"].map(str::to_owned).to_vec();
        let order = load_order(&kernel, "igb", &Supplies { modules: wanted, files: Vec::new() }).unwrap();
        let of = |name: &str| place.join(name);
        let expected = [
            of("dca.ko.xz"),
            of("other.ko.xz"),
            of("sch_a.ko.xz"),
            PathBuf::from("./own.ko"),
            of("igb.ko.xz"),
        ];
        assert_eq!(order, expected);
        assert!(load_order(&kernel, "none", &Supplies::default()).is_err());
    }
}
