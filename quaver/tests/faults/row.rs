//! A row of the document: a command, the fault around it, and all that is said of its end. Trying it is judging the row.

use quaver_testbed::ports::free_port;
use quaver_testbed::refusal::{self, Answer, Call};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");

/// A command under a fault.
pub(crate) struct Row {
    /// `{run}` is a stored chase of its own, `{server}` a server's address; what it makes belongs into `out`.
    pub(crate) words: &'static str,
    pub(crate) how: How,
    /// Exit status, 128 and the signal's number where one ended it.
    pub(crate) status: i32,
    /// A part of what it says on standard error.
    pub(crate) says: &'static str,
    pub(crate) keeps: Keeps,
}

/// How the fault is made.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Of what writes below the command's place, the call of this number and all later ones find no space.
    Full(usize),
    /// What writes below the command's place is refused: the file system is read-only.
    ReadOnly,
    /// SIGKILL at the call of this number of those that write below the command's place.
    Killed(usize),
    /// These system calls end with this error.
    Refused(&'static [i64], i32),
    /// A limit of the process.
    Limit(Resource, u64),
    /// Standard input, output or error is closed.
    Closed(i32),
    /// The environment is these variables and `PATH`.
    Environment(&'static [(&'static str, &'static str)]),
}

/// What is there afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// No run, and the run that was read is as before.
    Nothing,
    /// A run that is complete and can be analysed.
    Run,
    /// A run's directory that says it was cut short. `quaver analyze` shows it, or says what it lacks.
    CutShort,
    /// The file `out`.
    File,
}

/// Calls that write, make, replace or remove.
const WRITES: [i64; 16] = [
    libc::SYS_openat,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_copy_file_range,
    libc::SYS_mkdirat,
    libc::SYS_mkdir,
    libc::SYS_renameat2,
    libc::SYS_renameat,
    libc::SYS_rename,
    libc::SYS_unlinkat,
    libc::SYS_unlink,
];

/// Of those, the ones that need space or a new name.
fn needs_space(number: i64) -> bool {
    ![libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_unlink, libc::SYS_unlinkat].contains(&number)
}

/// Whether a call changes something below a place: the command's working directory.
fn writes_below(place: &Path, call: &Call) -> bool {
    let named = |argument: usize| {
        call.text(argument).is_some_and(|text| !text.starts_with('/') || Path::new(&text).starts_with(place))
    };
    let here = call.arguments[0] as i32 == libc::AT_FDCWD;
    match call.number {
        libc::SYS_openat => {
            let flags = call.arguments[2] as i32;
            flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT) != 0 && here && named(1)
        }
        libc::SYS_mkdirat | libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_unlinkat => here && named(1),
        libc::SYS_mkdir | libc::SYS_rename | libc::SYS_unlink => named(0),
        _ => call.file().is_some_and(|file| file.starts_with(place)),
    }
}

/// What came of it.
pub(crate) struct Tried {
    pub(crate) status: i32,
    pub(crate) said: String,
    pub(crate) place: tempfile::TempDir,
    /// Calls that a judge counted.
    pub(crate) calls: usize,
}

impl Tried {
    /// Whether the run that the command had is as before. Its report bears the path by which it was named last.
    pub(crate) fn spares(&self, ground: &Ground) -> bool {
        let known = |run: &Path| {
            let mut files = files(run);
            let report = files.remove(Path::new("report.html")).unwrap_or_default();
            (files, report.trim_ascii_end().ends_with(b"</html>"))
        };
        known(&self.place.path().join(ground.name())) == known(&ground.run())
    }
}

/// Runs a command of `quaver` in a place of its own under a fault.
pub(crate) fn try_it(ground: &Ground, words: &str, how: How) -> Tried {
    let place = tempfile::tempdir().unwrap();
    if words.contains("{run}") {
        copy(&ground.run(), &place.path().join(ground.name()));
    }
    let server = words.contains("{server}").then(Server::start);
    let address = server.as_ref().map_or("", |server| &server.words);
    let words = words.replace("{run}", &ground.name()).replace("{server}", address);
    let mut command = Command::new(QUAVER);
    command.args(words.split_whitespace()).current_dir(place.path()).env_remove("QUAVER_RUNS");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (status, said) = match how {
        How::Full(_) | How::ReadOnly | How::Killed(_) => {
            let (here, count) = (place.path().to_owned(), counted.clone());
            let judge = move |call: &Call| {
                if !writes_below(&here, call) {
                    return Answer::GoOn;
                }
                let number = 1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                match how {
                    How::Full(from) if number >= from && needs_space(call.number) => {
                        Answer::Fail(libc::ENOSPC)
                    }
                    How::ReadOnly => Answer::Fail(libc::EROFS),
                    How::Killed(at) if number == at => Answer::Kill,
                    _ => Answer::GoOn,
                }
            };
            ended(refusal::start(&mut command, &WRITES, judge).unwrap().output().unwrap())
        }
        How::Refused(calls, error) => {
            let judged = refusal::start(&mut command, calls, move |_| Answer::Fail(error)).unwrap();
            ended(judged.output().unwrap())
        }
        _ => {
            surround(&mut command, how);
            ended(command.output().unwrap())
        }
    };
    let calls = counted.load(std::sync::atomic::Ordering::Relaxed);
    Tried { status, said, place, calls }
}

fn surround(command: &mut Command, how: How) {
    match how {
        How::Limit(resource, most) => {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            // SAFETY: between fork and exec it makes one system call, with memory that was made before.
            unsafe { command.pre_exec(move || Ok(setrlimit(resource, limit)?)) };
        }
        How::Closed(descriptor) => {
            // SAFETY: as above. The child has the descriptor from its parent, and nobody else uses it there.
            unsafe {
                command.pre_exec(move || {
                    libc::close(descriptor);
                    Ok(())
                })
            };
        }
        How::Environment(variables) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            command.env_clear().env("PATH", path).envs(variables.iter().copied());
        }
        _ => unreachable!("a judge makes those"),
    }
}

fn ended(output: std::process::Output) -> (i32, String) {
    (status(output.status), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn status(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap()
}

impl Row {
    /// Tries it; what is not as the row says.
    pub(crate) fn judge(&self, ground: &Ground) -> Option<String> {
        let tried = try_it(ground, self.words, self.how);
        let wrong = |what: &str| {
            Some(format!("{}: {what}: status {}, said:\n{}", self.words, tried.status, tried.said))
        };
        if tried.said.contains("panicked") {
            return wrong("a panic");
        }
        if tried.status != self.status {
            return wrong(&format!("status {} was expected", self.status));
        }
        if !tried.said.contains(self.says) {
            return wrong(&format!("{:?} was expected", self.says));
        }
        self.keeps.judge(ground, &tried).and_then(|what| wrong(&what))
    }
}

impl Keeps {
    /// What is not as it says.
    fn judge(self, ground: &Ground, tried: &Tried) -> Option<String> {
        let out = tried.place.path().join("out");
        let runs: Vec<PathBuf> = match out.is_dir() {
            true => std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => Vec::new(),
        };
        if tried.place.path().join(ground.name()).exists() && !tried.spares(ground) {
            return Some("the run that was read is not as before".to_owned());
        }
        match (self, &runs[..]) {
            // The directory for runs may be there, empty.
            (Self::Nothing, []) => out.is_file().then(|| "there is a file".to_owned()),
            (Self::File, _) => (!out.is_file()).then(|| "there is no file".to_owned()),
            (Self::Run | Self::CutShort, [run]) => {
                let analysed = Command::new(QUAVER).arg("analyze").arg(run).output().unwrap();
                let (status, said) = ended(analysed);
                let manifest = std::fs::read(run.join("manifest.json")).unwrap_or_default();
                let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
                let complete = manifest["complete"].as_bool().unwrap_or(false);
                let good = match self {
                    Self::Run => complete && status == 0,
                    _ => !complete && [0, 4, 5].contains(&status) && !said.contains("panicked"),
                };
                (!good).then(|| format!("the run is complete: {complete}; analysed: {status}: {said}"))
            }
            (_, left) => Some(format!("left in out: {left:?}")),
        }
    }
}

/// Files of a directory with their contents.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into(), std::fs::read(entry.path()).unwrap())).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for (name, octets) in files(from) {
        std::fs::write(to.join(name), octets).unwrap();
    }
}

/// A stored chase, which commands get a copy of.
pub(crate) struct Ground {
    runs: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn make() -> Self {
        let runs = tempfile::tempdir().unwrap();
        let words = "chase --for 100ms --period 1ms --pace sleep --receive block --lab loopback --tier user --no-cost -q -o";
        let made = Command::new(QUAVER).args(words.split(' ')).arg(runs.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { runs }
    }

    /// The run's name, which its report bears.
    pub(crate) fn name(&self) -> String {
        self.run().file_name().unwrap().to_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self) -> PathBuf {
        std::fs::read_dir(self.runs.path()).unwrap().next().unwrap().unwrap().path()
    }
}

/// A server that ends with its test.
pub(crate) struct Server {
    serving: Child,
    words: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        let port = free_port().to_string();
        let mut server = Command::new(QUAVER);
        server.args(["serve", "--bind", "127.0.0.1", "--test-port", "0", "--port", &port]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = Self { serving: server.spawn().unwrap(), words: format!("127.0.0.1 --port {port}") };
        let mut said = String::new();
        let heard = server.serving.stderr.as_mut().unwrap();
        while !said.contains("listening") {
            let mut octet = [0];
            heard.read_exact(&mut octet).unwrap();
            said.push(char::from(octet[0]));
        }
        server
    }
}

impl Server {
    pub(crate) fn process(&self) -> u32 {
        self.serving.id()
    }

    /// Words by which `quaver probe` finds it.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.serving.kill();
        let _ = self.serving.wait();
    }
}
