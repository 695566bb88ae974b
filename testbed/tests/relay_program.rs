//! The relay as a program.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn packet(sequence: i32) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut octets = (now.as_nanos() as i64).to_be_bytes().to_vec();
    octets.extend(sequence.to_be_bytes());
    octets
}

fn relay() -> Command {
    Command::new(env!("CARGO_BIN_EXE_relay"))
}

#[test]
fn it_impairs_by_its_script_until_interrupted_and_prints_totals() {
    let folder = tempfile::tempdir().unwrap();
    let (script, log) = (folder.path().join("script.toml"), folder.path().join("log.jsonl"));
    std::fs::write(
        &script,
        "[[up]]\npackets = [1, 2]\ndrop = true\n[[up]]\npackets = [0]\nduplicate = { copies = 2 }\n",
    )
    .unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut program = relay()
        .args(["127.0.0.1:1", "--control-port", "0", "--test-port", "0", "--server-test-port"])
        .arg(server.local_addr().unwrap().port().to_string())
        .arg("--script")
        .arg(&script)
        .arg("--log")
        .arg(&log)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.split("port ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in [0, 1, 2, 3, -1] {
        client.send_to(&packet(number), SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    }
    let mut room = [0; 64];
    let numbers = [(); 5].map(|()| {
        assert_eq!(server.recv(&mut room).unwrap(), 12);
        i32::from_be_bytes(room[8..12].try_into().unwrap())
    });
    assert_eq!(numbers, [0, 0, 0, 3, -1]);
    let pid = rustix::process::Pid::from_child(&program);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = program.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["arrived", "4", "0"]), "{text}");
    assert!(words.contains(&vec!["dropped", "by", "a", "rule", "2", "0"]), "{text}");
    assert!(words.contains(&vec!["beyond", "the", "first", "2", "0"]), "{text}");
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 5);
}

#[test]
fn the_example_is_a_script_and_mistakes_are_told() {
    let example = relay().arg("--example").output().unwrap().stdout;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    std::fs::write(&script, [&example[..], b"[[up]]\nprobability = 2.0\ndrop = true\n"].concat()).unwrap();
    let output = relay().arg("127.0.0.1:1").arg("--script").arg(&script).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("script.toml") && text.contains("no probability"), "{text}");
}
