//! A terminal that is closed ends every verb, which keeps what it measured.

use quaver_testbed::privileged::privileged;
use quaver_testbed::terminal;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longer than any verb needs to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn quaver(words: &str, place: &Path) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(env!("CARGO_BIN_EXE_quaver")).args(words.split(' ')).current_dir(place);
    command.env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE");
    command
}

/// Runs a verb on a terminal of its own, and closes that some time after it has begun.
fn hung_up(words: &str, place: &Path) -> ExitStatus {
    let (person, program) = terminal::open().unwrap();
    let end = || Stdio::from(program.try_clone().unwrap());
    let mut child = quaver(words, place).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop(program);
    let (before, asked) = (begun(place), Instant::now());
    // A server leaves no trace of itself.
    while !words.starts_with("serve") && begun(place) == before {
        assert!(child.try_wait().unwrap().is_none(), "quaver {words} ended of itself");
        assert!(asked.elapsed() < PATIENCE, "quaver {words} does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(2));
    drop(person);
    ended(words, &mut child)
}

/// Runs and captures that have begun. Of a noise run the manifest says when its loops do; of others the directory is made right
/// before they measure.
fn begun(place: &Path) -> usize {
    let runs = std::fs::read_dir(place.join("runs")).into_iter().flatten().flatten().map(|run| run.path());
    let loops = |run: &Path| {
        std::fs::read_to_string(run.join("manifest.json")).is_ok_and(|text| text.contains("start_ns"))
    };
    let is_noise =
        |run: &Path| run.file_name().is_some_and(|name| name.to_string_lossy().starts_with("noise-"));
    runs.filter(|run| !is_noise(run) || loops(run)).count() + usize::from(place.join("lo.pcapng").exists())
}

fn ended(words: &str, child: &mut Child) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > until {
            let threads = threads(child.id());
            child.kill().unwrap();
            panic!("quaver {words} outlives its terminal: {threads}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What each thread of a process is at, for who has to find out why it does not end.
fn threads(process: u32) -> String {
    let list = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |task: &Path, file: &str| {
        std::fs::read_to_string(task.join(file)).unwrap_or_default().trim().to_owned()
    };
    let told = list.map(|task| task.path()).map(|task| {
        let status = of(&task, "status");
        let wanted = ["State", "SigPnd", "ShdPnd", "SigBlk"];
        let status: Vec<&str> =
            status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name))).collect();
        format!(
            "\n{} in {} {}: {}",
            of(&task, "comm"),
            of(&task, "wchan"),
            of(&task, "syscall"),
            status.join(", ")
        )
    });
    told.collect()
}

/// Ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_closed_terminal_ends_what_runs_on_it() {
    if !privileged("a_closed_terminal_ends_what_runs_on_it") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_quaver"));
    server.args(["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]).stdin(Stdio::null());
    let mut server = Server(server.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    let heard = server.0.stderr.as_mut().unwrap();
    while !said.contains("listening") || !said.ends_with('\n') {
        let mut letter = [0];
        heard.read_exact(&mut letter).unwrap();
        said.push(char::from(letter[0]));
    }
    let port: String =
        said.split("127.0.0.1:").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let probe = format!("probe 127.0.0.1 --port {port} --for 600s");
    let runs = [
        &*format!("{probe} --live"),
        &probe,
        "chase --for 600s --no-cost",
        "noise --for 600s",
        "sync sleep 600",
        "capture -i lo -o lo.pcapng",
        "serve --bind 127.0.0.1 --port 0 --test-port 0",
        "study run --blocks 20",
    ];
    for words in runs {
        let status = hung_up(words, place.path());
        // Of a program it is its own (128 and the signal); else what was measured is kept and could not be shown, or
        // there was nothing to show.
        let expected: &[i32] = if words.starts_with("sync") { &[129] } else { &[0, 6, 130] };
        assert!(status.code().is_some_and(|code| expected.contains(&code)), "{words}: {status}");
    }
    let kept = |verb: &str| {
        let runs = std::fs::read_dir(place.path().join("runs")).unwrap();
        let of = runs.filter(|run| run.as_ref().unwrap().file_name().to_string_lossy().starts_with(verb));
        of.filter(|run| run.as_ref().unwrap().path().join("summary.json").exists()).count()
    };
    // A chase may still have been making its place ready, so that there was nothing to keep.
    assert_eq!([kept("probe-"), kept("noise-"), kept("sync-")], [2, 1, 1]);
    assert!(place.path().join("lo.pcapng").metadata().unwrap().len() > 0);
}
