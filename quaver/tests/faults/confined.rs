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
    field_of(process, name).expect("it lives")
}

/// The same of a thread that may end meanwhile.
fn field_of(thread: u32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Some(value.expect("the kernel has it").trim().to_owned())
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
         [hook]\nurl = 'http://127.0.0.1:{port}/'\n\
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
    let (mut answering, mut sending) = (0, 0);
    for task in std::fs::read_dir(format!("/proc/{}/task", watch.0.id())).unwrap() {
        let task: u32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let capabilities = u64::from_str_radix(&status_of(task, "CapEff"), 16).unwrap();
        assert_eq!(status_of(task, "Seccomp"), "2");
        let name = status_of(task, "Name");
        answering += u32::from(name == "quaver-http");
        sending += u32::from(name == "watch-webhook");
        assert!(capabilities == 0 || !["quaver-http", "watch-webhook"].contains(&name.as_str()), "{name}");
        assert_eq!(capabilities & !kept, 0, "{capabilities:x}");
    }
    assert_eq!((answering, sending), (2, 1), "one at the socket, one at the address, one for the hook");
}

/// Commands, and a file that each reads because others wrote it, or because others had a part in what is in it.
const READERS: [(&str, &str); 8] = [
    ("compare {run} {run}", "samples.parquet"),
    ("scrub {run} -o out", "samples.parquet"),
    ("migrate {run} -o out", "samples.parquet"),
    ("runs --root .", "manifest.json"),
    (
        "chase --for 100ms --period 1ms --pace sleep --receive block --lab loopback --tier user --no-cost -q -o out",
        "samples.parquet",
    ),
    ("noise --for 100ms --tier user -q -o out", ".parquet"),
    ("sync -q -o out -- sleep 0.1", "waits.parquet"),
    ("sink 127.0.0.1:{port} --count 20 -q -o out", "samples.parquet"),
];

/// Rights of a thread: its capabilities, and whether none come back.
fn rights_of(thread: u32) -> Option<(u64, bool)> {
    let capabilities = u64::from_str_radix(&field_of(thread, "CapEff")?, 16).unwrap();
    Some((capabilities, field_of(thread, "NoNewPrivs")? == "1"))
}

/// Ended when dropped.
struct Source(std::process::Child);

impl Source {
    /// Sends to a port of this host until then.
    fn start(port: &str) -> Self {
        let mut command = Command::new(QUAVER);
        command.args(["source", &format!("127.0.0.1:{port}"), "--period", "1ms", "--pace", "sleep", "-q"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CAP_DAC_OVERRIDE, DAC_READ_SEARCH, NET_BIND_SERVICE, NET_ADMIN, NET_RAW, IPC_LOCK, SYS_NICE.
const TO_SEND: u64 = 1 << 1 | 1 << 2 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 23;

#[test]
fn whoever_has_a_peer_keeps_what_sends_and_stores_and_no_further_right() {
    if !privileged("whoever_has_a_peer_keeps_what_sends_and_stores_and_no_further_right") {
        return;
    }
    let server = Server::start();
    let reflector = quaver_testbed::ports::free_port();
    for words in [
        format!("probe {} --for 100ms -q -o out --log up.log --gnuplot new/plots", server.words()),
        format!("probe {} --at-once --for 100ms -q -o out", server.words()),
        format!("probe 127.0.0.1 --stamp {reflector} --count 3 --period 1ms -q -o out"),
        format!("jitlat 127.0.0.1 --control-port {reflector}"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new(QUAVER);
        command.args(words.split_whitespace()).current_dir(place.path()).env_remove("QUAVER_RUNS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sent);
        let judge = move |call: &Call| {
            let filters: u32 = status_of(call.thread, "Seccomp_filters").parse().unwrap();
            seen.lock().unwrap().push((rights_of(call.thread).expect("it is in a call"), filters));
            Answer::GoOn
        };
        let calls = [libc::SYS_connect, libc::SYS_sendto];
        let output = refusal::start(&mut command, &calls, judge).unwrap().output().unwrap();
        // Nobody reflects, and nobody speaks Jitlat at that port: status 4.
        let wanted = if words.contains(&reflector.to_string()) { 4 } else { 0 };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(wanted), "{words}: {said}");
        let sent = sent.lock().unwrap();
        assert!(!sent.is_empty(), "{words}: nothing was sent");
        for ((capabilities, forever), filters) in sent.iter() {
            assert!(capabilities & !TO_SEND == 0 && *forever && *filters > 2, "{words}: {sent:x?}");
        }
        if words.contains("gnuplot") {
            assert!(place.path().join("up.log").is_file() || place.path().join("new/plots/up").is_dir());
        }
    }
}

/// CAP_IPC_LOCK.
const LOCKS: u64 = 1 << 14;

/// Names of threads of a process with their rights, as soon as each of `names` is there with the capabilities that it may have.
fn threads_with(process: u32, names: &[(&str, u64)]) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let tasks =
            Vec::from_iter(tasks.map(|task| task.file_name().to_str().unwrap().parse::<u32>().unwrap()));
        let has = |(name, kept): &(&str, u64)| {
            let mut named = tasks.iter().filter(|task| field_of(**task, "Name").as_deref() == Some(name));
            named.any(|task| {
                rights_of(*task).is_some_and(|(capabilities, forever)| forever && capabilities & !kept == 0)
            })
        };
        if names.iter().all(has) {
            return;
        }
        assert!(std::time::Instant::now() < until, "no such threads: {names:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_thread_that_sends_or_takes_packets_keeps_its_socket_and_no_right() {
    if !privileged("a_thread_that_sends_or_takes_packets_keeps_its_socket_and_no_right") {
        return;
    }
    let port = quaver_testbed::ports::free_port().to_string();
    let _source = Source::start(&port);
    // CAP_CHECKPOINT_RESTORE, BPF, PERFMON, SYSLOG, SYS_PTRACE beside those.
    let observes = TO_SEND | 1 << 19 | 1 << 34 | 1 << 38 | 1 << 39 | 1 << 40;
    let chase = format!("chase --listen 127.0.0.1:{port} --for 2s --receive block --no-cost -q -o out");
    let sink = format!("sink 127.0.0.1:{port} --for 2s -q -o out");
    let chase_here =
        "chase --for 2s --period 1ms --pace sleep --receive block --tier user --no-cost -q -o out";
    let capture = "capture -i lo --for 2s -q -o out";
    for (words, names) in [
        (chase.as_str(), [("quaver", observes), ("quaver-sink", LOCKS)]),
        (sink.as_str(), [("quaver", TO_SEND), ("quaver-sink", LOCKS)]),
        (chase_here, [("quaver-source", LOCKS), ("quaver-sink", LOCKS)]),
        (capture, [("quaver", observes), ("quaver-capture", LOCKS)]),
    ] {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new(QUAVER);
        command.args(words.split_whitespace()).current_dir(place.path()).env_remove("QUAVER_RUNS");
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        threads_with(child.id(), &names);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_table_of_rights_is_what_is_enforced() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SECURITY.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let table = quaver_host::confinement::table();
    let start = written.find(table.lines().next().unwrap()).expect("its head");
    let length = written[start..].find("\n\n").expect("its end") + 1;
    let made = format!("{}{table}{}", &written[..start], &written[start + length..]);
    if std::env::var_os("QUAVER_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written == made, "SECURITY.md differs; QUAVER_BLESS=1 rewrites it");
}

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
        let port = quaver_testbed::ports::free_port().to_string();
        let source = words.contains("{port}").then(|| Source::start(&port));
        let words = words.replace("{port}", &port);
        let mut command = Command::new(QUAVER);
        command.args(words.split_whitespace()).current_dir(place.path()).env_remove("QUAVER_RUNS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let opened = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&opened);
        let judge = move |call: &Call| {
            if call.text(1).is_some_and(|name| name.contains(file)) {
                let filters: u32 = status_of(call.thread, "Seccomp_filters").parse().unwrap();
                seen.lock().unwrap().push((rights_of(call.thread).expect("it is in a call"), filters));
            }
            Answer::GoOn
        };
        let output = refusal::start(&mut command, &[libc::SYS_openat], judge).unwrap().output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        drop(source);
        let opened = opened.lock().unwrap();
        assert!(!opened.is_empty(), "{words}: {file} was not opened");
        // CAP_DAC_OVERRIDE, DAC_READ_SEARCH; of who has measured also CAP_SYSLOG, to name functions of the kernel.
        let measured = ["chase", "noise", "sink", "sync"].iter().any(|verb| words.starts_with(verb));
        let kept = 1 << 1 | 1 << 2 | u64::from(measured) << 34;
        for ((capabilities, forever), filters) in opened.iter() {
            assert!(capabilities & !kept == 0 && *forever, "{words}: {opened:x?}");
            assert!(*filters > 2, "{words}: ours is one, its own are more");
        }
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
        tasks.find(|task| field_of(*task, "Name").as_deref() == Some(name))
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
