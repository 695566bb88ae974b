//! The document, made from the rows.

use super::elsewhere::{ELSEWHERE, EXCUSED};
use super::row::{How, Keeps, Row};
use super::rows::TRIED;
use std::collections::BTreeSet;

/// Columns of a line of text.
const COLUMNS: usize = 100;

const HEAD: &str = "# Faults

This page says what each verb does when the system fails it. `quaver/tests/faults` makes the page
and tries each row; the other tests are named. A test fails if a row is wrong, if a named test does
not exist, or if the page is not the one it makes.

`out` is where the command writes, `RUN` a stored chase, `SERVER` an address of `quaver serve`.
Statuses are those of `quaver --help`, and 128 plus the number of a signal. No row ends by a panic.
";

pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for fault in faults() {
        page.push_str(&format!("\n## {}{}\n\n", fault[..1].to_uppercase(), &fault[1..]));
        if let Some(tried) = TRIED.iter().find(|tried| tried.fault == fault) {
            page.push_str(&wrapped(tried.made));
            page.push_str("\n| command | fault | status | says | keeps |\n|---|---|---|---|---|\n");
            page.extend(tried.rows.iter().map(line));
            page.push('\n');
        }
        let tests: Vec<_> = ELSEWHERE.iter().filter(|shown| shown.fault == fault).collect();
        if !tests.is_empty() {
            page.push_str("| verbs | test | file |\n|---|---|---|\n");
            page.extend(tests.iter().map(|of| format!("| {} | `{}` | `{}` |\n", of.verbs, of.test, of.file)));
            page.push('\n');
        }
        for excused in EXCUSED.iter().filter(|excused| excused.fault == fault) {
            page.push_str(&wrapped(&format!("Not met by {}: {}.", list(excused.verbs), excused.why)));
        }
        let left = not_tried(fault);
        // Of more, two sentences: so many words are hard to read in one.
        for some in left.chunks(20) {
            page.push_str(&wrapped(&format!("Not tried: {}.", list(some))));
        }
    }
    page
}

fn line(row: &Row) -> String {
    let words = row.words.replace("{run}", "RUN").replace("{server}", "SERVER");
    let how = match row.how {
        How::Killed(at) => format!("at call {at}"),
        How::Closed(descriptor) => ["stdin", "stdout", "stderr"][descriptor as usize].to_owned(),
        How::Refused(calls, error) => refused(calls, error),
        _ => String::new(),
    };
    let says = if row.says.is_empty() { String::new() } else { format!("\"{}\"", row.says) };
    let keeps = match row.keeps {
        Keeps::Nothing => "",
        Keeps::Run => "the run",
        Keeps::CutShort => "a run cut short",
        Keeps::File => "the file",
    };
    format!("| `{words}` | {how} | {} | {says} | {keeps} |\n", row.status)
}

fn refused(calls: &[i64], error: i32) -> String {
    let what = match calls[0] {
        libc::SYS_socket => "sockets",
        libc::SYS_bpf => "tracing",
        libc::SYS_sched_setaffinity => "scheduling",
        libc::SYS_adjtimex => "clocks",
        libc::SYS_clone => "threads",
        libc::SYS_prlimit64 => "limits",
        libc::SYS_getdents64 => "listing",
        other => panic!("a name for call {other}"),
    };
    let error = [(libc::EACCES, "EACCES"), (libc::EPERM, "EPERM"), (libc::EAGAIN, "EAGAIN")]
        .into_iter()
        .find_map(|(number, name)| (number == error).then_some(name));
    format!("{what}: {}", error.expect("a name for the error"))
}

/// All faults, in the order of the page.
pub(crate) fn faults() -> Vec<&'static str> {
    let mut all: Vec<&str> = Vec::new();
    let names = TRIED.iter().map(|tried| tried.fault).chain(ELSEWHERE.iter().map(|shown| shown.fault));
    for name in names.chain(EXCUSED.iter().map(|excused| excused.fault)) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Verbs of the program that people see.
pub(crate) fn verbs() -> Vec<String> {
    let program = quaver::cli::command();
    let seen = program.get_subcommands().filter(|verb| !verb.is_hide_set());
    seen.map(|verb| verb.get_name().to_owned()).collect()
}

/// Verbs for which a fault is neither tried nor excused.
fn not_tried(fault: &str) -> Vec<String> {
    let mut known = BTreeSet::new();
    for row in TRIED.iter().filter(|tried| tried.fault == fault).flat_map(|tried| tried.rows) {
        known.insert(row.words.split(' ').next().unwrap().to_owned());
    }
    for shown in ELSEWHERE.iter().filter(|shown| shown.fault == fault) {
        if shown.verbs.contains("all") {
            return Vec::new();
        }
        let words = shown.verbs.split(|letter: char| !letter.is_alphabetic());
        known.extend(words.map(str::to_owned));
    }
    for excused in EXCUSED.iter().filter(|excused| excused.fault == fault) {
        known.extend(excused.verbs.iter().map(|verb| (*verb).to_owned()));
    }
    verbs().into_iter().filter(|verb| !known.contains(verb)).collect()
}

fn list(verbs: &[impl AsRef<str>]) -> String {
    verbs.iter().map(|verb| format!("`{}`", verb.as_ref())).collect::<Vec<_>>().join(", ")
}

/// A paragraph.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > COLUMNS {
            lines.push_str(&std::mem::take(&mut line));
            lines.push('\n');
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}
