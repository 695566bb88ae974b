//! Verbs that read foreign input give up what they do not need, and work: also where the kernel has no way to hold them to it.

use super::row::{Ground, Server};
use quaver_testbed::privileged::privileged;
use quaver_testbed::refusal::{self, Answer, Call};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");

/// Fields of a process's status in /proc.
fn status_of(process: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim().to_owned()
}

fn probed(server: &Server, words: &str, runs: &Path) -> Output {
    let mut command = Command::new(QUAVER);
    command.args(["probe", "-q", "--for", "100ms", "--fail-if", "up.loss.packets > 0", "-o"]).arg(runs);
    command.args(words.split_whitespace()).args(server.words().split(' '));
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_server_is_confined_and_serves() {
    let server = Server::start();
    let process = server.process();
    assert_eq!(status_of(process, "NoNewPrivs"), "1");
    assert_eq!(status_of(process, "Seccomp"), "2");
    let capabilities = u64::from_str_radix(&status_of(process, "CapEff"), 16).unwrap();
    // CAP_NET_BIND_SERVICE, NET_ADMIN, NET_RAW, IPC_LOCK, SYS_NICE at most.
    assert_eq!(capabilities & !(1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 23), 0, "{capabilities:x}");
    let runs = tempfile::tempdir().unwrap();
    for words in ["", "--tcp", "--at-once"] {
        let output = probed(&server, words, runs.path());
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn where_the_kernel_confines_nobody_verbs_work_and_a_server_says_so() {
    let ground = Ground::make();
    let lacks = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp, libc::SYS_capset];
    let run = ground.run();
    let under = |words: &[&str]| {
        let mut command = Command::new(QUAVER);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        refusal::start(&mut command, &lacks, |_| Answer::Fail(libc::ENOSYS)).unwrap()
    };
    let analysed = under(&["analyze", run.to_str().unwrap()]).output().unwrap();
    assert!(analysed.status.success(), "{}", String::from_utf8_lossy(&analysed.stderr));
    let mut serving = under(&["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
    let mut said = String::new();
    let heard = serving.child.stderr.as_mut().unwrap();
    while !said.contains("listening") {
        let mut octet = [0];
        std::io::Read::read_exact(heard, &mut octet).unwrap();
        said.push(char::from(octet[0]));
    }
    serving.child.kill().unwrap();
    serving.output().unwrap();
    assert!(
        said.contains("not confined in full: Landlock is not in this kernel; seccomp is not to be had here"),
        "{said}"
    );
}

/// Ended when dropped.
struct Watch(std::process::Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asked_at(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_watch_keeps_the_rights_to_trace_and_its_answering_threads_none() {
    let place = tempfile::tempdir().unwrap();
    let port = quaver_testbed::ports::free_port();
    let settings = format!(
        "directory = '{0}'\nsocket = '{0}/watch.sock'\nmetrics = '127.0.0.1:{port}'\n\
         [[receiver]]\nname = 'nobody'\nport = {port}\ngap = '1s'\n",
        place.path().display()
    );
    let file = place.path().join("watch.toml");
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new(QUAVER);
    command.args(["watch", "--config"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
    let watch = Watch(command.stderr(Stdio::null()).spawn().unwrap());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let page = loop {
        let mut asked = Command::new(QUAVER);
        asked.args(["watch", "metrics", "--socket"]).arg(place.path().join("watch.sock"));
        let output = asked.output().unwrap();
        if output.status.success() {
            break String::from_utf8(output.stdout).unwrap();
        }
        assert!(std::time::Instant::now() < until, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(page.ends_with("# EOF\n"), "{page}");
    // Both have answered: before that, a thread may still have its parent's name and rights.
    assert!(asked_at(port).ends_with("# EOF\n"));
    // CAP_DAC_OVERRIDE, DAC_READ_SEARCH, SYS_PTRACE, SYSLOG, PERFMON, BPF.
    let kept = 1 << 1 | 1 << 2 | 1 << 19 | 1 << 34 | 1 << 38 | 1 << 39;
    let mut answering = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", watch.0.id())).unwrap() {
        let task: u32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let capabilities = u64::from_str_radix(&status_of(task, "CapEff"), 16).unwrap();
        assert_eq!(status_of(task, "Seccomp"), "2");
        if status_of(task, "Name") == "watch-http" {
            answering += 1;
            assert_eq!(capabilities, 0);
        }
        assert_eq!(capabilities & !kept, 0, "{capabilities:x}");
    }
    assert_eq!(answering, 2, "one at the socket, one at the address");
}

/// Commands, and a file that each opens because others wrote it.
const READERS: [(&str, &str); 4] = [
    ("compare {run} {run}", "samples.parquet"),
    ("scrub {run} -o out", "samples.parquet"),
    ("migrate {run} -o out", "samples.parquet"),
    ("runs --root .", "manifest.json"),
];

#[test]
fn whoever_reads_what_others_wrote_has_files_and_no_further_right() {
    if !privileged("whoever_reads_what_others_wrote_has_files_and_no_further_right") {
        return;
    }
    let ground = Ground::make();
    for (words, file) in READERS {
        let place = tempfile::tempdir().unwrap();
        let words = words.replace("{run}", ground.run().to_str().unwrap());
        let words =
            words.replace("--root .", &format!("--root {}", ground.run().parent().unwrap().display()));
        let mut command = Command::new(QUAVER);
        command.args(words.split_whitespace()).current_dir(place.path()).env_remove("QUAVER_RUNS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let opened = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&opened);
        let judge = move |call: &Call| {
            if call.text(1).is_some_and(|name| name.contains(file)) {
                let capabilities = u64::from_str_radix(&status_of(call.thread, "CapEff"), 16).unwrap();
                let filters: u32 = status_of(call.thread, "Seccomp_filters").parse().unwrap();
                seen.lock().unwrap().push((capabilities, status_of(call.thread, "NoNewPrivs"), filters));
            }
            Answer::GoOn
        };
        let output = refusal::start(&mut command, &[libc::SYS_openat], judge).unwrap().output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        let opened = opened.lock().unwrap();
        assert!(!opened.is_empty(), "{words}: {file} was not opened");
        // CAP_DAC_OVERRIDE, DAC_READ_SEARCH.
        let kept = 1 << 1 | 1 << 2;
        assert!(opened.iter().all(|(capabilities, ..)| capabilities & !kept == 0), "{words}: {opened:x?}");
        assert!(opened.iter().all(|(_, forever, _)| forever == "1"), "{words}");
        assert!(opened.iter().all(|(.., filters)| *filters > 2), "{words}: ours is one, its own are more");
    }
}

/// A run whose samples are a link to those of another place, which root may read.
fn led_astray(ground: &Ground, place: &Path, elsewhere: &Path) -> std::path::PathBuf {
    let (run, other) = (place.join("runs/bait"), elsewhere.join("other.parquet"));
    std::fs::create_dir_all(place.join("runs")).unwrap();
    let copied = Command::new("cp").arg("-r").arg(ground.run()).arg(&run).status().unwrap();
    assert!(copied.success());
    let samples = run.join("samples.parquet");
    std::fs::rename(&samples, &other).unwrap();
    std::os::unix::fs::symlink(&other, samples).unwrap();
    run
}

#[test]
fn a_link_in_a_run_leads_to_no_file_outside() {
    let ground = Ground::make();
    for words in [
        "analyze {run}",
        "analyze {run} --shard 1/1",
        "report {run} -o page",
        "compare {run} {run}",
        "migrate {run} -o out",
    ] {
        let [place, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let run = led_astray(&ground, place.path(), elsewhere.path());
        let words = words.replace("{run}", run.to_str().unwrap());
        let tried = |lacks: &[i64]| {
            let mut command = Command::new(QUAVER);
            command.args(words.split_whitespace()).current_dir(place.path()).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            refusal::start(&mut command, lacks, |_| Answer::Fail(libc::ENOSYS)).unwrap().output().unwrap()
        };
        let confined = tried(&[]);
        let said = String::from_utf8_lossy(&confined.stderr);
        assert!(!confined.status.success() && said.contains("ermission denied"), "{words}: {said}");
        // Only the confinement keeps it from that.
        let free = tried(&[libc::SYS_landlock_create_ruleset]);
        assert!(free.status.success(), "{words}: {}", String::from_utf8_lossy(&free.stderr));
    }
}

#[test]
fn the_program_that_answers_questions_has_files_alone() {
    let ground = Ground::make();
    let place = tempfile::tempdir().unwrap();
    let (program, kept) = (place.path().join("duckdb"), place.path().join("kept"));
    let script = format!(
        "#!/bin/bash\ngrep CapEff /proc/self/status > {0}\ncat {1}/manifest.json > /dev/null && echo read >> {0}\n\
         {{ exec 3<>/dev/udp/127.0.0.1/9; }} 2>> {0} || echo refused >> {0}\n",
        kept.display(),
        ground.run().display()
    );
    quaver_testbed::stand_in::stand_in(&program, &script);
    let mut command = Command::new(QUAVER);
    command.args(["query", "FROM runs"]).arg(ground.run()).env("QUAVER_DUCKDB", &program);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(kept).unwrap();
    let capabilities = text.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    let capabilities = u64::from_str_radix(capabilities, 16).unwrap();
    // CAP_DAC_OVERRIDE, DAC_READ_SEARCH.
    assert_eq!(capabilities & !(1 << 1 | 1 << 2), 0, "{text}");
    assert!(
        text.contains("\nread\n") && text.contains("not permitted") && text.ends_with("refused\n"),
        "{text}"
    );
}

#[test]
fn the_thread_that_sees_captured_packets_has_no_right_but_to_write_them() {
    if !privileged("the_thread_that_sees_captured_packets_has_no_right_but_to_write_them") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("all.pcapng");
    let mut command = Command::new(QUAVER);
    command
        .args(["capture", "-i", "lo", "--json", "--ring-files", "9", "--file-size", "4kB", "-o"])
        .arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let named = |name: &str| {
        let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut tasks = tasks.map(|task| task.file_name().to_str().unwrap().parse::<u32>().unwrap());
        tasks.find(|task| status_of(*task, "Name") == name)
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let confined = |task: u32| status_of(task, "Seccomp") == "2";
    let writer = loop {
        if let Some(task) = named("quaver-write").filter(|task| confined(*task)) {
            break task;
        }
        assert!(std::time::Instant::now() < until, "no confined thread writes");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    // CAP_DAC_OVERRIDE.
    let capabilities = u64::from_str_radix(&status_of(writer, "CapEff"), 16).unwrap();
    assert_eq!(capabilities & !(1 << 1), 0, "{capabilities:x}");
    assert_eq!(status_of(writer, "NoNewPrivs"), "1");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        socket.send_to(&[7; 100], socket.local_addr().unwrap()).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Files after the first were made by that thread.
    assert!(
        std::fs::read_dir(place.path()).unwrap().count() > 1,
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
