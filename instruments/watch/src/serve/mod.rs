//! The watch's HTTP: `/metrics`, `/status` and `/figures`, and over its Unix socket `/trigger`. One short request a connection.

mod access;
mod families;
mod metrics;
mod openmetrics;
mod paths;
mod protobuf;
mod status;
mod waits;

use crate::board::{Board, Figures};
pub(crate) use access::Access;
use anyhow::Context;
use protobuf::PROTOBUF;
use quaver_host::confinement::{ANSWERS, Files};
use quaver_instrument::exit_code::{ExitCode, failure};
use rustls::{ServerConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request and its answer together may take so long ...
const PATIENCE: Duration = Duration::from_secs(4);
/// ... and have so many bytes.
const MOST_REQUEST: u64 = 8_192;
const JSON: &str = "application/json";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A socket with limits on the time of its calls.
trait Limited: Read + Write {
    fn limit(&self, time: Duration) -> std::io::Result<()>;
}

impl Limited for TcpStream {
    fn limit(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Limited for UnixStream {
    fn limit(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// A connection whose calls have all ended at an instant.
struct Timed<S> {
    stream: S,
    until: Instant,
}

impl<S: Limited> Timed<S> {
    fn new(stream: S) -> Self {
        Self { stream, until: Instant::now() + PATIENCE }
    }

    fn limit(&self) -> std::io::Result<()> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(std::io::ErrorKind::TimedOut.into()),
            left => self.stream.limit(left),
        }
    }
}

impl<S: Limited> Read for Timed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.limit()?;
        self.stream.read(buffer)
    }
}

impl<S: Limited> Write for Timed<S> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.limit()?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

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
    let board = Arc::clone(board);
    spawn(move || {
        for stream in listener.incoming() {
            on_connection(stream, |stream| answer(stream, &board, None));
        }
    })?;
    Ok(SocketFile(path.to_owned()))
}

/// Answers `GET /metrics` and `GET /status` at an address to whoever has access, until the process ends.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn listen_at(address: SocketAddr, access: Access, board: &Arc<Board>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let remedy =
            "give `metrics` an address of this host with a port that no other program has (ss -ltnp)";
        failure(ExitCode::Output, format!("listen at {address}: {error} ({remedy})"))
    })?;
    let board = Arc::clone(board);
    spawn(move || {
        for stream in listener.incoming() {
            on_connection(stream, |stream| match &access.tls {
                None => answer(stream, &board, Some(&access)),
                Some(tls) => {
                    let connection = ServerConnection::new(Arc::clone(tls)).map_err(std::io::Error::other)?;
                    let mut stream = StreamOwned::new(connection, stream);
                    answer(&mut stream, &board, Some(&access))?;
                    stream.conn.send_close_notify();
                    stream.flush()
                }
            });
        }
    })
}

/// Starts a thread that has its listener and nothing else: no files, no further sockets, no capabilities.
fn spawn(body: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let confined = move || {
        ANSWERS.keep(Some(Files::default()));
        body();
    };
    quaver_waiting::start("watch-http", confined)?;
    Ok(())
}

fn on_connection<S: Limited>(
    stream: std::io::Result<S>,
    body: impl FnOnce(&mut Timed<S>) -> std::io::Result<()>,
) {
    // A peer that goes, or says nothing, is its own business. Out of descriptors, we must not spin.
    match stream {
        Ok(stream) => drop(body(&mut Timed::new(stream))),
        Err(_) => std::thread::sleep(Duration::from_millis(50)),
    }
}

/// Answers a request; one that came to an address has to be admitted there, and triggers nothing.
fn answer(stream: &mut (impl Read + Write), board: &Board, access: Option<&Access>) -> std::io::Result<()> {
    let Some(head) = read_request(stream)? else { return Ok(()) };
    let line = head.lines().next().unwrap_or("");
    let headers = |name: &'static str| {
        let all = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        all.filter(move |header| header.0.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let admitted = access.is_none_or(|access| access.admits(headers("authorization").next()));
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let receiver = query.strip_prefix("receiver=");
    let text = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        _ if !admitted => {
            ("401 Unauthorized\r\nWWW-Authenticate: Bearer", text, "this needs the token\n".into())
        }
        ("GET" | "HEAD", "/metrics") => {
            let families = metrics::families(&board.read());
            if protobuf::is_wanted(&headers("accept").collect::<Vec<_>>().join(",")) {
                ("200 OK", PROTOBUF, protobuf::page(&families))
            } else {
                ("200 OK", OPENMETRICS, openmetrics::page(&families).into_bytes())
            }
        }
        ("GET" | "HEAD", "/status") => ("200 OK", text, status::page(&board.read()).into()),
        ("GET" | "HEAD", "/figures") => ("200 OK", JSON, serde_json::to_vec(&board.read())?),
        ("POST", "/trigger") if access.is_none() => match board.ask(receiver) {
            Ok(count) => ("202 Accepted", text, format!("receivers asked for an incident: {count}\n").into()),
            Err(error) => ("404 Not Found", text, format!("{error}\n").into()),
        },
        ("POST", "/trigger") => ("403 Forbidden", text, "triggers come over the Unix socket alone\n".into()),
        (_, "/metrics" | "/status" | "/figures" | "/trigger") => {
            ("405 Method Not Allowed", text, "another method\n".into())
        }
        _ => ("404 Not Found", text, "here are /metrics, /status and /figures\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(&body)?;
    }
    stream.flush()
}

/// The request up to its empty line; none where that does not come in time or in size.
fn read_request(stream: &mut impl Read) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 1_024];
        match stream.read(&mut part)? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&part[..count]),
        }
        if bytes.len() as u64 > MOST_REQUEST {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
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

/// The first line of the answer, and its body.
fn exchange(socket: &Path, method: &str, target: &str) -> std::io::Result<(String, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.limit(PATIENCE)?;
    let request = format!("{method} {target} HTTP/1.1\r\nHost: watch\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.lines().next().unwrap_or("").to_owned(), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that has said `request`, here or, by its access, at an address.
    fn talk(request: &[u8], access: Option<&Access>) -> String {
        let (mut here, there) = UnixStream::pair().unwrap();
        let board = Board::default();
        board.receiver("a", |state| state.watched = true);
        here.write_all(request).unwrap();
        here.shutdown(std::net::Shutdown::Write).unwrap();
        answer(&mut Timed::new(there), &board, access).unwrap();
        let mut answer = Vec::new();
        // What was not read of a request resets the connection.
        let end = here.read_to_end(&mut answer).map_err(|error| error.kind());
        assert!(matches!(end, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{end:?}");
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn requests_are_answered_and_triggers_come_over_the_unix_socket_alone() {
        let address = Access::default();
        let metrics = talk(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some(&address));
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.ends_with("# EOF\n"), "{metrics}");
        assert!(talk(b"POST /trigger HTTP/1.1\r\n\r\n", None).starts_with("HTTP/1.1 202"));
        assert!(talk(b"POST /trigger?receiver=b HTTP/1.1\r\n\r\n", None).starts_with("HTTP/1.1 404"));
        assert!(talk(b"POST /trigger HTTP/1.1\r\n\r\n", Some(&address)).starts_with("HTTP/1.1 403"));
        assert!(talk(b"PUT /metrics HTTP/1.1\r\n\r\n", None).starts_with("HTTP/1.1 405"));
        assert!(talk(b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", None).starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_scrape_that_wants_protobuf_more_than_text_gets_it_and_others_get_text() {
        let answers = |accept: &str| talk(format!("HEAD /metrics HTTP/1.1\r\n{accept}\r\n").as_bytes(), None);
        let has = |answer: &str, kind: &str| answer.contains(&format!("\r\nContent-Type: {kind}\r\n"));
        let wanted = answers(&format!("accept: text/plain\r\nACCEPT: {PROTOBUF}, */*;q=0.1\r\n"));
        assert!(has(&wanted, PROTOBUF), "{wanted}");
        for accept in ["", "Accept: */*\r\n", &format!("Accept: {PROTOBUF};q=0.5, application/*;q=0.6\r\n")] {
            let text = answers(accept);
            assert!(has(&text, OPENMETRICS), "{accept}: {text}");
        }
    }

    #[test]
    fn hostile_requests_get_no_answer_and_take_no_memory() {
        assert_eq!(talk(b"GET /metrics", None), "");
        assert_eq!(talk(&[0xff; 20_000], None), "");
        assert!(talk(b"\r\n\r\n", None).starts_with("HTTP/1.1 404"));
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
