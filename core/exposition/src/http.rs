//! HTTP as far as scrapes need it: one short request a connection, at a Unix socket or at an address.

use crate::access::Access;
use crate::families::Family;
use crate::protobuf::PROTOBUF;
use crate::{openmetrics, protobuf};
use anyhow::Context;
use quaver_host::confinement::{ANSWERS, Files};
use quaver_instrument::exit_code::{ExitCode, failure};
use rustls::{ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request and its answer together may take so long ...
const PATIENCE: Duration = Duration::from_secs(4);
/// ... and have so many bytes.
const MOST_REQUEST: u64 = 8_192;
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is asked, as far as answers depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, `POST` or whatever was sent.
    pub method: String,
    /// Without its query.
    pub path: String,
    /// What follows `?`.
    pub query: String,
    /// All `Accept` headers, with commas between them.
    pub accept: String,
    /// Whether it came to an address, from whoever has access there, and not to the Unix socket of its owner.
    pub at_address: bool,
}

impl Request {
    /// Whether it asks for a page and changes nothing.
    pub fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Answer {
    /// Words with a status such as `404 Not Found`.
    pub fn words(status: &'static str, words: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: words.into().into_bytes() }
    }

    /// A JSON document.
    pub fn json(body: Vec<u8>) -> Self {
        Self { status: "200 OK", kind: "application/json", body }
    }

    /// Status code and its words.
    pub fn status(&self) -> &'static str {
        self.status
    }

    /// The right path, asked in a way that it has not.
    pub fn other_method() -> Self {
        Self::words("405 Method Not Allowed", "another method\n")
    }
}

/// What a program answers.
pub type Answers = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// Families in the form that a scrape wants: OpenMetrics text, or protobuf with native histograms.
pub fn scrape(request: &Request, families: &[Family]) -> Answer {
    let (kind, body) = if protobuf::is_wanted(&request.accept) {
        (PROTOBUF, protobuf::page(families))
    } else {
        (OPENMETRICS, openmetrics::page(families).into_bytes())
    };
    Answer { status: "200 OK", kind, body }
}

/// The answers of a program that has `/metrics` and nothing else.
pub fn only_metrics(families: impl Fn() -> Vec<Family> + Send + Sync + 'static) -> Answers {
    Arc::new(move |request| match request.path.as_str() {
        "/metrics" if request.reads() => scrape(request, &families()),
        "/metrics" => Answer::other_method(),
        _ => Answer::words("404 Not Found", "here is /metrics\n"),
    })
}

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

/// Answers at a Unix socket until the process ends.
///
/// # Errors
/// The system gives no thread.
pub fn listen_on(listener: UnixListener, answers: Answers) -> anyhow::Result<()> {
    spawn(move || {
        for stream in listener.incoming() {
            on_connection(stream, |stream| answer(stream, &answers, None));
        }
    })
}

/// Answers at an address to whoever has access, until the process ends. The result is the address, with the port that the system
/// chose where it was 0.
///
/// # Errors
/// The address cannot be had.
pub fn listen_at(address: SocketAddr, access: Access, answers: Answers) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let remedy =
            "give the metrics an address of this host with a port that no other program has (ss -ltnp)";
        failure(ExitCode::Output, format!("listen at {address}: {error} ({remedy})"))
    })?;
    let bound = listener.local_addr().with_context(|| format!("read the address of {address}"))?;
    spawn(move || {
        for stream in listener.incoming() {
            on_connection(stream, |stream| match &access.tls {
                None => answer(stream, &answers, Some(&access)),
                Some(tls) => {
                    let connection = ServerConnection::new(Arc::clone(tls)).map_err(std::io::Error::other)?;
                    let mut stream = StreamOwned::new(connection, stream);
                    answer(&mut stream, &answers, Some(&access))?;
                    stream.conn.send_close_notify();
                    stream.flush()
                }
            });
        }
    })?;
    Ok(bound)
}

/// Starts a thread that has its listener and nothing else: no files, no further sockets, no capabilities.
fn spawn(body: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let confined = move || {
        ANSWERS.keep(Some(Files::default()));
        body();
    };
    quaver_waiting::start("quaver-http", confined)?;
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

/// Answers a request; one that came to an address has to be admitted there.
fn answer(
    stream: &mut (impl Read + Write),
    answers: &Answers,
    access: Option<&Access>,
) -> std::io::Result<()> {
    let Some(head) = read_request(stream)? else { return Ok(()) };
    let line = head.lines().next().unwrap_or("");
    let headers = |name: &'static str| {
        let all = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        all.filter(move |header| header.0.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        accept: headers("accept").collect::<Vec<_>>().join(","),
        at_address: access.is_some(),
    };
    let Answer { status, kind, body } =
        if access.is_none_or(|access| access.admits(headers("authorization").next())) {
            answers(&request)
        } else {
            Answer::words("401 Unauthorized\r\nWWW-Authenticate: Bearer", "this needs the token\n")
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

/// Asks at a Unix socket: the first line of the answer, and its body.
///
/// # Errors
/// Nothing listens there, or it does not answer in time.
pub fn exchange(socket: &Path, method: &str, target: &str) -> std::io::Result<(String, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.limit(PATIENCE)?;
    let request = format!("{method} {target} HTTP/1.1\r\nHost: quaver\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.lines().next().unwrap_or("").to_owned(), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::Kind;

    /// What a program says to a connection that has said `request`, here or, by its access, at an address.
    fn talk(request: &[u8], access: Option<&Access>) -> String {
        let (mut here, there) = UnixStream::pair().unwrap();
        let answers = only_metrics(|| vec![Family::one(("quaver_up", ""), Kind::Gauge, "1.", 1.0)]);
        here.write_all(request).unwrap();
        here.shutdown(std::net::Shutdown::Write).unwrap();
        answer(&mut Timed::new(there), &answers, access).unwrap();
        let mut answer = Vec::new();
        // What was not read of a request resets the connection.
        let end = here.read_to_end(&mut answer).map_err(|error| error.kind());
        assert!(matches!(end, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{end:?}");
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn metrics_are_given_and_nothing_else() {
        let address = Access::default();
        let metrics = talk(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some(&address));
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.ends_with("# EOF\n"), "{metrics}");
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
}
