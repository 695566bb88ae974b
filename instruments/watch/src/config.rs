//! The file of settings.

use anyhow::Context;
use quaver_exposition::AccessSettings;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::quantity;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::http::Uri;

/// A documented file.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");
/// Socket of a watch unless its settings name another.
pub(crate) const USUAL_SOCKET: &str = "/run/quaver/watch.sock";
/// Most receivers. Each has BPF programs and a thread of its own.
const MOST_RECEIVERS: usize = 16;
/// Most tables of threads, which one BPF program tells apart.
pub(crate) const MOST_TABLES: usize = 16;
/// Most paths. Each has a thread of its own.
const MOST_PATHS: usize = 16;
/// The shortest time from one packet of a path to the next.
const LEAST_EVERY: Duration = Duration::from_millis(10);
/// The shortest wait that may be a trigger: a switch of threads takes microseconds.
const LEAST_WAIT: Duration = Duration::from_micros(10);
/// Longest part of a window, before or after its trigger.
const LONGEST_PART: Duration = Duration::from_secs(60);

/// All settings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    #[serde(default = "usual_directory")]
    pub(crate) directory: PathBuf,
    #[serde(default = "usual_socket")]
    pub(crate) socket: PathBuf,
    #[serde(default)]
    pub(crate) metrics: Option<SocketAddr>,
    #[serde(default)]
    pub(crate) metrics_access: AccessSettings,
    /// CPUs whose times are counted.
    #[serde(default, deserialize_with = "some_cpus")]
    pub(crate) cpus: Option<Vec<u16>>,
    #[serde(default)]
    pub(crate) window: WindowSettings,
    #[serde(default)]
    pub(crate) limits: Limits,
    #[serde(default)]
    pub(crate) hook: Option<HookSettings>,
    #[serde(default, rename = "receiver")]
    pub(crate) receivers: Vec<ReceiverSettings>,
    #[serde(default)]
    pub(crate) threads: Vec<ThreadsSettings>,
    #[serde(default, rename = "path")]
    pub(crate) paths: Vec<PathSettings>,
}

/// What an incident holds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WindowSettings {
    #[serde(deserialize_with = "duration")]
    pub(crate) before: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) after: Duration,
    pub(crate) memory_mib: u32,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self { before: Duration::from_secs(3), after: Duration::from_secs(1), memory_mib: 16 }
    }
}

/// A program to start and a server to notify for each incident.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookSettings {
    /// None where it is empty.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    pub(crate) url: Option<String>,
    #[serde(default = "usual_patience", deserialize_with = "duration")]
    pub(crate) within: Duration,
}

impl HookSettings {
    fn judge(&self) -> Result<(), String> {
        if self.command.first().is_some_and(String::is_empty)
            || (self.command.is_empty() && self.url.is_none())
        {
            return Err("hook: give it a url, or a command as a list, the program first: [\"logger\", \"-t\", \"quaver\"]"
                .to_owned());
        }
        match self.url.as_ref().map(|url| url.parse::<Uri>()) {
            Some(Ok(url)) if matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() => {
                Ok(())
            }
            None => Ok(()),
            Some(_) => Err("hook: url is an address as `https://example.invalid/quaver`".to_owned()),
        }
    }
}

fn usual_patience() -> Duration {
    Duration::from_secs(10)
}

/// What bounds the watch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) disk_mib: u64,
    pub(crate) incidents_an_hour: u32,
    #[serde(deserialize_with = "duration")]
    pub(crate) fold_within: Duration,
    pub(crate) cpu_percent: f64,
    pub(crate) waiting_mib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            disk_mib: 1024,
            incidents_an_hour: 30,
            fold_within: Duration::from_secs(86_400),
            cpu_percent: 5.0,
            waiting_mib: 32,
        }
    }
}

impl Limits {
    /// Memory of windows that wait to be written.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        u64::from(self.waiting_mib) << 20
    }
}

/// One receiver and its triggers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiverSettings {
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    pub(crate) comm: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) port: Option<u16>,
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) late: Option<Duration>,
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) gap: Option<Duration>,
    pub(crate) losses: Option<u32>,
}

/// Threads whose waits for a CPU are counted: those of a control group or a unit, those on some CPUs, or those of both.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadsSettings {
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    pub(crate) comm: Option<String>,
    pub(crate) group: Option<PathBuf>,
    pub(crate) unit: Option<String>,
    #[serde(default, deserialize_with = "some_cpus")]
    pub(crate) cpus: Option<Vec<u16>>,
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) wait: Option<Duration>,
    /// Limit of waits for locks.
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) lock: Option<Duration>,
}

/// A path to a reflector of STAMP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathSettings {
    pub(crate) name: String,
    /// Name or address of the reflector's host.
    pub(crate) host: String,
    #[serde(default = "usual_port")]
    pub(crate) port: u16,
    /// Time from one packet to the next.
    #[serde(default = "usual_every", deserialize_with = "duration")]
    pub(crate) every: Duration,
    #[serde(default)]
    pub(crate) dscp: u8,
    /// Key that the reflector shares, for packets with an HMAC.
    pub(crate) key_file: Option<PathBuf>,
    /// Limit of a round trip beyond the shortest one lately.
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) late: Option<Duration>,
    /// Limit of losses within a second.
    pub(crate) losses: Option<u32>,
}

fn usual_port() -> u16 {
    quaver_abi::wire::stamp::PORT
}

fn usual_every() -> Duration {
    Duration::from_millis(100)
}

fn usual_directory() -> PathBuf {
    "/var/lib/quaver/watch".into()
}

fn usual_socket() -> PathBuf {
    USUAL_SOCKET.into()
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    quantity::duration(&text).map_err(serde::de::Error::custom)
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

fn some_cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u16>>, D::Error> {
    let text = String::deserialize(from)?;
    quantity::cpu_list(&text).map(Some).map_err(serde::de::Error::custom)
}

impl Settings {
    /// Reads and judges a file.
    ///
    /// # Errors
    /// It cannot be read, or does not hold settings that make sense; the message says what to change.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let remedy = "`quaver watch --example` prints one";
            failure(ExitCode::Usage, format!("read {}: {error} ({remedy})", file.display()))
        })?;
        Self::parse(&text).map_err(|why| failure(ExitCode::Usage, format!("{}: {why}", file.display())))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        settings.judge()?;
        Ok(settings)
    }

    fn judge(&self) -> Result<(), String> {
        let WindowSettings { before, after, memory_mib } = self.window;
        if before > LONGEST_PART || after > LONGEST_PART {
            return Err(format!(
                "window: before and after may each be {} s long at most",
                LONGEST_PART.as_secs()
            ));
        }
        if !(1..=1024).contains(&memory_mib) {
            return Err("window.memory_mib: must lie between 1 and 1024".to_owned());
        }
        let Limits { disk_mib, incidents_an_hour, cpu_percent, .. } = self.limits;
        if disk_mib == 0 || incidents_an_hour == 0 || cpu_percent.is_nan() || cpu_percent <= 0.0 {
            return Err("limits: disk_mib, incidents_an_hour and cpu_percent must be above 0".to_owned());
        }
        let counts = [self.receivers.len(), self.threads.len(), self.paths.len()];
        let most = [MOST_RECEIVERS, MOST_TABLES, MOST_PATHS];
        let too_many = counts.iter().zip(most).any(|(count, most)| *count > most);
        if (counts == [0; 3] && self.cpus.is_none()) || too_many {
            return Err(format!(
                "name something to watch: up to {MOST_RECEIVERS} tables [[receiver]], up to {MOST_TABLES} tables [[threads]] and up to \
                 {MOST_PATHS} tables [[path]], or cpus"
            ));
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return Err("cpus names no CPU".to_owned());
        }
        self.hook.as_ref().map_or(Ok(()), HookSettings::judge)?;
        self.metrics_access.judge(self.metrics)?;
        self.receivers.iter().try_for_each(ReceiverSettings::judge)?;
        self.threads.iter().try_for_each(ThreadsSettings::judge)?;
        self.paths.iter().try_for_each(PathSettings::judge)?;
        if self.names().collect::<BTreeSet<&str>>().len() < counts.iter().sum() {
            return Err("two tables have the same name".to_owned());
        }
        Ok(())
    }

    /// Names of all that is watched.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let receivers = self.receivers.iter().map(|receiver| receiver.name.as_str());
        let paths = self.paths.iter().map(|path| path.name.as_str());
        receivers.chain(self.threads.iter().map(|table| table.name.as_str())).chain(paths)
    }
}

/// `kind` is the table's.
fn judge_name(kind: &str, name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
        return Err(format!("{kind} `{name}`: a name has 1 to 64 letters, digits, `-`, `_` or `.`"));
    }
    Ok(())
}

const UNIT_WORDS: &str = "unit is the name of a unit, as `audio.service`";

const COMM_WORDS: &str = "pid is above 0, and comm is a name of 1 to 15 bytes, as /proc/PID/comm has it";

/// The kernel keeps 15 bytes of a name.
fn is_no_comm(comm: &str) -> bool {
    comm.is_empty() || comm.len() > 15
}

fn is_no_unit(unit: &str) -> bool {
    unit.is_empty() || unit.contains('/')
}

impl ThreadsSettings {
    fn judge(&self) -> Result<(), String> {
        judge_name("threads", &self.name)?;
        let fail = |what: &str| Err(format!("threads `{}`: {what}", self.name));
        match (self.has_group(), &self.cpus) {
            (false, None) => return fail("say which threads: pid, comm, unit, group or cpus"),
            (_, Some(cpus)) if cpus.is_empty() => return fail("cpus names no CPU"),
            _ => {}
        }
        let named = [self.pid.is_some(), self.comm.is_some(), self.unit.is_some(), self.group.is_some()];
        if named.iter().filter(|given| **given).count() > 1 {
            return fail("name the threads in one way only: pid, comm, unit or group");
        }
        if self.pid == Some(0) || self.comm.as_deref().is_some_and(is_no_comm) {
            return fail(COMM_WORDS);
        }
        if self.lock.is_some() && !self.has_group() {
            return fail("lock needs a program: pid, comm, unit or group");
        }
        if self.group.as_ref().is_some_and(|group| !group.is_absolute()) {
            return fail("group is the directory of a control group, as `/sys/fs/cgroup/audio.slice`");
        }
        if self.unit.as_deref().is_some_and(is_no_unit) {
            return fail(UNIT_WORDS);
        }
        if self.wait.into_iter().chain(self.lock).any(|limit| limit < LEAST_WAIT) {
            return fail("wait and lock must be 10us or more");
        }
        Ok(())
    }

    /// Whether it names a process or a control group, itself or by its unit.
    pub(crate) fn has_group(&self) -> bool {
        self.group.is_some() || self.unit.is_some() || self.pid.is_some() || self.comm.is_some()
    }

    /// Whether a long wait makes an incident.
    pub(crate) fn has_trigger(&self) -> bool {
        self.wait.is_some() || self.lock.is_some()
    }
}

impl ReceiverSettings {
    fn judge(&self) -> Result<(), String> {
        judge_name("receiver", &self.name)?;
        let fail = |what: &str| Err(format!("receiver `{}`: {what}", self.name));
        let processes = [self.pid.is_some(), self.comm.is_some(), self.unit.is_some()];
        match processes.iter().filter(|given| **given).count() {
            0 if self.port.is_none() => return fail("say which process: pid, comm, unit or port"),
            0 | 1 => {}
            _ => return fail("name the process in one way only: pid, comm or unit"),
        }
        if self.unit.as_deref().is_some_and(is_no_unit) {
            return fail(UNIT_WORDS);
        }
        if self.port == Some(0) || self.pid == Some(0) || self.losses == Some(0) {
            return fail("pid, port and losses must be above 0");
        }
        if self.comm.as_deref().is_some_and(is_no_comm) {
            return fail(COMM_WORDS);
        }
        if self.late.is_none() && self.gap.is_none() && self.losses.is_none() {
            return fail("has no trigger: give it late, gap or losses");
        }
        Ok(())
    }

    /// Packets are late beyond this: as the triggers say, else as a chase has it.
    pub(crate) fn late_ns(&self) -> Option<i64> {
        self.late.or(self.gap).and_then(|time| i64::try_from(time.as_nanos()).ok())
    }
}

impl PathSettings {
    fn judge(&self) -> Result<(), String> {
        judge_name("path", &self.name)?;
        let fail = |what: &str| Err(format!("path `{}`: {what}", self.name));
        if self.host.is_empty() || self.port == 0 {
            return fail("host is a name or an address, and port is above 0");
        }
        if self.every < LEAST_EVERY || self.dscp > 63 {
            return fail("every must be 10ms or more, and dscp 0 to 63");
        }
        if self.losses == Some(0) || self.late == Some(Duration::ZERO) {
            return fail("late and losses must be above 0");
        }
        let most = 1_000 / self.every.as_millis().max(1);
        if self.losses.is_some_and(|losses| u128::from(losses) > most.max(1)) {
            return fail(
                "losses are those of a second, in which so many packets are never sent: lower it, or `every`",
            );
        }
        Ok(())
    }
}

/// Makes a directory and those above it.
pub(crate) fn make_directory(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("make directory {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[[receiver]]\nname = 'a'\nport = 5004\ngap = '1s'\n";

    #[test]
    fn the_example_is_good_and_says_what_the_defaults_are() {
        let example = Settings::parse(EXAMPLE).unwrap();
        let least = Settings::parse(LEAST).unwrap();
        assert_eq!(
            Settings { receivers: Vec::new(), threads: Vec::new(), paths: Vec::new(), ..example.clone() },
            Settings { receivers: Vec::new(), ..least }
        );
        assert_eq!(example.threads[0].wait, Some(Duration::from_millis(20)));
        assert_eq!(example.receivers[0].late_ns(), Some(5_000_000));
        let path = Settings::parse("[[path]]\nname = 'a'\nhost = '192.0.2.7'\n").unwrap().paths.remove(0);
        let shown = &example.paths[0];
        assert_eq!((shown.late, shown.losses), (Some(Duration::from_millis(20)), Some(3)));
        let (late, losses) = (shown.late, shown.losses);
        assert_eq!(PathSettings { name: "studio-b".to_owned(), late, losses, ..path }, *shown);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_change() {
        let cases = [
            ("", "something to watch"),
            ("[[path]]\nname='a'", "missing field `host`"),
            ("[[path]]\nname='a'\nhost=''", "a name or an address"),
            ("[[path]]\nname='a'\nhost='b'\nevery='9ms'", "10ms or more"),
            ("[[path]]\nname='a'\nhost='b'\ndscp=64", "0 to 63"),
            ("[[path]]\nname='a'\nhost='b'\nlosses=0", "above 0"),
            ("[[path]]\nname='a'\nhost='b'\nlosses=11", "never sent"),
            ("[[path]]\nname='a'\nhost='b'\n[[threads]]\nname='a'\ncpus='0'", "same name"),
            ("[[threads]]\nname='a'", "which threads"),
            ("[[threads]]\nname='a'\ncpus='2-'", "2-"),
            ("[[threads]]\nname='a'\ngroup='audio'", "is the directory"),
            ("[[threads]]\nname='a'\ngroup='/a'\nunit='b'", "one way only"),
            ("[[threads]]\nname='a'\nunit=''", "name of a unit"),
            ("[[threads]]\nname='a'\nunit='a/b'", "name of a unit"),
            ("[[threads]]\nname='a'\ncpus='0'\nwait='1us'", "10us or more"),
            ("[[threads]]\nname='a'\ncpus='0'\n[[receiver]]\nname='a'\nport=1\ngap='1s'", "same name"),
            ("colour = 1", "unknown field `colour`"),
            ("[hook]\ncommand = []\n[[receiver]]\nname='a'\nport=1\ngap='1s'", "the program first"),
            ("cpus='0'\n[hook]\nurl = 'ftp://a/b'", "url is an address"),
            ("cpus='0'\n[hook]\nurl = '/b'", "url is an address"),
            ("cpus='0'\nmetrics = '[::]:9469'", "listen at 127.0.0.1:9469"),
            ("cpus='0'\nmetrics = '0.0.0.0:1'\n[metrics_access]\ntoken_file='/t'", "a certificate_file"),
            (
                "cpus='0'\nmetrics = '0.0.0.0:1'\n[metrics_access]\ncertificate_file='/c'\nkey_file='/k'",
                "a token_file",
            ),
            ("cpus='0'\n[metrics_access]\nkey_file='/k'", "go together"),
            ("[window]\nbefore = '3'", "`3` has no unit"),
            ("[window]\nafter = '2h'\n[[receiver]]\nname='a'\nport=1\ngap='1s'", "60 s long at most"),
            ("[[receiver]]\nname='a b'\nport=1\ngap='1s'", "a name has"),
            ("[[receiver]]\nname='a'\ngap='1s'", "say which process"),
            ("[[receiver]]\nname='a'\npid=1\ncomm='x'\ngap='1s'", "one way only"),
            ("[[receiver]]\nname='a'\nunit=''\ngap='1s'", "name of a unit"),
            ("[[receiver]]\nname='a'\nport=1", "no trigger"),
            ("[[receiver]]\nname='a'\nport=0\ngap='1s'", "above 0"),
            ("[[receiver]]\nname='a'\ncomm='0123456789abcdef'\ngap='1s'", "1 to 15 bytes"),
            ("[limits]\ncpu_percent=nan\n[[receiver]]\nname='a'\nport=1\ngap='1s'", "above 0"),
            (
                "[[receiver]]\nname='a'\nport=1\ngap='1s'\n[[receiver]]\nname='a'\nport=2\ngap='1s'",
                "same name",
            ),
        ];
        for (text, expected) in cases {
            let why = Settings::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
