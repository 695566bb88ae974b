//! What a verb gives up before it reads what others wrote, or has to do with others. `quaver_host::confinement` has the kinds.

use quaver_host::confinement::{
    CAPTURE_WRITER, CONCLUSION, Confined, Files, NOTIFIER, OBSERVER, QUERY, READER, S3_QUERY, SENDER,
};
use std::path::Path;
use std::sync::Once;

/// Where every program finds names of hosts, libraries and facts of the host.
const EVERYBODYS: [&str; 9] =
    ["/proc", "/sys", "/etc", "/usr", "/lib", "/lib64", "/run", "/dev/null", "/dev/urandom"];

/// A reader keeps these files, and nothing else.
pub fn keep(read: &[&Path], write: &[&Path]) {
    // Measuring is over. While memory is locked, a process without CAP_IPC_LOCK can allocate none.
    let _ = rustix::mm::munlockall();
    READER.keep(Some(Files { read, write, ..Files::default() }));
}

/// Who has measured keeps the run, what names the functions and threads of this host, and these files.
pub fn keep_to_conclude(read: &[&Path], run: &Path) {
    let _ = rustix::mm::munlockall();
    let read = [read, &[Path::new("/proc"), Path::new("/sys")]].concat();
    CONCLUSION.keep(Some(Files { read: &read, write: &[run], ..Files::default() }));
}

/// A reader keeps files, of which the verb reads and writes those that it was given.
pub fn keep_files() {
    READER.keep(None);
}

/// Programs are kept too, and the network where it is needed. Programs inherit that.
pub fn keep_programs(network: bool) {
    if network { &S3_QUERY } else { &QUERY }.keep(None);
}

/// The calling thread keeps open sockets and BPF programs. It reads `/proc` and `/sys`, and writes files in `place` alone.
pub fn keep_output(place: Option<&Path>) {
    // Counters of interfaces, which each file tells.
    let read = [Path::new("/proc"), Path::new("/sys")];
    CAPTURE_WRITER.keep(Some(Files { read: &read, write: place.as_slice(), ..Files::default() }));
}

/// Before it sends to others: what it needs for that, and these files.
pub fn keep_to_send(read: &[&Path], write: &[&Path]) {
    let mut read = [read, &EVERYBODYS.map(Path::new)].concat();
    let program = std::env::current_exe().unwrap_or_default();
    read.extend(program.parent());
    // A run in which nothing was measured goes.
    let emptied: Vec<&Path> = write.iter().map(|run| above(run)).collect();
    let terminal = Path::new("/dev/tty");
    let write = [write, &[terminal]].concat();
    say(SENDER.keep(Some(Files { read: &read, write: &write, emptied: &emptied })));
}

/// Before the calling thread tells a server of what happened, or hears what a reflector answers.
pub fn keep_to_notify() {
    say(NOTIFIER.keep(Some(Files { read: &EVERYBODYS.map(Path::new), ..Files::default() })));
}

/// Before it follows packets or a process of others.
pub fn keep_to_observe() {
    say(OBSERVER.keep(None));
}

/// Says once where the kernel holds a process to less than it was meant to.
pub fn say(confined: Confined) {
    static SAID: Once = Once::new();
    if !confined.is_whole() {
        SAID.call_once(|| crate::tell!("quaver: not confined in full: {confined}"));
    }
}

/// The directory that a run or a file lies in.
fn above(place: &Path) -> &Path {
    place.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."))
}

/// The nearest directory above a place, that is there or not, in which it can be made.
pub fn ground_of(place: &Path) -> &Path {
    let above = place.ancestors().find(|above| above.is_dir());
    above.unwrap_or_else(|| Path::new(if place.is_absolute() { "/" } else { "." }))
}

/// The directory where a file appears; a device or a pipe itself, and no place at all for standard output (`-`).
pub fn place_of(target: &Path) -> &Path {
    let is_place = target == Path::new("-") || target.exists() && !target.is_file();
    if is_place { target } else { above(target) }
}
