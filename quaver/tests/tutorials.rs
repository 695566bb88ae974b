//! The tutorials, word for word: every command of a page runs, and what the page shows of its output is there.
//!
//! `QUAVER_BLESS=1` puts today's output into the pages.

use quaver_testbed::privileged::privileged;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Stands between the outputs of two commands, with the status of the one before.
const MARK: &str = "--- status";
/// Stands for output that the page leaves out.
const REST: &str = "…";

/// A part of a page.
#[derive(Debug, PartialEq)]
enum Part {
    /// Words for the reader, as they stand.
    Text(String),
    /// A file that the reader makes.
    File { language: String, name: String, content: String },
    /// Commands, each with the output that the page shows. `shown` is how many lines of each that is at most.
    Console { shown: Option<usize>, commands: Vec<(String, Vec<String>)> },
}

fn parse(page: &str) -> Vec<Part> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            writeln!(text, "{line}").unwrap();
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        parts.push(Part::Text(std::mem::take(&mut text)));
        parts.push(match info.split_once(' ') {
            Some(("console", shown)) => console(&block, Some(shown.parse().expect("lines to show"))),
            None if info == "console" => console(&block, None),
            Some((language, name)) => {
                let content = block.iter().map(|line| format!("{line}\n")).collect();
                Part::File { language: language.to_owned(), name: name.to_owned(), content }
            }
            None => panic!("a block of {info:?} needs the name of its file"),
        });
    }
    parts.push(Part::Text(text));
    parts
}

fn console(block: &[&str], shown: Option<usize>) -> Part {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), Vec::new())),
            None => commands.last_mut().expect("a command before its output").1.push((*line).to_owned()),
        }
    }
    Part::Console { shown, commands }
}

fn page_of(parts: &[Part]) -> String {
    let mut page = String::new();
    for part in parts {
        match part {
            Part::Text(text) => page.push_str(text),
            Part::File { language, name, content } => {
                write!(page, "```{language} {name}\n{content}```\n").unwrap()
            }
            Part::Console { shown, commands } => {
                let shown = shown.map_or(String::new(), |shown| format!(" {shown}"));
                writeln!(page, "```console{shown}").unwrap();
                for (command, output) in commands {
                    writeln!(page, "$ {command}").unwrap();
                    output.iter().for_each(|line| writeln!(page, "{line}").unwrap());
                }
                page.push_str("```\n");
            }
        }
    }
    page
}

/// Ends what the commands left running.
struct Session(std::process::Child);

impl Drop for Session {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        // Nothing may be left of it, which is no failure.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// What the commands wrote to files, for a failure.
fn pages(place: &Path) -> String {
    let files = std::fs::read_dir(place).unwrap().map(|file| file.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|kind| kind == "txt"));
    texts.map(|path| format!("{}:\n{}\n", path.display(), std::fs::read_to_string(&path).unwrap())).collect()
}

/// Runs all commands in one shell, as a reader does; the output of each.
fn run(place: &Path, commands: &[&str]) -> Vec<Vec<String>> {
    let mut script = String::from("exec 2>&1\n");
    for command in commands {
        write!(script, "{command}\nstatus=$?; echo; echo \"{MARK} $status\"\n").unwrap();
    }
    let output = place.join("session.log");
    let file = std::fs::File::create(&output).unwrap();
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_quaver"));
    let path = std::env::join_paths(
        std::iter::once(programs.parent().unwrap().to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script).current_dir(place).env("PATH", path.unwrap()).env_remove("QUAVER_RUNS");
    let shell = shell.stdin(Stdio::null()).stdout(file).process_group(0).spawn().unwrap();
    let mut session = Session(shell);
    session.0.wait().unwrap();
    drop(session);
    let said = std::fs::read_to_string(&output).unwrap();
    let mut outputs = vec![Vec::new()];
    for line in said.lines() {
        match line.strip_prefix(MARK) {
            Some(status) => {
                let number = outputs.len() - 1;
                let (command, said) = (commands[number], outputs[number].join("\n"));
                assert_eq!(status, " 0", "{command}:\n{said}\n{}", pages(place));
                outputs.push(Vec::new());
            }
            None => outputs.last_mut().unwrap().push(line.trim_end().to_owned()),
        }
    }
    assert_eq!(outputs.len(), commands.len() + 1, "{said}");
    outputs
}

/// The words of a heading, without the remark beside it; none of a line that this run alone can have.
fn heading(line: &str) -> Option<&str> {
    let words = line.split("  ").next()?;
    let fixed = line.starts_with(char::is_alphabetic) && !words.contains(|c: char| c.is_ascii_digit());
    (fixed && !words.ends_with(['.', ','])).then_some(words)
}

#[test]
fn headings_are_what_every_run_shows() {
    assert_eq!(heading("Causes of lateness  ranked by share"), Some("Causes of lateness"));
    assert_eq!(heading("  42 packets (1.1 %) were late."), None);
    assert_eq!(heading("quaver chase · chase-20261123T111753Z-7f4a"), None);
    assert_eq!(heading("Report runs/sync-2/report.html"), None);
    let page = "a\n```sh x.sh\necho\n```\n```console 3\n$ ls\nx\n$ pwd\n```\nb\n";
    assert_eq!(page_of(&parse(page)), page);
}

fn works(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorials").join(name);
    let page = std::fs::read_to_string(&file).unwrap();
    let mut parts = parse(&page);
    let place = tempfile::tempdir().unwrap();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../simulator");
    std::os::unix::fs::symlink(tree, place.path().join("simulator")).unwrap();
    let mut commands = Vec::new();
    for part in &parts {
        match part {
            Part::Text(_) => {}
            Part::File { name, content, .. } => std::fs::write(place.path().join(name), content).unwrap(),
            Part::Console { commands: of, .. } => {
                commands.extend(of.iter().map(|(command, _)| command.clone()))
            }
        }
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let mut outputs = run(place.path(), &commands).into_iter();
    let bless = std::env::var_os("QUAVER_BLESS").is_some();
    for part in &mut parts {
        let Part::Console { shown, commands } = part else { continue };
        for (command, output) in commands {
            let mut now = outputs.next().unwrap();
            while now.last().is_some_and(String::is_empty) {
                now.pop();
            }
            for words in output.iter().filter_map(|line| heading(line)) {
                let found = bless || now.iter().any(|line| heading(line) == Some(words));
                assert!(found, "{name}: `{command}` no longer says {words:?}:\n{}", now.join("\n"));
            }
            if bless {
                let most = shown.unwrap_or(usize::MAX);
                if now.len() > most {
                    now.truncate(most);
                    now.push(REST.to_owned());
                }
                *output = now;
            }
        }
    }
    if bless {
        std::fs::write(&file, page_of(&parts)).unwrap();
    }
}

#[test]
fn my_packets_glitch() {
    if privileged("my_packets_glitch") {
        works("packets.md");
    }
}

#[test]
fn my_call_sounds_bad() {
    works("calls.md");
}

#[test]
fn my_thread_wakes_late() {
    if privileged("my_thread_wakes_late") {
        works("wakeups.md");
    }
}

#[test]
fn my_parallel_program_does_not_scale() {
    if privileged("my_parallel_program_does_not_scale") {
        works("programs.md");
    }
}

#[test]
fn my_chip_design() {
    works("chips.md");
}
