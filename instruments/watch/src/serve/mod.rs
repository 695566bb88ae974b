//! The watch's HTTP: `/metrics`, `/status` and `/figures`, and over its Unix socket `/trigger`.

mod metrics;
mod outcomes;
mod paths;
mod status;
mod waits;

use crate::board::{Board, Figures};
use anyhow::Context;
use quaver_exposition::{Access, Answer, Answers, Request, exchange, listen_on, scrape};
use quaver_instrument::exit_code::{ExitCode, failure};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The Unix socket's file, removed at the end.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Answers at a Unix socket, which its owner alone may use, until the process ends. A socket that a killed watch left is
/// replaced.
///
/// # Errors
/// Another watch answers there, or the socket cannot be made.
pub(crate) fn listen_here(path: &Path, board: &Arc<Board>) -> anyhow::Result<SocketFile> {
    if UnixStream::connect(path).is_ok() {
        return Err(failure(
            ExitCode::Usage,
            format!("another watch answers at {}: give this one another socket", path.display()),
        ));
    }
    path.parent().map_or(Ok(()), crate::config::make_directory)?;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()) => {
            std::fs::remove_file(path)?
        }
        Ok(_) => {
            return Err(failure(ExitCode::Usage, format!("{} is there and is no socket", path.display())));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("listen at {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen_on(listener, answers(board))?;
    Ok(SocketFile(path.to_owned()))
}

/// Answers what reads at an address to whoever has access, until the process ends.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn listen_at(address: SocketAddr, access: Access, board: &Arc<Board>) -> anyhow::Result<()> {
    quaver_exposition::listen_at(address, access, answers(board)).map(drop)
}

fn answers(board: &Arc<Board>) -> Answers {
    let board = Arc::clone(board);
    Arc::new(move |request| answer(request, &board))
}

/// Answers a request; one that came to an address triggers nothing.
fn answer(request: &Request, board: &Board) -> Answer {
    let receiver = request.query.strip_prefix("receiver=");
    match request.path.as_str() {
        "/metrics" if request.reads() => scrape(request, &metrics::families(&board.read())),
        "/status" if request.reads() => Answer::words("200 OK", status::page(&board.read())),
        "/figures" if request.reads() => match serde_json::to_vec(&board.read()) {
            Ok(figures) => Answer::json(figures),
            Err(error) => Answer::words("500 Internal Server Error", format!("{error}\n")),
        },
        "/trigger" if request.method == "POST" && request.at_address => {
            Answer::words("403 Forbidden", "triggers come over the Unix socket alone\n")
        }
        "/trigger" if request.method == "POST" => match board.ask(receiver) {
            Ok(count) => Answer::words("202 Accepted", format!("receivers asked for an incident: {count}\n")),
            Err(error) => Answer::words("404 Not Found", format!("{error}\n")),
        },
        "/metrics" | "/status" | "/figures" | "/trigger" => Answer::other_method(),
        _ => Answer::words("404 Not Found", "here are /metrics, /status and /figures\n"),
    }
}

/// What a watch says when it ends.
pub(crate) fn last_words(board: &Board) -> String {
    status::page(&board.read())
}

/// What a running watch knows.
///
/// # Errors
/// As [`ask`], and where the answer is not that of a watch of this version.
pub(crate) fn figures(socket: &Path) -> anyhow::Result<Figures> {
    let text = ask(socket, "GET", "/figures")?;
    serde_json::from_str(&text).map_err(|error| {
        let here = socket.display();
        let remedy = "where that watch is of another version of Quaver, restart it with this one";
        failure(ExitCode::Peer, format!("read the figures of the watch at {here}: {error}; {remedy}"))
    })
}

/// Asks a running watch.
///
/// # Errors
/// None answers at the socket, or it refuses.
pub(crate) fn ask(socket: &Path, method: &str, target: &str) -> anyhow::Result<String> {
    let (status, body) = exchange(socket, method, target).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => "become the user who started the watch",
            _ => "start `quaver watch --config FILE`, or name the socket of one that runs by --socket",
        };
        failure(ExitCode::Peer, format!("ask the watch at {}: {error}; {remedy}", socket.display()))
    })?;
    if !status.contains(" 20") {
        return Err(failure(ExitCode::Usage, body.trim_end().to_owned()));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn requests_are_answered_and_triggers_come_over_the_unix_socket_alone() {
        let board = Board::default();
        board.receiver("a", |state| state.watched = true);
        let status = |method: &str, target: &str, at_address| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
            answer(&Request { method, path, query, at_address, ..Request::default() }, &board).status()
        };
        for page in ["/metrics", "/status", "/figures"] {
            assert_eq!((status("GET", page, true), status("HEAD", page, false)), ("200 OK", "200 OK"));
            assert_eq!(status("PUT", page, false), "405 Method Not Allowed");
        }
        assert_eq!(status("POST", "/trigger", false), "202 Accepted");
        assert_eq!(status("POST", "/trigger?receiver=b", false), "404 Not Found");
        assert_eq!(status("POST", "/trigger", true), "403 Forbidden");
        assert_eq!(status("GET", "/trigger", true), "405 Method Not Allowed");
        assert_eq!(status("GET", "/../../etc/passwd", true), "404 Not Found");
    }

    #[test]
    fn figures_of_another_version_are_told_from_a_fault_of_this_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("watch.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1_024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"receivers\":7}").unwrap();
        });
        let error = figures(&path).map(drop).unwrap_err();
        other.join().unwrap();
        assert_eq!(quaver_instrument::exit_code::status_of(&error, &[]), ExitCode::Peer);
        assert!(error.to_string().ends_with("restart it with this one"), "{error}");
    }

    #[test]
    fn a_socket_that_a_killed_watch_left_is_replaced_and_one_in_use_is_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("below/watch.sock");
        let board = Arc::new(Board::default());
        std::fs::create_dir(place.path().join("below")).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let file = listen_here(&path, &board).unwrap();
        assert!(
            listen_here(&path, &board).map(drop).unwrap_err().to_string().contains("another watch answers")
        );
        assert!(ask(&path, "GET", "/status").unwrap().contains("CPU"));
        assert_eq!(figures(&path).unwrap().cost, board.read().cost);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert!(listen_here(&path, &board).map(drop).unwrap_err().to_string().contains("is no socket"));
    }
}
