//! Reading a log, line by line: a log of ten million packets needs no more memory than one of ten.

use super::{LogFacts, LogHeader};
use crate::jitlat_log::facts::{Taken, one_line};
use quaver_abi::wire::jitlat::{Command, Singleton};
use quaver_store::error::StoreError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No line of a log is longer. Bytes.
const LONGEST_LINE: usize = 4096;
/// More lines of a header than this are none.
const LONGEST_HEADER: u64 = 10_000;

/// Whether the file begins as a log does: with a comment, and with another in the next line. The first has the date.
///
/// # Errors
/// The file cannot be read.
pub fn is_jitlat_log(path: &Path) -> Result<bool, StoreError> {
    let mut first = Vec::new();
    let file = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    file.take(LONGEST_LINE as u64)
        .read_to_end(&mut first)
        .map_err(|error| StoreError::io("read", path, error))?;
    let mut lines = first.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    Ok([lines.next(), lines.next()].iter().flatten().all(|line| line.starts_with(b"# ")))
}

/// A whole log.
///
/// # Errors
/// The file cannot be read, or is no log of Jitlat; the line is named.
pub fn read_log(path: &Path) -> Result<(LogHeader, Vec<Singleton>), StoreError> {
    let reader = LogReader::open(path)?;
    let header = reader.header().clone();
    Ok((header, reader.collect::<Result<_, _>>()?))
}

/// A log whose header was read; iterating gives its packets in the order of receiving. After an error it ends.
#[derive(Debug)]
pub struct LogReader<R> {
    lines: Lines<R>,
    header: LogHeader,
    /// The first row, which ended the header.
    first: Option<Singleton>,
    rows: u64,
    ended: bool,
}

impl LogReader<BufReader<File>> {
    /// Opens a log and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or its header is not that of a log.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
        Self::new(BufReader::with_capacity(1 << 18, file), path)
    }
}

impl<R: BufRead> LogReader<R> {
    /// Reads the header from `input`; `path` is for messages.
    ///
    /// # Errors
    /// The input cannot be read, or its header is not that of a log.
    pub fn new(input: R, path: &Path) -> Result<Self, StoreError> {
        let mut lines = Lines { input, path: path.to_owned(), number: 0, line: Vec::with_capacity(256) };
        let mut collected = Collected::default();
        let mut first = None;
        while lines.advance()? {
            let line = lines.trimmed();
            if let Some(comment) = line.strip_prefix(b"#") {
                let taken = text_of(comment).and_then(|text| collected.take(lines.number, text.trim()));
                taken.map_err(|reason| lines.refused(reason))?;
                if lines.number > LONGEST_HEADER {
                    return Err(lines.refused("the header does not end; this is no log of Jitlat".into()));
                }
            } else if collected.created.is_none() {
                let reason = "a log of Jitlat begins with `# ` and the date; this is another file";
                return Err(lines.refused(reason.into()));
            } else if !line.is_empty() {
                first = Some(row(line, 0).map_err(|reason| lines.refused(reason))?);
                break;
            }
        }
        let header = collected.header().map_err(|reason| lines.refused(reason))?;
        Ok(Self { lines, header, first, rows: 0, ended: false })
    }

    /// The header.
    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    fn next_row(&mut self) -> Result<Option<Singleton>, StoreError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while self.lines.advance()? {
            let line = self.lines.trimmed();
            if !line.is_empty() && line[0] != b'#' {
                return row(line, self.rows).map(Some).map_err(|reason| self.lines.refused(reason));
            }
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<Singleton, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_row().transpose();
        self.rows += 1;
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Lines of the input, one at a time.
#[derive(Debug)]
struct Lines<R> {
    input: R,
    path: PathBuf,
    /// Of the line at hand, from 1.
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// Goes to the next line; false at the end.
    fn advance(&mut self) -> Result<bool, StoreError> {
        self.line.clear();
        let limit = LONGEST_LINE as u64 + 1;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line);
        let octets = read.map_err(|error| StoreError::io("read", &self.path, error))?;
        if octets == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.len() > LONGEST_LINE {
            let reason = format!("longer than {LONGEST_LINE} bytes; this is no log of Jitlat");
            return Err(self.refused(reason));
        }
        Ok(true)
    }

    fn trimmed(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    fn refused(&self, reason: String) -> StoreError {
        StoreError::Line { path: self.path.clone(), line: self.number.max(1), reason }
    }
}

/// Lines of a header as they are found; the order of those after the first does not matter.
#[derive(Default)]
struct Collected {
    created: Option<String>,
    command: Option<Command>,
    npkts: Option<u64>,
    pktlen: Option<u32>,
    proto: Option<u32>,
    period_ns: Option<u64>,
    src_ip: Option<IpAddr>,
    dst_ip: Option<IpAddr>,
    src_port: Option<u16>,
    dst_port: Option<u16>,
    dscp: Option<u32>,
    clock_error_ns: Option<i64>,
    min_rtt_ns: Option<i64>,
    facts: LogFacts,
}

impl Collected {
    fn take(&mut self, number: u64, text: &str) -> Result<(), String> {
        let (key, value) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        let value = value.trim();
        if number == 1 {
            let words_of_its_own = key == "command" || key == "npkts";
            if text.is_empty() || words_of_its_own {
                return Err("the first line of a log has the date".into());
            }
            self.created = Some(one_line(text));
            return Ok(());
        }
        match key {
            "command" => {
                let command = Command::from_name(value)
                    .ok_or_else(|| format!("`{value}` is no command: SENDING and SEND_ME are"))?;
                once(&mut self.command, key, command)
            }
            "npkts" => number_of(&mut self.npkts, key, value),
            "pktlen" => number_of(&mut self.pktlen, key, value),
            "proto" => number_of(&mut self.proto, key, value),
            "period" => number_of(&mut self.period_ns, key, value),
            "src_ip" => number_of(&mut self.src_ip, key, value),
            "dst_ip" => number_of(&mut self.dst_ip, key, value),
            "src_port" => number_of(&mut self.src_port, key, value),
            "dst_port" => number_of(&mut self.dst_port, key, value),
            "dscp" => number_of(&mut self.dscp, key, value),
            "clock_error_ns" => number_of(&mut self.clock_error_ns, key, value),
            "min_rtt_ns" => number_of(&mut self.min_rtt_ns, key, value),
            // The words of the console (figures 16 and 17), should Jitlat's two lines have had them.
            "Estimated" => match text.split_once('=') {
                Some((words, quantity)) if words.contains("clock error") => {
                    once(&mut self.clock_error_ns, "clock error", nanoseconds(quantity)?)
                }
                Some((words, quantity)) if words.contains("RTT") => {
                    once(&mut self.min_rtt_ns, "RTT", nanoseconds(quantity)?)
                }
                _ => Ok(()),
            },
            _ => match self.facts.take(key, value) {
                Ok(Taken::Yes | Taken::Unknown) => Ok(()),
                Err(reason) => Err(reason.into()),
            },
        }
    }

    fn header(self) -> Result<LogHeader, String> {
        fn there<T>(value: Option<T>, key: &str) -> Result<T, String> {
            value.ok_or_else(|| {
                format!("the header has no line `# {key}`; this is no log of Jitlat, or part of one")
            })
        }
        Ok(LogHeader {
            created: self
                .created
                .ok_or("the file is empty; a log of Jitlat begins with `# ` and the date")?,
            command: there(self.command, "command")?,
            npkts: there(self.npkts, "npkts")?,
            pktlen: there(self.pktlen, "pktlen")?,
            proto: there(self.proto, "proto")?,
            period_ns: there(self.period_ns, "period")?,
            src_ip: there(self.src_ip, "src_ip")?,
            dst_ip: there(self.dst_ip, "dst_ip")?,
            src_port: there(self.src_port, "src_port")?,
            dst_port: there(self.dst_port, "dst_port")?,
            dscp: there(self.dscp, "dscp")?,
            clock_error_ns: self.clock_error_ns,
            min_rtt_ns: self.min_rtt_ns,
            facts: self.facts,
        })
    }
}

fn once<T>(place: &mut Option<T>, key: &str, value: T) -> Result<(), String> {
    match place.replace(value) {
        Some(_) => Err(format!("`# {key}` is there twice")),
        None => Ok(()),
    }
}

fn number_of<T: FromStr>(place: &mut Option<T>, key: &str, value: &str) -> Result<(), String> {
    let parsed = value.parse().map_err(|_| format!("`{value}` is no value of `# {key}`"))?;
    once(place, key, parsed)
}

/// A time as the console prints it: `-80.000 us`, `31.340420000 s`. Digit by digit, for a float would lose some.
fn nanoseconds(quantity: &str) -> Result<i64, String> {
    let bad = || format!("`{}` is no time such as `-80.000 us`", quantity.trim());
    let (number, unit) = quantity.trim().split_once(' ').ok_or_else(bad)?;
    let digits = match unit.trim() {
        "s" => 9,
        "ms" => 6,
        "us" => 3,
        "ns" => 0,
        _ => return Err(bad()),
    };
    let (sign, number) = number.strip_prefix('-').map_or((1, number), |rest| (-1, rest));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if whole.is_empty() || fraction.len() > digits || !all_digits(whole) || !all_digits(fraction) {
        return Err(bad());
    }
    let ns: i64 = format!("{whole}{fraction:0<digits$}").parse().map_err(|_| bad())?;
    Ok(sign * ns)
}

/// A row: number in the order of receiving, sending time, sequence number, receiving time, flags.
fn row(line: &[u8], expected: u64) -> Result<Singleton, String> {
    let mut fields = line.split(|octet| *octet == b' ' || *octet == b'\t').filter(|field| !field.is_empty());
    let number: u64 = field(&mut fields, "the row's number")?;
    let tx_real_time_ns = field(&mut fields, "the sending time")?;
    let tx_seq = field(&mut fields, "the sequence number")?;
    let rx_real_time_ns = field(&mut fields, "the receiving time")?;
    let flags = field(&mut fields, "the flags")?;
    if fields.next().is_some() {
        return Err("a row has five fields, this one has more".into());
    }
    if number != expected {
        return Err(format!(
            "the row says that it is number {number}, but {expected} is next: rows are missing or out of place"
        ));
    }
    Ok(Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns, flags })
}

fn field<'a, T: FromStr>(fields: &mut impl Iterator<Item = &'a [u8]>, name: &str) -> Result<T, String> {
    let octets = fields.next().ok_or_else(|| {
        format!(
            "a row has five fields, this one ends before {name}; the file was cut, or is no log of Jitlat"
        )
    })?;
    let text = std::str::from_utf8(octets).ok();
    // A sign of plus would parse, but nobody writes it.
    let number = text.filter(|text| !text.starts_with('+')).and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let found = String::from_utf8_lossy(octets);
        format!(
            "a whole number stands for {name}, not `{found}`; the file is damaged, or is no log of Jitlat"
        )
    })
}

fn text_of(octets: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(octets).map_err(|_| "the header has bytes that are no text".into())
}
