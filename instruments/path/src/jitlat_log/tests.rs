use super::*;
use crate::facts::{ChronyFacts, DepartureFacts, RoundTrip};
use proptest::prelude::*;
use quaver_abi::wire::jitlat::Singleton;
use quaver_store::error::StoreError;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Figure 6, to the letter.
const FIGURE_6: &str = "\
# Fri Jul 3 19:45:51 GMT 2009
# command SENDING
# npkts 1000
# pktlen 80
# proto 17
# period 20000000
# src_ip 142.92.34.101
# dst_ip 142.92.34.101
# src_port 33101
# dst_port 2667
# dscp 0
0 1246650331413984400 0 1246650331414098200 0
1 1246650331443879400 1 1246650331443978400 0
2 1246650331463856200 2 1246650331464150000 0
";

fn read(text: &[u8]) -> Result<(LogHeader, Vec<Singleton>), StoreError> {
    let reader = LogReader::new(BufReader::new(text), Path::new("jitlat.Kda4Ib"))?;
    let header = reader.header().clone();
    Ok((header, reader.collect::<Result<_, _>>()?))
}

fn written(header: &LogHeader, packets: &[Singleton]) -> Vec<u8> {
    let mut out = Vec::new();
    write_log(&mut out, header, packets).unwrap();
    out
}

/// The sentence that refuses `text`.
#[track_caller]
fn refused(text: &str, words: &str) {
    let error = read(text.as_bytes()).expect_err("must be refused");
    assert!(error.is_bad_input());
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn figure_6_is_read_and_written_again_octet_by_octet() {
    let (header, packets) = read(FIGURE_6.as_bytes()).unwrap();
    assert_eq!(header.command, Command::Sending);
    assert_eq!((header.npkts, header.pktlen, header.proto), (1000, 80, 17));
    assert_eq!((header.period_ns, header.dscp), (20_000_000, 0));
    assert_eq!(header.source().to_string(), "142.92.34.101:33101");
    assert_eq!(header.destination().to_string(), "142.92.34.101:2667");
    assert_eq!((header.clock_error_ns, header.min_rtt_ns), (None, None));
    assert_eq!(header.facts, LogFacts::default());
    assert_eq!((header.sent(), header.direction()), (1_000, Direction::Up));
    let facts = LogFacts { sent: Some(7), ..LogFacts::default() };
    assert_eq!(LogHeader { facts, ..header.clone() }.sent(), 7, "an interrupted test says so");
    let latency_ns: Vec<i64> = packets.iter().map(|row| row.rx_real_time_ns - row.tx_real_time_ns).collect();
    assert_eq!(latency_ns, [113_800, 99_000, 293_800]);
    assert_eq!(String::from_utf8(written(&header, &packets)).unwrap(), FIGURE_6);
}

#[test]
fn the_two_lines_of_version_two_and_ours_follow_the_eleven() {
    let (mut header, packets) = read(FIGURE_6.as_bytes()).unwrap();
    header.clock_error_ns = Some(-80_000);
    header.min_rtt_ns = Some(3_231_000_000);
    header.facts = LogFacts {
        direction: Some(Direction::Up),
        protocol: Some("legacy".into()),
        stamps: Some("received: kernel".into()),
        departures: Some(DepartureFacts {
            stamped_by: "hardware".into(),
            stamped: 2,
            missing: 1,
            p50_ns: 900,
            p99_ns: 1_100,
            max_ns: -7,
            delay: None,
        }),
        sent: Some(3),
        client_ntp: Some(NtpErrors { estimated_ns: 1_000, max_ns: 5_500_000 }),
        server_ntp: None,
        client_chrony: None,
        server_chrony: Some(ChronyFacts {
            stratum: 3,
            synchronised: true,
            correction_ns: -1_441,
            last_offset_ns: 108,
            rms_offset_ns: 232,
            root_delay_ns: 3_836,
            root_dispersion_ns: 1_173,
        }),
        rtt_probes: vec![RoundTrip { t1_ns: 1, t2_ns: -2, t3_ns: 3 }],
        boot_gap_ns: Some(-42),
        ending: Some(Ending::Interrupted("the user ended\nthe test".into())),
    };
    let text = String::from_utf8(written(&header, &packets)).unwrap();
    let lines: Vec<&str> = text.lines().skip(11).take(12).collect();
    let wanted = [
        "# clock_error_ns -80000",
        "# min_rtt_ns 3231000000",
        "# direction up",
        "# protocol legacy",
        "# stamps received: kernel",
        "# departures hardware stamped 2 missing 1 p50_ns 900 p99_ns 1100 max_ns -7",
        "# sent 3",
        "# client_ntp_error_ns 1000 max 5500000",
        "# server_chrony_ns stratum 3 correction -1441 last_offset 108 rms_offset 232 root_delay 3836 root_dispersion 1173",
        "# rtt_probe_ns 1 -2 3",
        "# boot_gap_ns -42",
        "# interrupted the user ended the test",
    ];
    assert_eq!(lines, wanted);
    header.facts.ending = Some(Ending::Interrupted("the user ended the test".into()));
    assert_eq!(read(text.as_bytes()).unwrap(), (header, packets));
}

#[test]
fn unknown_comments_carriage_returns_blanks_and_other_orders_are_read() {
    let (header, packets) = read(FIGURE_6.as_bytes()).unwrap();
    let crlf = FIGURE_6.replace('\n', "\r\n");
    assert_eq!(read(crlf.as_bytes()).unwrap(), (header.clone(), packets.clone()));
    let more =
        FIGURE_6.replace("# dscp 0\n", "# dscp 0\n# weather fine\n#\n\n").replace("\n1 ", "\n# note\n1 \t");
    assert_eq!(read(more.as_bytes()).unwrap(), (header.clone(), packets.clone()));
    let swapped = FIGURE_6.replace("# npkts 1000\n# pktlen 80\n", "# pktlen 80\n#npkts 1000\n");
    assert_eq!(read(swapped.as_bytes()).unwrap(), (header, packets));
    let without_last_newline = FIGURE_6.trim_end();
    assert_eq!(read(without_last_newline.as_bytes()).unwrap().1.len(), 3);
}

#[test]
fn the_words_of_the_console_are_read_as_the_two_lines() {
    let of = |error: &str| {
        let lines = format!(
            "# dscp 0\n# Estimated relative clock error = {error}\n# Estimated control channel minimum RTT = 3.231 s\n"
        );
        read(FIGURE_6.replace("# dscp 0\n", &lines).as_bytes()).map(|(header, _)| header)
    };
    let header = of("-80.000 us").unwrap();
    assert_eq!((header.clock_error_ns, header.min_rtt_ns), (Some(-80_000), Some(3_231_000_000)));
    assert_eq!(of("31.340420000 s").unwrap().clock_error_ns, Some(31_340_420_000));
    assert_eq!(of("-0.5 ms").unwrap().clock_error_ns, Some(-500_000));
    for bad in ["1.2345 us", "x s", "1 fortnight", "- s", "1.-5 s", "99999999999 s"] {
        assert!(of(bad).unwrap_err().to_string().contains(", line 12: `"), "{bad}");
    }
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    refused("", "jitlat.Kda4Ib, line 1: the file is empty");
    refused("seq,latency\n1,2\n", "line 1: a log of Jitlat begins with `# `");
    refused("# command SENDING\n", "line 1: the first line of a log has the date");
    refused(&FIGURE_6.replace("# dscp 0\n", ""), "line 11: the header has no line `# dscp`");
    refused(&FIGURE_6.replace("npkts 1000", "npkts many"), "line 3: `many` is no value of `# npkts`");
    refused(&FIGURE_6.replace("SENDING", "SINGING"), "line 2: `SINGING` is no command");
    refused(&FIGURE_6.replace("# proto 17", "# pktlen 17"), "line 5: `# pktlen` is there twice");
    refused(&FIGURE_6.replace("142.92.34.101", "142.92.34.300"), "line 7: `142.92.34.300` is no value");
    refused(
        &FIGURE_6.replace("\n1 12", "\n2 12"),
        "line 13: the row says that it is number 2, but 1 is next",
    );
    refused(
        &FIGURE_6.replace("8400 0\n", "8400\n"),
        "line 13: a row has five fields, this one ends before the flags",
    );
    refused(&FIGURE_6.replace("8400 0\n", "8400 0 0\n"), "line 13: a row has five fields, this one has more");
    refused(&FIGURE_6[..FIGURE_6.len() - 20], "line 14: a row has five fields, this one ends before");
    refused(
        &FIGURE_6.replace("331413", "3314x3"),
        "line 12: a whole number stands for the sending time, not `12466503314x3984400`",
    );
    refused(&FIGURE_6.replace("dscp 0", "dscp 0\n# sent all"), "line 12: `# sent` is a number of packets");
    for line in ["kernel", "kernel stamped 1 missing 0 p50_ns 1 p99_ns 1 max_ns x"] {
        let line = format!("dscp 0\n# departures {line}");
        refused(&FIGURE_6.replace("dscp 0", &line), "line 12: a line of departures is `LAYER stamped N");
    }
    let long = format!("# {}\n", "x".repeat(5_000));
    refused(&FIGURE_6.replace("# dscp 0\n", &long), "line 11: longer than 4096 bytes");
    let error = read(b"# Fri\n# \xff\n").unwrap_err();
    assert!(error.to_string().contains("line 2: the header has bytes that are no text"), "{error}");
}

#[test]
fn a_reader_ends_after_an_error() {
    let text = FIGURE_6.replace("\n1 12", "\n7 12");
    let mut reader = LogReader::new(text.as_bytes(), Path::new("x")).unwrap();
    assert!(reader.next().unwrap().is_ok() && reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_file_gets_a_name_of_its_own_and_is_the_owners_alone() {
    let place = tempfile::tempdir().unwrap();
    let (header, packets) = read(FIGURE_6.as_bytes()).unwrap();
    let paths = [(); 2].map(|()| create_log(place.path(), &header, &packets).unwrap());
    assert_ne!(paths[0], paths[1]);
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (base, random) = name.split_at(LOG_PREFIX.len());
        assert_eq!((base, random.len()), ("jitlat.", 6), "{name}");
        assert!(random.bytes().all(|octet| octet.is_ascii_alphanumeric()), "{name}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_jitlat_log(path).unwrap());
        assert_eq!(read_log(path).unwrap(), (header.clone(), packets.clone()));
    }
}

#[test]
fn nothing_is_left_of_a_log_that_cannot_be_written() {
    let (header, packets) = read(FIGURE_6.as_bytes()).unwrap();
    let error = create_log(Path::new("/nowhere/at/all"), &header, &packets).unwrap_err();
    assert!(error.to_string().contains("create /nowhere/at/all/jitlat.XXXXXX"), "{error}");
    assert!(!is_jitlat_log(Path::new("/proc/self/exe")).unwrap());
    assert!(is_jitlat_log(Path::new("/nowhere")).is_err());
    let place = tempfile::tempdir().unwrap();
    let of = |text: &str| {
        let path = place.path().join("file");
        std::fs::write(&path, text).unwrap();
        is_jitlat_log(&path).unwrap()
    };
    assert_eq!([of("#include <a.h>\n#include <b.h>\n"), of("#!/bin/sh\n# runs\n")], [false; 2]);
    let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    assert!(write_log(&mut full, &header, &packets).is_err());
}

fn facts() -> impl Strategy<Value = LogFacts> {
    let text = || proptest::option::of("[a-z0-9:]{1,8}( [a-z0-9#:]{1,8}){0,3}");
    let ntp = || {
        proptest::option::of(
            (any::<u64>(), any::<u64>())
                .prop_map(|(estimated_ns, max_ns)| NtpErrors { estimated_ns, max_ns }),
        )
    };
    let chrony = || {
        let state = (any::<u16>(), any::<bool>());
        let parts = (state, any::<[i64; 5]>());
        proptest::option::of(parts.prop_map(|((stratum, synchronised), times_ns)| ChronyFacts {
            stratum,
            synchronised,
            correction_ns: times_ns[0],
            last_offset_ns: times_ns[1],
            rms_offset_ns: times_ns[2],
            root_delay_ns: times_ns[3],
            root_dispersion_ns: times_ns[4],
        }))
    };
    let probe = (any::<i64>(), any::<i64>(), any::<i64>()).prop_map(|(t1_ns, t2_ns, t3_ns)| RoundTrip {
        t1_ns,
        t2_ns,
        t3_ns,
    });
    let direction = prop_oneof![Just(None), Just(Some(Direction::Up)), Just(Some(Direction::Down))];
    let ending = prop_oneof![
        Just(None),
        Just(Some(Ending::Complete)),
        text().prop_map(|why| Some(Ending::Interrupted(why.unwrap_or_default()))),
    ];
    let stamps = (text(), departures());
    let parts = (direction, text(), stamps, any::<Option<u64>>(), ntp(), ntp(), chrony(), chrony());
    let more = (any::<Option<i64>>(), ending);
    (parts, proptest::collection::vec(probe, 0..6), more).prop_map(
        |(
            (
                direction,
                protocol,
                (stamps, departures),
                sent,
                client_ntp,
                server_ntp,
                client_chrony,
                server_chrony,
            ),
            rtt_probes,
            (boot_gap_ns, ending),
        )| LogFacts {
            direction,
            protocol,
            stamps,
            departures,
            sent,
            client_ntp,
            server_ntp,
            client_chrony,
            server_chrony,
            rtt_probes,
            boot_gap_ns,
            ending,
        },
    )
}

fn departures() -> impl Strategy<Value = Option<DepartureFacts>> {
    let layer = prop_oneof![Just("kernel"), Just("hardware")];
    let facts = (layer, any::<[u64; 2]>(), any::<[i64; 3]>());
    proptest::option::of(facts.prop_map(|(layer, [stamped, missing], [p50_ns, p99_ns, max_ns])| {
        DepartureFacts { stamped_by: layer.into(), stamped, missing, p50_ns, p99_ns, max_ns, delay: None }
    }))
}

fn header() -> impl Strategy<Value = LogHeader> {
    let workorder = (0..8_usize, any::<u64>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>());
    let ends = (any::<IpAddr>(), any::<IpAddr>(), any::<u16>(), any::<u16>());
    let created = (0_i64..4_000_000_000).prop_map(date_line);
    (created, workorder, ends, any::<Option<i64>>(), any::<Option<i64>>(), facts()).prop_map(
        |(created, work, ends, clock_error_ns, min_rtt_ns, facts)| LogHeader {
            created,
            command: Command::ALL[work.0],
            npkts: work.1,
            pktlen: work.2,
            proto: work.3,
            period_ns: work.4,
            dscp: work.5,
            src_ip: ends.0,
            dst_ip: ends.1,
            src_port: ends.2,
            dst_port: ends.3,
            clock_error_ns,
            min_rtt_ns,
            facts,
        },
    )
}

fn packets() -> impl Strategy<Value = Vec<Singleton>> {
    let row = (any::<i64>(), any::<i32>(), any::<i64>(), any::<i32>());
    let row = row.prop_map(|(tx_real_time_ns, tx_seq, rx_real_time_ns, flags)| Singleton {
        tx_real_time_ns,
        tx_seq,
        rx_real_time_ns,
        flags,
    });
    proptest::collection::vec(row, 0..40)
}

proptest! {
    #[test]
    fn what_was_written_is_read(header in header(), packets in packets()) {
        let text = written(&header, &packets);
        prop_assert_eq!(read(&text).unwrap(), (header, packets));
    }

    #[test]
    fn arbitrary_octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&octets);
    }

    #[test]
    fn a_log_with_damage_never_panics_and_names_a_line_that_is_there(
        at in 0..FIGURE_6.len(),
        cut in 0..40_usize,
        new in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut octets = FIGURE_6.as_bytes().to_vec();
        octets.splice(at..(at + cut).min(FIGURE_6.len()), new);
        if let Err(StoreError::Line { line, .. }) = read(&octets) {
            prop_assert!(line >= 1 && line <= 1 + octets.iter().filter(|octet| **octet == b'\n').count() as u64);
        }
    }

    #[test]
    fn any_text_after_a_header_never_panics(text in "(# ?[a-zA-Z_]{0,12} [ -~]{0,30}\n|[0-9 -]{0,60}\r?\n){0,20}") {
        let _ = read(format!("{}{text}", &FIGURE_6[..FIGURE_6.find("\n0 ").unwrap() + 1]).as_bytes());
    }
}
