//! Arbitrary arguments: every option of every verb is given strings that nobody thought of. The parser refuses or takes them;
//! verbs that only read are run with them. Nothing here sends a packet or changes a setting.

mod input_checks;
mod simulator;

use clap::{Arg, Command};
use std::path::Path;
use std::process::Stdio;

/// The command line with that of the simulator, which is a program of its own.
fn program() -> Command {
    quaver::cli::command().mut_subcommand("sim", |_| quaver_sim_program::command().name("sim"))
}

/// Strings that break what takes a text apart: by bytes, at letters, as numbers, as paths.
const STRINGS: [&str; 44] = [
    "",
    " ",
    "a",
    "é",
    "aé",
    "aé,b",
    "日本語",
    "🦀",
    "e\u{301}",
    "\u{202e}x",
    "-",
    "--",
    "=",
    ",",
    ",,",
    ":",
    "::",
    "[",
    "]",
    "[]:",
    "[é]:1",
    "0",
    "-1",
    "00",
    "1é",
    "µs",
    "1µs",
    "1e999",
    "NaN",
    "inf",
    "-0.0",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999s",
    "0x10",
    "1-",
    "-1-2",
    "5-1",
    "0-65535",
    "a=b=c",
    "a > é",
    "é>1",
    ".",
    "/proc/version",
];

/// A sequence of numbers that is the same each time (Marsaglia's xorshift, 64 bits).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// Strings from pieces of what options take, in no sensible order.
fn made(count: usize) -> Vec<String> {
    const PIECES: [&str; 30] = [
        "1", "9", "0", ".", "-", ",", ":", "=", "/", "[", "]", "%", "é", "µ", "日", "ns", "us", "ms", "s",
        "kpps", "Gbit/s", "MiB", ">", "<=", "runs", "..", "l2.kib", "e308", " ", "\u{fe0f}",
    ];
    let mut numbers = Numbers(0x5eed);
    let mut one = || (0..=numbers.next(6)).map(|_| PIECES[numbers.next(PIECES.len())]).collect();
    let mut all: Vec<String> = (0..count).map(|_| one()).collect();
    all.push("é".repeat(100_000));
    all.push("9".repeat(100_000));
    all
}

/// A verb with the verbs above it.
fn verbs<'a>(command: &'a Command, above: &[&'a str], found: &mut Vec<(Vec<&'a str>, &'a Command)>) {
    let mut words = above.to_vec();
    words.push(command.get_name());
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        verbs(below, &words, found);
    }
    found.push((words, command));
}

fn words_of(verb: &[&str], arg: &Arg, text: &str) -> Vec<String> {
    let mut words: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => words.push(format!("--{long}={text}")),
        (None, Some(short)) => words.extend([format!("-{short}"), text.to_owned()]),
        (None, None) => words.extend(["--".to_owned(), text.to_owned()]),
    }
    words
}

#[test]
fn no_text_breaks_the_parser() {
    let mut program = program();
    program.build();
    let mut all = Vec::new();
    verbs(&program, &[], &mut all);
    let texts: Vec<String> = STRINGS.iter().map(|text| (*text).to_owned()).chain(made(20)).collect();
    let mut tried = 0;
    for (verb, command) in &all {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            for text in &texts {
                let words = words_of(verb, arg, text);
                let shown: Vec<String> = words.iter().map(|word| word.chars().take(80).collect()).collect();
                let parsed =
                    std::panic::catch_unwind(|| self::program().try_get_matches_from(words).map(drop));
                let Ok(parsed) = parsed else { panic!("{shown:?} breaks the parser") };
                if let Err(error) = parsed {
                    assert!(error.exit_code() == 2 || !error.use_stderr(), "{shown:?}: {error}");
                }
                tried += 1;
            }
        }
    }
    assert!(all.len() > 40 && tried > 15_000, "{} verbs, {tried} command lines", all.len());
}

/// Verbs that only read, each with the place of the text. A path that is read is not one that is written.
const READERS: [&[&str]; 22] = [
    &["analyze", "{}"],
    &["analyze", "--late={}", "."],
    &["analyze", "--fail-if={}", "/proc/version"],
    &["analyze", "--layer=nic", "{}"],
    &["report", "{}"],
    &["export", "--perfetto", "{}"],
    &["export", "--late-csv", "--late={}", "."],
    &["tune", "plan", "--only={}"],
    &["tune", "plan", "--except={}"],
    &["tune", "plan", "--cpu={}"],
    &["tune", "plan", "--interface={}"],
    &["tune", "--root=.", "plan", "--only={}"],
    &["tune", "audit", "--no-watch", "--only={}"],
    &["tune", "audit", "--no-watch", "--run={}"],
    &["tune", "audit", "--watch={}", "--only=none"],
    &["sim", "config", "--check={}"],
    &["sim", "config", "--cure", "--check={}"],
    &["sim", "trace", "info", "{}"],
    &["sim", "run", "{}"],
    &["sync", "what-if", "{}"],
    &["sync", "what-if", "--table={}"],
    &["lab", "doctor", "{}"],
];

#[test]
fn verbs_that_read_end_with_a_sentence_whatever_they_are_given() {
    let place = tempfile::tempdir().expect("a directory");
    let texts = [
        "",
        "é",
        "aé",
        "aé,b",
        "日本語",
        "🦀",
        "a",
        "-",
        "0",
        "5-1",
        "0-65535",
        "99999999999999999999",
        "/proc/version",
        "/dev/null",
    ];
    let mut wrong = Vec::new();
    for reader in READERS {
        for text in texts {
            let words: Vec<String> = reader.iter().map(|word| word.replace("{}", text)).collect();
            if let Err(how) = run(place.path(), &words) {
                wrong.push(format!("{words:?}: {how}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left: Vec<_> =
        std::fs::read_dir(place.path()).expect("it is there").flatten().map(|one| one.path()).collect();
    assert!(left.is_empty(), "readers wrote {left:?}");
}

/// Runs the program, which has nothing to read but what it is told.
fn run(place: &Path, words: &[String]) -> Result<(), String> {
    simulator::build_simulator();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(words)
        .current_dir(place)
        .env_remove("RUST_BACKTRACE")
        .env_remove("QUAVER_RUNS")
        .stdin(Stdio::null())
        .output()
        .expect("the program was built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(()),
        // What was asked for makes no sense, is not to be had here, or is no input.
        Some(2 | 3 | 5) if said.contains(' ') && !said.contains("panicked") => Ok(()),
        code => Err(format!("ends with {code:?}: {said}")),
    }
}

#[test]
fn a_full_terminal_ends_no_verb_by_a_panic() {
    simulator::build_simulator();
    let mut program = program();
    program.build();
    let mut all = Vec::new();
    verbs(&program, &[], &mut all);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let place = tempfile::tempdir().unwrap();
    let status = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(arguments).current_dir(place.path()).stdin(Stdio::null());
        let ended = command.stdout(full()).stderr(full()).status().unwrap();
        ended.code().unwrap_or_else(|| panic!("{arguments:?}: {ended}"))
    };
    for (verb, _) in &all {
        let with = |word| verb[1..].iter().copied().chain([word]).collect::<Vec<&str>>();
        // Output cannot be written.
        assert_eq!(status(&with("--no-such-option")), 6, "{verb:?}");
        assert_eq!(status(&with("--help")), 6, "{verb:?}");
    }
    for reading in ["runs", "analyze no-such-run", "report no-such-run", "compare a -- b", "tune status"] {
        let arguments: Vec<&str> = reading.split(' ').collect();
        assert_ne!(status(&arguments), 101, "{reading}");
    }
}

/// Files that fuzzing begins with, by check: settings that are right, results of other tools, a run, a log.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut seeds = Vec::new();
    let mut all_of = |check: &'static str, folder: &str| {
        for file in std::fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path()) {
            seeds.extend(std::fs::read(file).ok().map(|octets| (check, octets)));
        }
    };
    all_of("peers", "instruments/peers/tests/data");
    all_of("settings", "instruments/study/assets");
    for check in input_checks::ALL {
        // Inputs that fuzzers found, and some to begin with.
        let folder = format!("fuzz/seeds/{}", check.0);
        if root.join(&folder).is_dir() {
            all_of(check.0, &folder);
        }
    }
    for (check, file) in [
        ("settings", "instruments/watch/src/example.toml"),
        ("manifest", "quaver/tests/migrate/kept/chase-2026-11-25/manifest.json"),
        ("manifest", "quaver/tests/migrate/kept/probe-2026-11-25/manifest.json"),
    ] {
        seeds.push((check, std::fs::read(root.join(file)).unwrap()));
    }
    seeds
}

#[test]
fn damaged_inputs_are_refused_or_read() {
    let mut state = 1_u64;
    let mut below = move |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit.max(1)
    };
    let seeds = seeds();
    for (name, check) in input_checks::ALL {
        let own: Vec<&Vec<u8>> = seeds.iter().filter(|seed| seed.0 == name).map(|seed| &seed.1).collect();
        assert!(!own.is_empty(), "{name} has no seed");
        own.iter().for_each(|seed| check(seed));
        for _ in 0..200 {
            let mut input = own[below(own.len())].clone();
            for _ in 0..below(4) {
                let at = below(input.len());
                match (below(3), input.get_mut(at)) {
                    (0, Some(octet)) => *octet = b"\0-.09[]{}=\"\n,:e\xff"[below(16)],
                    (1, Some(octet)) => *octet ^= 1 << below(8),
                    _ => input.truncate(at),
                }
            }
            check(&input);
        }
    }
}
