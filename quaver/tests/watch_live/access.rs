//! `/metrics` beyond loopback: to whoever has the token, by TLS.

use super::support::{QUAVER, Watch, said};
use quaver_testbed::privileged::{Lack, privileged, skip};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Runs a program; none where it is not there.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()
}

/// A certificate for 127.0.0.1 and its key, `NAME.pem` and `NAME-key.pem`, by openssl.
pub(super) fn make_certificate(watch: &Watch, name: &str) -> Option<()> {
    let (key, certificate) = (watch.path(&format!("{name}-key.pem")), watch.path(&format!("{name}.pem")));
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj";
    let subject = format!("/CN={name}");
    let mut arguments: Vec<&str> = words.split(' ').chain([subject.as_str()]).collect();
    arguments.extend([
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]);
    arguments.extend(["-keyout", key.to_str().unwrap(), "-out"]);
    arguments.push(certificate.to_str().unwrap());
    let made = run("openssl", &arguments)?;
    assert!(made.status.success(), "{}", said(&made));
    Some(())
}

#[test]
fn beyond_loopback_the_metrics_are_for_those_with_the_token_and_by_tls_alone() {
    let name = "beyond_loopback_the_metrics_are_for_those_with_the_token_and_by_tls_alone";
    if !privileged(name) {
        return;
    }
    let watch = Watch::of(9);
    let (metrics, here) = (watch.metrics, format!("127.0.0.1:{}", watch.metrics));
    watch.set(&here, &format!("0.0.0.0:{metrics}"));
    let check = |watch: &Watch| {
        run(QUAVER, &["watch", "--check", watch.path("watch.toml").to_str().unwrap()]).unwrap()
    };
    let refused = check(&watch);
    let why = said(&refused);
    assert!(refused.status.code() == Some(2) && why.contains("other hosts may reach"), "{why}");
    if make_certificate(&watch, "certificate").is_none() {
        return skip(name, Lack::Installed("openssl"));
    }
    let token = watch.path("token");
    std::fs::write(&token, TOKEN).unwrap();
    let place = watch.path("").display().to_string();
    let access = format!(
        "[metrics_access]\ntoken_file = '{place}token'\ncertificate_file = '{place}certificate.pem'\n\
         key_file = '{place}certificate-key.pem'\n[hook]"
    );
    watch.set("[hook]", &access);
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = check(&watch);
    assert!(said(&refused).contains("chmod o="), "{}", said(&refused));
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(check(&watch).status.success(), "{}", said(&check(&watch)));
    let daemon = watch.start();
    watch.wait("the socket", |watch| watch.path("watch.sock").exists());
    let trust = format!("{place}certificate.pem");
    let url = format!("https://{here}/metrics");
    // What curl prints, and its status: 0, 22 where it was refused, 52 or 56 without an answer, 60 without trust.
    let curl = |more: &[&str], url: &str| {
        let arguments = [&["-sS", "--fail", "--max-time", "20"], more, &[url]].concat();
        let output = run("curl", &arguments)?;
        Some((output.status.code(), said(&output)))
    };
    let header = format!("Authorization: Bearer {TOKEN}");
    let Some((status, page)) = curl(&["--cacert", &trust, "-H", &header], &url) else {
        return skip(name, Lack::Installed("curl"));
    };
    assert!(status == Some(0) && page.ends_with("# EOF\n"), "{status:?} {page}");
    let wrong = format!("{}x", &header[..header.len() - 1]);
    for more in [&["--cacert", &trust][..], &["--cacert", &trust, "-H", &wrong]] {
        let (status, page) = curl(more, &url).unwrap();
        assert!(status == Some(22) && page.contains("401"), "{status:?} {page}");
    }
    let (status, page) = curl(&["-H", &header], &url).unwrap();
    assert_eq!(status, Some(60), "nobody vouches for it: {page}");
    let (status, page) = curl(&["-H", &header], &url.replace("https", "http")).unwrap();
    assert!(status != Some(0) && !page.contains("quaver_watch"), "{status:?} {page}");
    let (status, page) =
        curl(&["--cacert", &trust, "-H", &header, "-X", "POST"], &url.replace("metrics", "trigger")).unwrap();
    assert!(status == Some(22) && page.contains("403"), "{status:?} {page}");
    // Its owner needs none of it at the Unix socket.
    assert!(watch.ask("metrics").ends_with("# EOF\n"));
    watch.end(daemon);
}
