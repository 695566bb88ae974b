//! `quaver serve` for tests, on ports that the system chose.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, ChildStderr, Command, Stdio};

/// The program, without what the environment would tell it.
pub(crate) fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

/// A server; ended when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    lines: BufReader<ChildStderr>,
    /// Where it listens, as `--from` takes it.
    pub(crate) far: String,
}

impl Server {
    pub(crate) fn at(address: IpAddr, options: &[&str]) -> Self {
        let mut command = quaver(&["serve", "--port", "0", "--test-port", "0", "--bind"]);
        let command = command.arg(address.to_string()).args(options);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self { child, lines, far: String::new() };
        let line = server.line_with(" for control connections");
        let rest = line.split("listening on ").nth(1).unwrap();
        server.far = rest.split(' ').next().unwrap().to_owned();
        server
    }

    /// The next line of its log with these words.
    pub(crate) fn line_with(&mut self, words: &str) -> String {
        let (mut line, mut heard) = (String::new(), Vec::new());
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.contains(words) {
                return line;
            }
            heard.push(std::mem::take(&mut line));
        }
        panic!("the server ended before it said {words:?}: {heard:?}");
    }

    /// How many packets the next stream had that has ended.
    pub(crate) fn packets_of_the_stream(&mut self) -> u64 {
        packets_of(&self.line_with(" ended after ")).unwrap()
    }
}

/// Packets of the stream that a line of the log says has ended.
pub(crate) fn packets_of(line: &str) -> Option<u64> {
    line.split(" ended after ").nth(1)?.split(' ').next()?.parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
