//! Optional lines of the header that are ours. A reader that does not know them sees comments.

use crate::facts::{ChronyFacts, DepartureFacts, RoundTrip};
use quaver_arrivals::path::direction::Direction;
use std::fmt::{self, Write};

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Complete,
    /// Before its time, and why.
    Interrupted(String),
}

/// Errors of a host's clock as its kernel knows them from the program that disciplines it (adjtimex).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtpErrors {
    /// Estimated error, nanoseconds.
    pub estimated_ns: u64,
    /// Most that it can be off, nanoseconds.
    pub max_ns: u64,
}

/// What Jitlat's header has no place for. All may be absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogFacts {
    /// Which way packets went.
    pub direction: Option<Direction>,
    /// Protocol of the control connection: `legacy` or `extension 1`.
    pub protocol: Option<String>,
    /// Who stamped the arrivals, in words.
    pub stamps: Option<String>,
    /// What stamped the departures at the sender, of how many packets, and how long after sending. The delay from there
    /// is not in a log.
    pub departures: Option<DepartureFacts>,
    /// Packets that were really sent.
    pub sent: Option<u64>,
    /// The client's clock.
    pub client_ntp: Option<NtpErrors>,
    /// The server's clock.
    pub server_ntp: Option<NtpErrors>,
    /// The client's clock by chronyd.
    pub client_chrony: Option<ChronyFacts>,
    /// The server's clock by chronyd.
    pub server_chrony: Option<ChronyFacts>,
    /// Probes of the control connection.
    pub rtt_probes: Vec<RoundTrip>,
    /// How far the start of the server's monotonic clock is from that of the client's, nanoseconds.
    pub boot_gap_ns: Option<i64>,
    /// How the test ended.
    pub ending: Option<Ending>,
}

/// Whether a line of the header was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is one of ours.
    Yes,
    /// Its key is not known.
    Unknown,
}

impl LogFacts {
    /// Writes a line for each fact.
    pub(super) fn lines(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a String takes all that is written");
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        match self.direction {
            Some(Direction::Up) => writeln!(out, "# direction up")?,
            Some(Direction::Down) => writeln!(out, "# direction down")?,
            None => {}
        }
        for (key, text) in [("protocol", &self.protocol), ("stamps", &self.stamps)] {
            if let Some(text) = text {
                writeln!(out, "# {key} {}", one_line(text))?;
            }
        }
        if let Some(departures) = &self.departures {
            writeln!(out, "# departures {}", departure_words(departures))?;
        }
        if let Some(sent) = self.sent {
            writeln!(out, "# sent {sent}")?;
        }
        for (key, errors) in [("client_ntp", self.client_ntp), ("server_ntp", self.server_ntp)] {
            if let Some(NtpErrors { estimated_ns, max_ns }) = errors {
                writeln!(out, "# {key}_error_ns {estimated_ns} max {max_ns}")?;
            }
        }
        for (end, chrony) in [("client", self.client_chrony), ("server", self.server_chrony)] {
            if let Some(chrony) = chrony {
                writeln!(out, "# {end}_chrony_ns {}", chrony_words(&chrony))?;
            }
        }
        for probe in &self.rtt_probes {
            writeln!(out, "# rtt_probe_ns {} {} {}", probe.t1_ns, probe.t2_ns, probe.t3_ns)?;
        }
        if let Some(gap_ns) = self.boot_gap_ns {
            writeln!(out, "# boot_gap_ns {gap_ns}")?;
        }
        match &self.ending {
            Some(Ending::Complete) => writeln!(out, "# complete"),
            Some(Ending::Interrupted(why)) => writeln!(out, "# interrupted {}", one_line(why)),
            None => Ok(()),
        }
    }

    /// Takes a line's key and what follows it.
    ///
    /// # Errors
    /// What the line should have been, where the key is ours and its value is not.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<Taken, &'static str> {
        match key {
            "direction" => {
                self.direction = Some(match value {
                    "up" => Direction::Up,
                    "down" => Direction::Down,
                    _ => return Err("`# direction` is `up` or `down`"),
                });
            }
            "protocol" => self.protocol = Some(value.to_owned()),
            "stamps" => self.stamps = Some(value.to_owned()),
            "departures" => self.departures = Some(departures(value)?),
            "sent" => self.sent = Some(value.parse().map_err(|_| "`# sent` is a number of packets")?),
            "client_ntp_error_ns" => self.client_ntp = Some(ntp_errors(value)?),
            "server_ntp_error_ns" => self.server_ntp = Some(ntp_errors(value)?),
            "client_chrony_ns" => self.client_chrony = Some(chrony(value)?),
            "server_chrony_ns" => self.server_chrony = Some(chrony(value)?),
            "rtt_probe_ns" => self.rtt_probes.push(probe_times(value)?),
            "boot_gap_ns" => {
                self.boot_gap_ns =
                    Some(value.parse().map_err(|_| "`# boot_gap_ns` is a number of nanoseconds")?);
            }
            "complete" => self.ending = Some(Ending::Complete),
            "interrupted" => self.ending = Some(Ending::Interrupted(value.to_owned())),
            _ => return Ok(Taken::Unknown),
        }
        Ok(Taken::Yes)
    }
}

fn departure_words(departures: &DepartureFacts) -> String {
    let DepartureFacts { stamped_by, stamped, missing, p50_ns, p99_ns, max_ns, delay: _ } = departures;
    format!(
        "{} stamped {stamped} missing {missing} p50_ns {p50_ns} p99_ns {p99_ns} max_ns {max_ns}",
        one_line(stamped_by)
    )
}

fn departures(value: &str) -> Result<DepartureFacts, &'static str> {
    const WANTED: &str = "a line of departures is `LAYER stamped N missing N p50_ns NS p99_ns NS max_ns NS`";
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    let [stamped_by, "stamped", stamped, "missing", missing, "p50_ns", p50, "p99_ns", p99, "max_ns", max] =
        words[..]
    else {
        return Err(WANTED);
    };
    let ns = |word: &str| word.parse::<i64>().map_err(|_| WANTED);
    let packets = |word: &str| word.parse::<u64>().map_err(|_| WANTED);
    Ok(DepartureFacts {
        stamped_by: stamped_by.to_owned(),
        stamped: packets(stamped)?,
        missing: packets(missing)?,
        p50_ns: ns(p50)?,
        p99_ns: ns(p99)?,
        max_ns: ns(max)?,
        delay: None,
    })
}

fn ntp_errors(value: &str) -> Result<NtpErrors, &'static str> {
    const WANTED: &str = "a line of NTP errors is `ESTIMATED max MAX`, both in nanoseconds";
    let mut words = value.split_ascii_whitespace();
    let estimated_ns = words.next().and_then(|word| word.parse().ok()).ok_or(WANTED)?;
    let max_ns = words.next().filter(|word| *word == "max").and_then(|_| words.next()).ok_or(WANTED)?;
    let max_ns = max_ns.parse().map_err(|_| WANTED)?;
    if words.next().is_some() { Err(WANTED) } else { Ok(NtpErrors { estimated_ns, max_ns }) }
}

/// The names of the numbers of a line about chronyd, after the stratum.
const CHRONY: [&str; 5] = ["correction", "last_offset", "rms_offset", "root_delay", "root_dispersion"];

fn chrony_words(chrony: &ChronyFacts) -> String {
    let times_ns = [
        chrony.correction_ns,
        chrony.last_offset_ns,
        chrony.rms_offset_ns,
        chrony.root_delay_ns,
        chrony.root_dispersion_ns,
    ];
    let state = if chrony.synchronised { "stratum" } else { "unsynchronised" };
    let times = CHRONY.iter().zip(times_ns).map(|(name, ns)| format!(" {name} {ns}"));
    format!("{state} {}{}", chrony.stratum, times.collect::<String>())
}

fn chrony(value: &str) -> Result<ChronyFacts, &'static str> {
    const WANTED: &str = "a line of chrony is `stratum N correction NS last_offset NS rms_offset NS root_delay NS \
                          root_dispersion NS`";
    let mut words = value.split_ascii_whitespace();
    let state = words.next();
    let stratum = words.next().and_then(|word| word.parse().ok()).ok_or(WANTED)?;
    let mut times_ns = [0; CHRONY.len()];
    for (name, ns) in CHRONY.into_iter().zip(&mut times_ns) {
        words.next().filter(|word| *word == name).ok_or(WANTED)?;
        *ns = words.next().and_then(|word| word.parse().ok()).ok_or(WANTED)?;
    }
    if words.next().is_some() || !matches!(state, Some("stratum" | "unsynchronised")) {
        return Err(WANTED);
    }
    let [correction_ns, last_offset_ns, rms_offset_ns, root_delay_ns, root_dispersion_ns] = times_ns;
    let synchronised = state == Some("stratum");
    Ok(ChronyFacts {
        stratum,
        synchronised,
        correction_ns,
        last_offset_ns,
        rms_offset_ns,
        root_delay_ns,
        root_dispersion_ns,
    })
}

fn probe_times(value: &str) -> Result<RoundTrip, &'static str> {
    const WANTED: &str = "`# rtt_probe_ns` has three times in nanoseconds: sent, answered, received";
    let mut times = value.split_ascii_whitespace().map(|word| word.parse::<i64>().map_err(|_| WANTED));
    let mut next = || times.next().ok_or(WANTED)?;
    let probe = RoundTrip { t1_ns: next()?, t2_ns: next()?, t3_ns: next()? };
    if times.next().is_some() { Err(WANTED) } else { Ok(probe) }
}

/// Text of others that must not begin another line of the file.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
