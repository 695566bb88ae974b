//! A receiver that is watched all the time: a glitch at a random moment becomes an incident that names its cause, a quiet
//! stretch becomes none, and a watch that is killed leaves nothing that the next one stumbles over.

mod access;
mod disk;
mod links;
mod native;
mod receivers;
mod support;
mod webhook;

use quaver_testbed::inject::{schedule, thread};
use quaver_testbed::phase;
use quaver_testbed::ports::free_port;
use quaver_testbed::privileged::{Lack, privileged, skip};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Ended, GLITCH, Receiver, Sender, Watch, alone_on_cpu_0, get, note, stop_for_a_while, summary};

impl Watch {
    /// Prometheus with these features and rules, which asks the watch each second, and its port; none where it is not installed.
    fn prometheus(&self, features: &str, rules: &str) -> Option<(Ended, u16)> {
        let port = free_port();
        let settings = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: {rules}\n\
             scrape_configs:\n- job_name: watch\n  static_configs: [ targets: ['127.0.0.1:{}'] ]\n",
            self.metrics
        );
        std::fs::write(self.path("prometheus.yaml"), settings).unwrap();
        let mut program = Command::new("prometheus");
        program.arg(format!("--config.file={}", self.path("prometheus.yaml").display()));
        program.arg(format!("--storage.tsdb.path={}", self.path("series").display()));
        program.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        program.arg(format!("--enable-feature={features}"));
        let log = std::fs::File::create(self.path("prometheus.log")).unwrap();
        let daemon = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        daemon.ok().map(|daemon| (Ended(daemon), port))
    }

    /// Prometheus with the shipped rules, which asks the watch each second, raises an alert for each cause and names its incident.
    fn raises_alerts(&self, causes: &[(&str, &Path)]) {
        let rules = concat!("['", env!("CARGO_MANIFEST_DIR"), "/../packaging/watch/alerts.yaml']");
        let Some((_daemon, port)) = self.prometheus("exemplar-storage", rules) else {
            return skip("alerts of a live watch", Lack::Installed("prometheus"));
        };
        for (cause, incident) in causes {
            self.wait("an alert", |_| has_alert(port, cause));
            let id = incident.file_name().unwrap().to_str().unwrap();
            let of_cause = format!("quaver_watch_incidents_total%7Bcause=%22{cause}%22%7D");
            self.wait("its incident", |_| exemplars(port, &of_cause).iter().any(|name| name == id));
        }
        // The packets of both waited in this host.
        let held = exemplars(port, "quaver_watch_delivery_seconds_bucket%7Ble=%221.0%22%7D");
        assert!(
            held.iter().all(|name| causes.iter().any(|(_, path)| path.ends_with(name))) && !held.is_empty()
        );
    }
}

/// Incidents that Prometheus has as examples of the last ten minutes.
fn exemplars(port: u16, query: &str) -> Vec<String> {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let range = format!("start={}&end={}", now_s - 600, now_s + 1);
    let answer = get(port, &format!("/api/v1/query_exemplars?query={query}&{range}")).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("{}", |(_, body)| body);
    let found: Value = serde_json::from_str(body).unwrap_or_default();
    let series = found["data"].as_array().cloned().unwrap_or_default();
    let all = series.iter().flat_map(|one| one["exemplars"].as_array().unwrap().clone());
    all.map(|one| one["labels"]["incident"].as_str().unwrap().to_owned()).collect()
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

fn random_pause() {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    std::thread::sleep(Duration::from_millis(u64::from(nanos / 1_000 % 700)));
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
    let first = Receiver::start(0);
    let port = first.port;
    let sender = Sender::start(port);
    let watch = Watch::of(port);
    let daemon = watch.start();
    watch.wait_watching(1);
    // A quiet stretch.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(watch.incidents(), [] as [PathBuf; 0], "{}", watch.log());
    random_pause();
    stop_for_a_while(first.pid());
    watch.wait_incidents(1);
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
    watch.raises_alerts(&[("stopped", &stopped), ("rt-thread", &burst)]);
    // Killed: the next one goes on with what is kept, and finds a receiver that was restarted.
    drop(daemon);
    std::fs::create_dir_all(watch.path("data/staging/watch-half")).unwrap();
    let daemon = watch.start();
    watch.wait_watching(2);
    assert!(!watch.path("data/staging/watch-half").exists());
    drop(first);
    watch.wait("the end of the receiver", |watch| watch.log().contains("is gone"));
    let second = Receiver::start(port);
    watch.wait_watching(3);
    assert!(watch.ask("trigger").ends_with(": 1\n"));
    watch.wait("the incident that was asked for", |watch| watch.incidents().len() == 3);
    assert!(watch.ask("status").contains("studio: "), "{}", watch.ask("status"));
    // The hook is called while the receiver still hangs.
    kill_process(second.pid(), Signal::STOP).unwrap();
    watch.wait("the third of its kind", |_| note(&stopped)["count"] == 3);
    assert!(watch.metric("quaver_watch_triggers_total{receiver=\"studio\",reason=\"unread\"}") > 0.0);
    let told = || std::fs::read_to_string(watch.path("told")).unwrap_or_default();
    watch.wait("the hook", |_| told().lines().any(|line| line == "stopped 3"));
    assert!(told().starts_with("stopped 1\n"), "{}", told());
    watch.end(daemon);
    drop(sender);
}
