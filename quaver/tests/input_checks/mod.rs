//! Checks of what is made of any bytes by readers of files and settings and by the parser of the command line, for the ordinary tests
//! and for fuzzers. None may panic, and each refusal has a reason.

#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]

use quaver_abi::stamp::PacketStamps;
use quaver_capture_analysis::flows::{FlowTable, TableSettings};
use quaver_instrument::{quantity, threshold};
use quaver_path::jitlat_log::{LogReader, write_log};
use quaver_store::manifest::Manifest;
use std::io::BufRead;
use std::path::Path;

pub type Check = (&'static str, fn(&[u8]));

pub const ALL: [Check; 6] = [
    ("peers", peers),
    ("jitlat_log", jitlat_log),
    ("manifest", manifest),
    ("frames", frames),
    ("settings", settings),
    ("arguments", arguments),
];

/// A result of another tool.
pub fn peers(octets: &[u8]) {
    if let Err(why) = quaver_peers::formats::parse(octets) {
        assert!(!why.is_empty());
    }
}

/// A log of Jitlat. The reader agrees with a plain second one, and a log that is written again reads the same.
pub fn jitlat_log(octets: &[u8]) {
    let path = Path::new("a log");
    let read = |octets: &mut dyn BufRead| {
        let reader = LogReader::new(octets, path).ok()?;
        let header = reader.header().clone();
        Some((header, reader.collect::<Result<Vec<_>, _>>().ok()?))
    };
    let Some((header, packets)) = read(&mut &octets[..]) else { return };
    let ours = packets.iter().enumerate().map(|(number, packet)| {
        [
            number as i64,
            packet.tx_real_time_ns,
            packet.tx_seq.into(),
            packet.rx_real_time_ns,
            packet.flags.into(),
        ]
    });
    assert!(plain_rows(octets).eq(ours.map(|row| row.to_vec())), "{}", String::from_utf8_lossy(octets));
    let mut written = Vec::new();
    write_log(&mut written, &header, &packets).expect("memory takes it");
    let again = read(&mut &written[..]);
    assert_eq!(again, Some((header, packets)), "{}", String::from_utf8_lossy(&written));
}

/// Rows of a log by a reading of its own: all lines but empty ones and comments, each of numbers.
fn plain_rows(octets: &[u8]) -> impl Iterator<Item = Vec<i64>> + '_ {
    let lines = octets.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    rows.map(|line| {
        let text = std::str::from_utf8(line).expect("a row is text");
        text.split_ascii_whitespace().map(|word| word.parse().expect("a row has numbers")).collect()
    })
}

/// The manifest of a run. One that was read is written and read again as the same.
pub fn manifest(octets: &[u8]) {
    let path = Path::new("manifest.json");
    if let Ok(manifest) = Manifest::parse(path, octets) {
        let written = serde_json::to_vec(&manifest).expect("it is data");
        let again = Manifest::parse(path, &written).expect("what is written can be read");
        assert_eq!(serde_json::to_vec(&again).expect("it is data"), written);
    }
}

/// Frames of a capture, into the table of its flows: link type and time of each, one byte of length, its bytes.
pub fn frames(mut octets: &[u8]) {
    let mut table = FlowTable::new(TableSettings::file("kernel"));
    let mut time_ns = 1_700_000_000_000_000_000;
    while let [link, step, length, rest @ ..] = octets {
        const LINKS: [u16; 8] = [1, 113, 276, 0, 108, 101, 12, 229];
        let (data, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        octets = rest;
        time_ns += i64::from(*step) * 100_000 - 1_000;
        let wire_octets = data.len() as u32 + u32::from(*step % 3);
        let link = LINKS[usize::from(link % 8)];
        quaver_capture::frames::decode(link, data, wire_octets, Some(time_ns), |facts| {
            table.packet(Some(time_ns), &PacketStamps::default(), facts);
        });
    }
    let _ = table.finish();
}

/// Files of settings in TOML: of a watch, a study, a mesh, a table of frequencies, a simulated machine and its cures.
pub fn settings(octets: &[u8]) {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    let faults = [
        quaver_watch::settings_fault(text),
        quaver_study::verb::plan_fault(text),
        quaver_path::mesh::hosts_fault(text),
        quaver_sync::what_if::table_fault(text),
        quaver_sim::config::Config::from_toml(text).err().map(|why| why.to_string()),
        quaver_sim::cure::CureConfig::from_toml(text).err().map(|why| why.to_string()),
    ];
    assert!(faults.iter().flatten().all(|why| !why.is_empty()));
}

/// Words of a command line, one a line, and quantities.
pub fn arguments(octets: &[u8]) {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    let words = std::iter::once("quaver").chain(text.lines());
    if let Err(why) = quaver::cli::command().try_get_matches_from(words) {
        assert!(!why.to_string().is_empty());
    }
    for word in text.lines() {
        let faults = [
            quantity::duration(word).err(),
            quantity::period(word).err(),
            quantity::rate(word).err(),
            quantity::cpu_list(word).err(),
            threshold::parse(word).err(),
            quaver_instrument::args::host_and_port(word).err(),
        ];
        assert!(faults.iter().flatten().all(|why| !why.is_empty()), "{word}");
    }
}
