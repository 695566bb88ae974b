//! DuckDB's program: where it is, a question to it, and what its end means.

use super::array;
use super::views::Views;
use crate::exit_code::{ExitCode, failure};
use crate::interrupt::Interrupt;
use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Says where it is, if not in `PATH`.
const VARIABLE: &str = "QUAVER_DUCKDB";

/// The program.
///
/// # Errors
/// There is none.
pub(super) fn find() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let message = format!("start {}: no such program; {VARIABLE} names DuckDB's", named.display());
        return if named.is_file() { Ok(named) } else { Err(failure(ExitCode::Unsupported, message)) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|place| place.join("duckdb")).find(|file| file.is_file());
    found.ok_or_else(|| {
        let message = format!(
            "query: DuckDB's program is not in PATH; install it (pip install duckdb-cli, or https://duckdb.org/install), \
             or name it with {VARIABLE}"
        );
        failure(ExitCode::Unsupported, message)
    })
}

/// How rows are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As DuckDB thinks best for a terminal: long answers have their first and last rows.
    Terminal,
    /// Every row, as text.
    Table,
    /// RFC 4180, with a line of names; nothing stands for null.
    Csv,
    /// One document with an array of objects.
    Json,
}

/// Asks it; without `sql` what comes in by standard input, or at a prompt if that is a terminal.
pub(super) fn ask(program: &Path, views: &Views, sql: Option<&str>, form: Form) -> anyhow::Result<ExitCode> {
    let mut file =
        File::from(memfd_create("quaver-query", MemfdFlags::CLOEXEC).context("keeping the views")?);
    file.write_all(views.sql.as_bytes()).context("keeping the views")?;
    let mut command = Command::new(program);
    // By our number: between us and DuckDB there may be a program that closes what it inherits.
    let place = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    command.arg("-no-init").arg("-cmd").arg(format!(".read {place}"));
    let failed = |error: std::io::Error| no_start(program, &error);
    let options: &[&str] = match form {
        Form::Terminal => &[],
        Form::Table => &["-table"],
        Form::Csv => &["-csv", "-nullvalue", ""],
        Form::Json => &["-list", "-noheader"],
    };
    command.args(options);
    match (sql, form) {
        (Some(sql), Form::Json) => command.arg("-c").arg(as_objects(sql)).stdin(Stdio::null()),
        (Some(sql), _) => command.arg("-c").arg(sql).stdin(Stdio::null()),
        (None, Form::Terminal) if std::io::stdin().is_terminal() => {
            let names = views.names.join(", ");
            crate::tell!("views: {names}; DESCRIBE and a name show the columns, .quit ends");
            // In our place, and so with the terminal: the views have to stay open.
            rustix::io::fcntl_setfd(&file, FdFlags::empty()).context("keeping the views")?;
            return Err(failed(command.exec()));
        }
        (None, Form::Json) => {
            let sql = std::io::read_to_string(std::io::stdin()).context("reading standard input")?;
            command.arg("-c").arg(as_objects(&sql)).stdin(Stdio::null())
        }
        (None, _) => command.args(["-bail", "-batch"]),
    };
    let interrupt = Interrupt::catch()?;
    command.stdout(if form == Form::Json { Stdio::piped() } else { Stdio::inherit() });
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
    let (rows, stderr) = (child.stdout.take(), child.stderr.take());
    let shown =
        rows.map(|rows| quaver_waiting::start("quaver-rows", move || array::pass_on(rows))).transpose();
    let told =
        stderr.map(|stderr| quaver_waiting::start("quaver-errors", move || pass_on(stderr))).transpose();
    let (shown, told) = shown.and_then(|shown| Ok((shown, told?))).inspect_err(|_| {
        let _ = child.kill();
        let _ = child.wait();
    })?;
    let status = wait(&mut child, &interrupt)?;
    let class = told.and_then(|told| told.join().ok()).flatten();
    let rows = shown.and_then(|shown| shown.join().ok()).transpose().context("writing to standard output")?;
    if class.as_deref() == Some("Catalog") {
        crate::tell!("these runs have the views {}", views.names.join(", "));
    }
    let interrupted = interrupt.requested().then_some(ExitCode::Interrupted);
    let code = interrupted.unwrap_or_else(|| meaning(status, class.as_deref()));
    if let Some(rows) = rows {
        array::end(rows, code).context("writing to standard output")?;
    }
    Ok(code)
}

/// A question whose answer has an object in each line. DuckDB's own JSON has wide integers in quotes.
pub(super) fn as_objects(sql: &str) -> String {
    let sql = sql.trim_end().trim_end_matches(';');
    format!("SELECT to_json(quaver_row) FROM (\n{sql}\n) AS quaver_row")
}

/// Rows of an answer, each an object. The error is what DuckDB says of it, its first line.
pub(super) fn rows(program: &Path, sql: &str) -> anyhow::Result<Result<Vec<Value>, String>> {
    let options = ["-no-init", "-bail", "-batch", "-list", "-noheader"];
    let mut command = Command::new(program);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| no_start(program, &error))?;
    let (stdin, sql) = (child.stdin.take(), sql.to_owned());
    // What it does not read, it has an error for.
    let writer =
        quaver_waiting::start("quaver-sql", move || stdin.map(|mut it| it.write_all(sql.as_bytes())))?;
    let output = child.wait_with_output().context("waiting for DuckDB")?;
    let _ = writer.join();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Ok(Err(errors.lines().next().unwrap_or("it ended without a word").to_owned()));
    }
    let rows = output.stdout.split(|byte| *byte == b'\n').filter(|row| !row.is_empty());
    let rows: Result<_, _> = rows.map(serde_json::from_slice).collect();
    Ok(Ok(rows.context("reading DuckDB's answer")?))
}

fn no_start(program: &Path, error: &std::io::Error) -> anyhow::Error {
    let message = format!("start {}: {error}; {VARIABLE} names DuckDB's program", program.display());
    failure(ExitCode::Unsupported, message)
}

/// Waits for its end, and passes a request to end on.
fn wait(child: &mut Child, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
    let (mut pause, mut asked) = (Duration::from_millis(1), false);
    loop {
        if let Some(status) = child.try_wait().context("waiting for DuckDB")? {
            return Ok(status);
        }
        if interrupt.requested() && !asked {
            asked = true;
            let _ = kill_process(Pid::from_child(child), Signal::INT);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Passes what it says on to standard error; the class of the first error in it, as `Parser` of `Parser Error: ...`.
fn pass_on(stderr: ChildStderr) -> Option<String> {
    let mut class = None;
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        class = class.or_else(|| class_of(&line).map(str::to_owned));
        crate::tell!("{line}");
    }
    class
}

fn class_of(line: &str) -> Option<&str> {
    let (class, _) = line.split_once(" Error:")?;
    class.split_whitespace().all(|word| word.chars().all(char::is_alphabetic)).then_some(class)
}

/// What its end means for ours.
fn meaning(status: ExitStatus, class: Option<&str>) -> ExitCode {
    match (status.code(), class) {
        (Some(0), _) => ExitCode::Done,
        // Whoever read our output went away, which is no failure.
        (None, _) if status.signal() == Some(Signal::PIPE.as_raw()) => ExitCode::Done,
        // The same as a shell and as Python's package tell it, which start DuckDB for us.
        (Some(141 | 243), None) => ExitCode::Done,
        (_, Some("IO" | "Invalid Input" | "Serialization")) => ExitCode::BadInput,
        (Some(_), Some("Out of Memory")) | (None, _) => ExitCode::Output,
        _ => ExitCode::Usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_duckdb_has_the_status_of_its_class() {
        let failed = ExitStatus::from_raw(1 << 8);
        let ends = |line: &str| meaning(failed, class_of(line));
        assert_eq!(ends("Parser Error: syntax error at or near \"selec\""), ExitCode::Usage);
        assert_eq!(ends("IO Error: No files found"), ExitCode::BadInput);
        assert_eq!(ends("Out of Memory Error: failed to allocate"), ExitCode::Output);
        assert_eq!(class_of("LINE 1: SELECT 'x Error: y'"), None);
        assert_eq!(meaning(ExitStatus::from_raw(9), None), ExitCode::Output);
        for gone in [13, 141 << 8, 243 << 8] {
            assert_eq!(meaning(ExitStatus::from_raw(gone), None), ExitCode::Done);
        }
    }
}
