//! Incidents of a running watch, sent to a server.

use super::access::make_certificate;
use super::support::{PATIENCE, Receiver, Sender, Watch, alone_on_cpu_0, note, stop_for_a_while};
use quaver_testbed::privileged::{Lack, privileged, skip};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Channel, channel};

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A server with this certificate, or in plain text; what it is sent, one request after the other. In plain text it answers the
/// first with an error.
fn server(tls: Option<Arc<ServerConfig>>) -> (u16, Channel<Value>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (says, said) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, tls) = (stream.unwrap(), tls.clone());
            let secured = tls.map(|tls| ServerConnection::new(tls).unwrap());
            let is_plain = secured.is_none();
            let mut stream: BufReader<Box<dyn Stream>> = BufReader::new(match secured {
                Some(connection) => Box::new(StreamOwned::new(connection, stream)),
                None => Box::new(stream),
            });
            let (mut line, mut length, mut refused) = (String::new(), 0, false);
            while line != "\r\n" && !refused {
                line.clear();
                let read = stream.read_line(&mut line);
                refused = !is_plain && read.is_err();
                assert!(refused || read.unwrap() > 0, "the request has an end");
                let lower = line.to_lowercase();
                length = lower.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
            }
            if refused {
                continue;
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let status = if number == 0 && is_plain { "503 Later" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if says.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (port, said)
}

#[test]
fn a_server_is_told_of_each_incident_and_its_refusal_is_said_once_and_costs_nothing() {
    if !privileged("a_server_is_told_of_each_incident_and_its_refusal_is_said_once_and_costs_nothing") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let _sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let (port, told) = server(None);
    watch.set("[hook]", &format!("[hook]\nurl = 'http://127.0.0.1:{port}/hush-hush'"));
    let daemon = watch.start();
    watch.wait_watching(1);
    for count in 1..=2 {
        stop_for_a_while(receiver.pid());
        let said = told.recv_timeout(PATIENCE).unwrap();
        let incident = watch.incidents().remove(0);
        let id = incident.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            (&said["id"], &said["count"], &said["cause"]),
            (&id.into(), &count.into(), &"stopped".into())
        );
        assert_eq!((&said["name"], &note(&incident)["count"]), (&"studio".into(), &count.into()));
        let line = said["line"].as_str().unwrap();
        assert!(line.starts_with("studio: ") && line.contains("a packet waited "), "{line}");
        assert!(line.contains("receiver stopped by a signal (stopped)"), "{line}");
        // The answer is taken before the next one is sent.
        let words = ["it answered 503", "incidents reach the webhook at"][count - 1];
        watch.wait("what the log says", |watch| watch.log().contains(words));
    }
    assert_eq!(watch.log().matches("was not told of an incident").count(), 1, "{}", watch.log());
    assert!(!watch.log().contains("hush"), "a URL may be secret: {}", watch.log());
    watch.end(daemon);
}

/// What a server with this certificate needs.
fn tls(watch: &Watch, name: &str) -> Option<Arc<ServerConfig>> {
    make_certificate(watch, name)?;
    let chain = vec![CertificateDer::from_pem_file(watch.path(&format!("{name}.pem"))).unwrap()];
    let key = PrivateKeyDer::from_pem_file(watch.path(&format!("{name}-key.pem"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.unwrap().with_no_client_auth().with_single_cert(chain, key);
    Some(Arc::new(config.unwrap()))
}

#[test]
fn a_server_that_a_reload_names_is_told_by_tls_and_one_that_nobody_vouches_for_is_told_nothing() {
    let name = "a_server_that_a_reload_names_is_told_by_tls_and_one_that_nobody_vouches_for_is_told_nothing";
    if !privileged(name) {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let _sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let (Some(strange), Some(trusted)) = (tls(&watch, "stranger"), tls(&watch, "trusted")) else {
        return skip(name, Lack::Installed("openssl"));
    };
    let ((stranger, nothing), (port, told)) = (server(Some(strange)), server(Some(trusted)));
    let daemon = watch.start_trusting("trusted.pem");
    watch.wait_watching(1);
    // It began without a server.
    watch.reload(&daemon, "[hook]", &format!("[hook]\nurl = 'https://127.0.0.1:{stranger}/'"), 1);
    stop_for_a_while(receiver.pid());
    watch.wait("the refusal", |watch| {
        watch.log().contains("the webhook at 127.0.0.1 was not told of an incident: ")
    });
    assert!(watch.log().contains("UnknownIssuer") && nothing.try_recv().is_err(), "{}", watch.log());
    watch.reload(&daemon, &stranger.to_string(), &port.to_string(), 2);
    stop_for_a_while(receiver.pid());
    let said = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&said["name"], &said["cause"]), (&"studio".into(), &"stopped".into()));
    watch.wait("its answer", |watch| watch.log().contains("incidents reach the webhook at 127.0.0.1 again"));
    watch.end(daemon);
}
