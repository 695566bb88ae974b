//! A receiver that is watched all the time: a glitch at a random moment becomes an incident that names its cause, a quiet
//! stretch becomes none, and a watch that is killed leaves nothing that the next one stumbles over.

use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_testbed::inject::{schedule, thread};
use quaver_testbed::phase;
use quaver_testbed::ports::free_port;
use quaver_testbed::privileged::{Lack, privileged, skip};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Set in the environment of the receiver program: the port, 0 for any.
const RECEIVER: &str = "QUAVER_TEST_WATCHED_RECEIVER";
const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
/// Far above what a shared machine does to a real-time thread by itself.
const LATE: &str = "150ms";
const GLITCH: Duration = Duration::from_millis(400);
/// What a wait may take: a watch needs about a second, where nobody is in its way.
const PATIENCE: Duration = Duration::from_secs(30);

/// One test at a time: all receivers are on CPU 0, which the glitches of one test would take from those of another.
static ON_CPU_0: Mutex<()> = Mutex::new(());

fn alone_on_cpu_0() -> MutexGuard<'static, ()> {
    ON_CPU_0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receiver program: real-time, on CPU 0.
#[test]
fn a_watched_receiver() {
    let Ok(port) = std::env::var(RECEIVER) else { return };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port.parse().unwrap())).unwrap();
    schedule::bind(0, 0).unwrap();
    schedule::fifo(0, 50).unwrap();
    println!("\nport {}", socket.local_addr().unwrap().port());
    let mut buffer = [0u8; 2_048];
    loop {
        socket.recv(&mut buffer).unwrap();
    }
}

struct Ended(Child);

impl Ended {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn receiver(port: u16) -> (Ended, u16) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_watched_receiver", "--nocapture"])
        .env(RECEIVER, port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let child = Ended(child);
    let port = lines.find_map(|line| line.unwrap().strip_prefix("port ").map(|port| port.parse().unwrap()));
    (child, port.unwrap())
}

/// A packet of RTP each 2 ms, until it is dropped.
struct Sender(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Sender {
    fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            schedule::fifo(0, 50).unwrap();
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let start = Instant::now();
            for number in 0u32.. {
                let due = start + Duration::from_millis(2) * number;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if stopping.load(Ordering::Relaxed) {
                    break;
                }
                let mut packet = [0u8; 200];
                (packet[0], packet[1]) = (0x80, 96);
                packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
                packet[4..8].copy_from_slice(&(number * 180).to_be_bytes());
                packet[8..12].copy_from_slice(&7u32.to_be_bytes());
                // Nobody listens while the receiver is restarted.
                let _ = socket.send_to(&packet, (Ipv4Addr::LOCALHOST, port));
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(std::thread::JoinHandle::join);
    }
}

/// A watch with its files.
struct Watch {
    place: tempfile::TempDir,
    metrics: u16,
}

impl Watch {
    fn of(port: u16) -> Self {
        let place = tempfile::tempdir().unwrap();
        let metrics = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let watch = Self { place, metrics };
        let settings = format!(
            "directory = '{0}'\nsocket = '{0}/watch.sock'\nmetrics = '127.0.0.1:{metrics}'\n\
             [window]\nbefore = '1s'\nafter = '600ms'\n\
             [hook]\ncommand = ['sh', '-c', 'echo $QUAVER_CAUSE $QUAVER_COUNT >> {0}/told']\n\
             [[receiver]]\nname = 'studio'\nport = {port}\nlate = '{LATE}'\n",
            watch.place.path().display()
        );
        std::fs::write(watch.path("watch.toml"), settings).unwrap();
        watch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn start(&self) -> Ended {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let child = Command::new(QUAVER)
            .args(["watch", "--config"])
            .arg(self.path("watch.toml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Ended(child)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{what} did not come:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The watch, or one after it, records for this time in turn, and has learned the stream's pace.
    fn wait_watching(&self, time: usize) {
        self.wait("the receiver", |watch| watch.log().matches("watching ").count() >= time);
        std::thread::sleep(Duration::from_millis(1_500));
    }

    fn ask(&self, what: &str) -> String {
        let socket = self.path("watch.sock");
        let output = Command::new(QUAVER).args(["watch", what, "--socket"]).arg(socket).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn incidents(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("incidents")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// What `/metrics` says of a sample, by the beginning of its line.
    fn metric(&self, beginning: &str) -> f64 {
        let text = get(self.metrics, "/metrics").unwrap();
        let line = text.lines().find(|line| line.starts_with(beginning));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

impl Watch {
    /// Prometheus with the shipped rules, which asks the watch each second, raises an alert for each cause.
    fn raises_alerts(&self, causes: &[&str]) {
        let port = free_port();
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/watch/alerts.yaml");
        let settings = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{rules}']\n\
             scrape_configs:\n- job_name: watch\n  static_configs: [ targets: ['127.0.0.1:{}'] ]\n",
            self.metrics
        );
        std::fs::write(self.path("prometheus.yaml"), settings).unwrap();
        let mut program = Command::new("prometheus");
        program.arg(format!("--config.file={}", self.path("prometheus.yaml").display()));
        program.arg(format!("--storage.tsdb.path={}", self.path("series").display()));
        program.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let log = std::fs::File::create(self.path("prometheus.log")).unwrap();
        let Ok(daemon) = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn() else {
            return skip("alerts of a live watch", Lack::Installed("prometheus"));
        };
        let _daemon = Ended(daemon);
        for cause in causes {
            self.wait("an alert", |_| has_alert(port, cause));
        }
    }
}

/// Whether Prometheus raises an alert for the receiver because of this cause.
fn has_alert(port: u16, cause: &str) -> bool {
    let answer = get(port, "/api/v1/alerts").unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("{}", |(_, body)| body);
    let alerts: Value = serde_json::from_str(body).unwrap_or_default();
    let alerts = alerts["data"]["alerts"].as_array().cloned().unwrap_or_default();
    let is_it = |alert: &Value| {
        let labels = &alert["labels"];
        let names = [&labels["alertname"], &labels["receiver"], &labels["cause"]];
        names == ["QuaverIncident", "studio", cause] && alert["state"] == "firing"
    };
    alerts.iter().any(is_it)
}

fn summary(incident: &Path) -> Value {
    RunDir::open(incident).unwrap().read_summary().unwrap()
}

fn note(incident: &Path) -> Value {
    RunDir::open(incident).unwrap().read_manifest().unwrap().asked["incident"].clone()
}

fn random_pause() {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    std::thread::sleep(Duration::from_millis(u64::from(nanos / 1_000 % 700)));
}

fn stop_for_a_while(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(GLITCH);
    kill_process(process, Signal::CONT).unwrap();
}

fn real_time_burst() {
    let burst = std::thread::Builder::new().name("burst".to_owned()).spawn(|| {
        schedule::bind(0, 0).unwrap();
        schedule::fifo(0, 80).unwrap();
        thread::burn_until(phase::now_ns() + GLITCH.as_nanos() as u64);
        // Its name is read while it lives.
        std::thread::sleep(Duration::from_secs(5));
    });
    drop(burst.unwrap());
}

#[test]
fn glitches_become_incidents_with_their_causes_and_quiet_and_kills_become_none() {
    if !privileged("glitches_become_incidents_with_their_causes_and_quiet_and_kills_become_none") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let (first, port) = receiver(0);
    let sender = Sender::start(port);
    let watch = Watch::of(port);
    let daemon = watch.start();
    watch.wait_watching(1);
    // A quiet stretch.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(watch.incidents(), [] as [PathBuf; 0], "{}", watch.log());
    random_pause();
    stop_for_a_while(first.pid());
    watch.wait("an incident", |watch| watch.incidents().len() == 1);
    let stopped = watch.incidents().remove(0);
    let found = summary(&stopped);
    assert_eq!(found["causes"][0]["source"], "stopped", "{}", found["causes"]);
    assert!(found["causes"][0]["share"].as_f64().unwrap() > 0.9, "{}", found["causes"]);
    assert_eq!((&note(&stopped)["cause"], &note(&stopped)["count"]), (&"stopped".into(), &1.into()));
    // The same again is counted in it; another cause is another incident.
    random_pause();
    stop_for_a_while(first.pid());
    watch.wait("the second of its kind", |_| note(&stopped)["count"] == 2);
    random_pause();
    real_time_burst();
    watch.wait("another incident", |watch| watch.incidents().len() == 2);
    let burst = watch.incidents().into_iter().find(|path| *path != stopped).unwrap();
    let cause = &summary(&burst)["causes"][0];
    assert_eq!(
        (&cause["source"], &cause["share"].as_f64().map(|share| share > 0.9)),
        (&"rt-thread".into(), &Some(true))
    );
    assert!(cause["name"].as_str().unwrap().contains("burst"), "{cause}");
    assert!(cause["remedy"]["setting"].is_string(), "{cause}");
    let sample =
        |cause: &str| format!("quaver_watch_incidents_total{{receiver=\"studio\",cause=\"{cause}\"}}");
    assert_eq!((watch.metric(&sample("stopped")), watch.metric(&sample("rt-thread"))), (1.0, 1.0));
    assert!(watch.metric("quaver_watch_packets_total") > 1_000.0);
    watch.raises_alerts(&["stopped", "rt-thread"]);
    // Killed: the next one goes on with what is kept, and finds a receiver that was restarted.
    drop(daemon);
    std::fs::create_dir_all(watch.path("staging/watch-half")).unwrap();
    let mut daemon = watch.start();
    watch.wait_watching(2);
    assert!(!watch.path("staging/watch-half").exists());
    drop(first);
    watch.wait("the end of the receiver", |watch| watch.log().contains("is gone"));
    let (second, _) = receiver(port);
    watch.wait_watching(3);
    assert!(watch.ask("trigger").ends_with(": 1\n"));
    watch.wait("the incident that was asked for", |watch| watch.incidents().len() == 3);
    assert!(watch.ask("status").contains("studio: "), "{}", watch.ask("status"));
    // One that never goes on is told while it hangs.
    kill_process(second.pid(), Signal::STOP).unwrap();
    watch.wait("the third of its kind", |_| note(&stopped)["count"] == 3);
    assert!(watch.metric("quaver_watch_triggers_total{receiver=\"studio\",reason=\"unread\"}") > 0.0);
    let told = || std::fs::read_to_string(watch.path("told")).unwrap_or_default();
    watch.wait("the hook", |_| told().lines().any(|line| line == "stopped 3"));
    assert!(told().starts_with("stopped 1\n"), "{}", told());
    kill_process(daemon.pid(), Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success(), "{}", watch.log());
    assert!(!watch.path("watch.sock").exists());
    assert_eq!(std::fs::read_dir(watch.path("staging")).unwrap().count(), 0);
    drop(sender);
}

/// A disk that takes its time: a file among the incidents that cannot be read until somebody has written it.
struct SlowDisk(PathBuf);

impl SlowDisk {
    fn below(incidents: &Path) -> Self {
        let run = RunDir::create(incidents, "watch").unwrap();
        let (asked, host) = (serde_json::json!({"incident": {}}), serde_json::json!({}));
        run.write_manifest(&Manifest::begin("1", "watch", asked, host, 0)).unwrap();
        let tags = run.path().join("tags.txt");
        rustix::fs::mknodat(CWD, &tags, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self(run.path().to_owned())
    }

    /// The other end of the file, once a reader has opened it. The reader gets nothing until this is dropped.
    fn is_waited_for(&self) -> Option<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(self.0.join("tags.txt"), flags, Mode::empty()).ok()
    }
}

#[test]
fn a_disk_that_stalls_costs_no_incident_that_memory_holds_and_the_others_are_said_to_be_lost() {
    if !privileged(
        "a_disk_that_stalls_costs_no_incident_that_memory_holds_and_the_others_are_said_to_be_lost",
    ) {
        return;
    }
    let _alone = alone_on_cpu_0();
    let (receiver, port) = receiver(0);
    let sender = Sender::start(port);
    let watch = Watch::of(port);
    let mut daemon = watch.start();
    watch.wait_watching(1);
    let disk = SlowDisk::below(&watch.path("incidents"));
    stop_for_a_while(receiver.pid());
    let mut held = None;
    watch.wait("the writer", |_| {
        held = disk.is_waited_for();
        held.is_some()
    });
    let waiting =
        |count: f64| watch.wait("a window", |_| watch.metric("quaver_watch_waiting_windows") == count);
    for count in [1.0, 2.0] {
        stop_for_a_while(receiver.pid());
        waiting(count);
    }
    // Settings are read all the same; memory now holds the worst window alone.
    let settings = std::fs::read_to_string(watch.path("watch.toml")).unwrap();
    let settings = settings.replace("[hook]", "[limits]\nwaiting_mib = 0\n[hook]");
    std::fs::write(watch.path("watch.toml"), settings).unwrap();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    watch.wait("the settings", |watch| watch.log().contains("new settings are in force"));
    watch.wait_watching(2);
    stop_for_a_while(receiver.pid());
    let lost = || watch.metric("quaver_watch_lost_incidents_total");
    watch.wait("the loss", |_| lost() == 2.0);
    waiting(1.0);
    let said = watch.log().matches("Z is lost: limits.waiting_mib holds no more windows").count();
    assert_eq!((said, watch.incidents()), (2, vec![disk.0.clone()]), "{}", watch.log());
    // The disk goes on: what was in hand and what waited is kept, the second counted in the first.
    std::fs::remove_dir_all(&disk.0).unwrap();
    drop(held);
    let counts = |watch: &Watch| -> Vec<Value> {
        watch.incidents().iter().map(|incident| note(incident)["count"].clone()).collect()
    };
    watch.wait("both", |watch| counts(watch) == [2]);
    assert_eq!(
        (lost(), watch.metric("quaver_watch_triggers_total{receiver=\"studio\",reason=\"held\"}")),
        (2.0, 4.0)
    );
    kill_process(daemon.pid(), Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success(), "{}", watch.log());
    drop(sender);
}
