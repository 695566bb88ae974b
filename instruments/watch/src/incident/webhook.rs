//! The webhook: sends an incident to a server as JSON, by POST.

use crate::board::Incident;
use quaver_instrument::rights;
use quaver_store::utc::rfc3339_utc_ms;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

const SCHEMA: &str = "quaver.watch-hook/1";

/// A request: where it goes, and its JSON.
pub(super) struct Post {
    url: String,
    body: String,
}

impl Post {
    pub(super) fn of(url: &str, incident: &Incident, cause: &str) -> Self {
        let run = Path::new(&incident.run);
        let told = json!({
            "schema": SCHEMA,
            "id": run.file_name().map(|name| name.to_string_lossy()),
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "line": incident.line(),
            "name": incident.subject,
            "time": rfc3339_utc_ms(incident.trigger_realtime_ns),
            "cause": cause,
            "reasons": incident.reasons,
            "words": incident.words,
            "count": incident.count,
            "run": incident.run,
        });
        Self { url: url.to_owned(), body: told.to_string() }
    }
}

/// Sends, and says of each failure once that it is one.
pub(super) struct Webhook {
    tls: TlsConfig,
    said: Option<String>,
}

impl Webhook {
    /// The calling thread gives up all but what sending takes.
    pub(super) fn confined() -> Self {
        // `SSL_CERT_FILE` may name a file anywhere.
        let webhook = Self::with_roots_of_host();
        rights::keep_to_notify();
        webhook
    }

    /// Trusts whom this host trusts.
    fn with_roots_of_host() -> Self {
        // One that is there already does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<_> = certificates.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
        let tls = TlsConfig::builder().root_certs(RootCerts::from(roots)).build();
        Self { tls, said: None }
    }

    pub(super) fn send(&mut self, post: Post, within: Duration) {
        // The rest of a URL may be secret.
        let host = post.url.parse::<Uri>().ok().and_then(|url| url.host().map(str::to_owned));
        let host = host.unwrap_or_default();
        let failed = self.answer(post, within).err();
        match &failed {
            Some(why) if failed != self.said => quaver_instrument::tell!(
                "quaver watch: the webhook at {host} was not told of an incident: {why}; check hook.url"
            ),
            None if self.said.is_some() => {
                quaver_instrument::tell!("quaver watch: incidents reach the webhook at {host} again");
            }
            _ => {}
        }
        self.said = failed;
    }

    /// Why it was not told.
    fn answer(&self, post: Post, within: Duration) -> Result<(), String> {
        let settings = ureq::Agent::config_builder()
            .timeout_global(Some(within))
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(self.tls.clone())
            .user_agent("quaver");
        let agent = ureq::Agent::from(settings.build());
        let request = agent.post(post.url).content_type("application/json");
        let status = request.send(post.body).map_err(|error| error.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hook::Hook;
    use super::super::hook::tests::incident;
    use super::*;
    use crate::config::HookSettings;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    /// A server that takes a request, answers with this, and hands over what it was sent; none where it lets it wait.
    fn serve_once(listener: TcpListener, answer: Option<&'static str>) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut all, mut part) = (Vec::new(), [0; 4_096]);
            while !all.ends_with(b"}") {
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0, "{}", String::from_utf8_lossy(&all));
                all.extend_from_slice(&part[..count]);
            }
            match answer {
                Some(status) => {
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nLocation: /b\r\n\r\n");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                // Until the other side goes.
                None => assert_eq!(stream.read(&mut part).unwrap(), 0),
            }
            String::from_utf8(all).unwrap()
        })
    }

    fn post_to(listener: &TcpListener) -> Post {
        let url = format!("http://{}/secret?a=b", listener.local_addr().unwrap());
        Post::of(&url, &incident(), "stopped")
    }

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }

    #[test]
    fn a_server_has_the_incident_as_json_by_post() {
        let listener = listener();
        let url = format!("http://{}/secret?a=b", listener.local_addr().unwrap());
        let settings = HookSettings { command: Vec::new(), url: Some(url), within: Duration::from_secs(60) };
        let mut hook = Hook::start(Some(settings)).unwrap();
        let server = serve_once(listener, Some("204 No Content"));
        hook.tell(&incident(), "stopped");
        hook.finish();
        let sent = server.join().unwrap();
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /secret?a=b HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
        let told: serde_json::Value = serde_json::from_str(body).unwrap();
        let line =
            "decoder: a packet waited 20.00 ms in this host: 97 % receiver stopped by a signal (stopped)";
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let expected = json!({
            "schema": "quaver.watch-hook/1",
            "id": "a",
            "host": host.trim(),
            "line": line,
            "name": "decoder",
            "time": "2026-11-20T16:58:00.012Z",
            "cause": "stopped",
            "reasons": "a packet waited 20.00 ms in this host",
            "words": "97 % receiver stopped by a signal (stopped)",
            "count": 2,
            "run": "incidents/a",
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn what_refuses_sends_elsewhere_or_does_not_answer_was_not_told() {
        for (answers, why) in
            [(Some("500 Oh"), "it answered 500"), (Some("302 Found"), "it answered 302"), (None, "timeout")]
        {
            let listener = listener();
            let post = post_to(&listener);
            let server = serve_once(listener, answers);
            let within = Duration::from_millis(if answers.is_some() { 60_000 } else { 300 });
            let failed = Webhook::with_roots_of_host().answer(post, within).unwrap_err();
            assert!(failed.contains(why), "{failed}");
            server.join().unwrap();
        }
        let (gone, post) = {
            let listener = listener();
            (listener.local_addr().unwrap(), post_to(&listener))
        };
        let failed = Webhook::with_roots_of_host().answer(post, Duration::from_secs(60)).unwrap_err();
        assert!(failed.contains("refused"), "{gone}: {failed}");
    }

    #[test]
    fn a_failure_is_kept_until_it_is_another_or_is_over() {
        let mut webhook = Webhook::with_roots_of_host();
        let mut told = |answers| {
            let listener = listener();
            let post = post_to(&listener);
            let server = serve_once(listener, Some(answers));
            webhook.send(post, Duration::from_secs(60));
            server.join().unwrap();
            webhook.said.clone()
        };
        assert_eq!(told("200 OK"), None);
        assert!(told("500 Oh").is_some_and(|why| why.contains("500")));
        assert!(told("404 No").is_some_and(|why| why.contains("404")));
        assert_eq!(told("200 OK"), None);
    }
}
