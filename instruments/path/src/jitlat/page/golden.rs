//! The five pages of the document, byte by byte, each from a log that has its figures.
//!
//! `golden/figure_N.txt` is what stands under the command line in figure N. `golden/series.rs` makes packets with the
//! figure's numbers, which pass through a log file and the analysis before they come to the page.
//!
//! What the figures say of Jitlat's arithmetic, and sometimes against each other, stands in
//! `quaver_arrivals::path::jitlat_figures`; all of it is followed, so no figure needs an exception. Three things to
//! know: in figures 16 and 17 packets are received at another mean rate than they are sent, though their delays
//! differ by 1.5 ms in 20 s (one divides by the intervals, the other by the packets); figure 17 has two standard
//! deviations of one distribution; figures 10 and 13 say `pecentile` where 7, 16 and 17 say `percentile`.

mod figures;
mod series;

use super::*;
use crate::jitlat::digest::{classified, page_figures};
use crate::jitlat_log::{LogFacts, LogReader, parse_date_line, write_log};
use quaver_abi::wire::jitlat::{Command, Singleton};
use series::{Packet, Wanted, series};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::Path;

/// A log of the series, written and read.
fn log(header: &LogHeader, wanted: &Wanted) -> (LogHeader, Vec<Singleton>) {
    let start_ns = parse_date_line(&header.created).expect("a date") * 1_000_000_000;
    let row = |(seq, (sent, received)): (i32, Packet)| Singleton {
        tx_real_time_ns: start_ns + sent,
        tx_seq: seq,
        rx_real_time_ns: start_ns + received,
        flags: 0,
    };
    let rows: Vec<Singleton> = (0..).zip(series(wanted)).map(row).collect();
    let mut text = Vec::new();
    write_log(&mut text, header, &rows).expect("a vector takes all");
    let reader = LogReader::new(&text[..], Path::new("golden")).expect("a log");
    let header = reader.header().clone();
    (header, reader.collect::<Result<_, _>>().expect("rows"))
}

fn header(created: &str, proto: u32, from: (&str, u16), to: (&str, u16), npkts: u64) -> LogHeader {
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    LogHeader {
        created: created.to_owned(),
        command: Command::Sending,
        npkts,
        pktlen: 80,
        proto,
        period_ns: 20_000_000,
        src_ip: ip(from.0),
        dst_ip: ip(to.0),
        src_port: from.1,
        dst_port: to.1,
        dscp: 0,
        clock_error_ns: None,
        min_rtt_ns: None,
        facts: LogFacts::default(),
    }
}

/// The page under the head, of a log with this header and these figures.
fn body_of(header: &LogHeader, wanted: &Wanted, version: PageVersion, bins: u32, origin: Origin) -> String {
    let (header, rows) = log(header, wanted);
    let bins = NonZeroU32::new(bins).expect("not zero");
    let figures = page_figures(&header, &classified(&header, &rows), version, bins);
    body(&JitlatPage { figures: &figures, header: &header, origin, corrected: false, latency_plot: false })
}

/// A page of `-f`.
fn of_log(header: &LogHeader, wanted: &Wanted, version: PageVersion, bins: u32) -> String {
    log_head(header, version) + &body_of(header, wanted, version, bins, Origin::Log)
}

#[test]
fn figure_7_a_test_on_one_host() {
    let janus = "142.92.34.101";
    let header = header("Fri Jul 3 19:45:51 GMT 2009", PROTO_UDP, (janus, 34_519), (janus, 2667), 10_000);
    let page = connecting("janus")
        + CONNECTED
        + &flow_line(&header, PageVersion::One, Origin::Live)
        + &logged_line("jitlat.0faqgu")
        + &body_of(&header, &figures::figure_7(), PageVersion::One, 70, Origin::Live);
    assert_eq!(page, include_str!("golden/figure_7.txt"));
}

#[test]
fn figure_10_tcp_over_a_slow_link() {
    let ends = (("192.168.2.4", 59_844), ("192.168.2.1", 2667));
    let header = header("Wed May 27 19:39:11 UTC 2009", PROTO_TCP, ends.0, ends.1, 1_000);
    let page = of_log(&header, &figures::figure_10(), PageVersion::One, 186);
    assert_eq!(page, include_str!("golden/figure_10.txt"));
}

#[test]
fn figure_13_the_same_link_with_a_proxy() {
    let ends = (("192.168.2.4", 43_875), ("192.168.2.1", 2667));
    let header = header("Wed May 27 19:37:00 UTC 2009", PROTO_TCP, ends.0, ends.1, 1_000);
    let page = of_log(&header, &figures::figure_13(), PageVersion::One, 500);
    assert_eq!(page, include_str!("golden/figure_13.txt"));
}

/// Headers of figures 16 and 17.
fn second_version(created: &str, clock_error_ns: i64) -> LogHeader {
    let ends = (("192.168.2.1", 32_793), ("192.168.2.4", 2667));
    let clocks = (Some(clock_error_ns), Some(3_231_000_000));
    let header = header(created, PROTO_UDP, ends.0, ends.1, 1_000);
    LogHeader { clock_error_ns: clocks.0, min_rtt_ns: clocks.1, ..header }
}

#[test]
fn figure_16_with_clocks_that_agree() {
    let header = second_version("Tue Dec 8 15:06:22 UTC 2009", -80_000);
    let page = of_log(&header, &figures::figure_16(), PageVersion::Two, 70);
    assert_eq!(page, include_str!("golden/figure_16.txt"));
}

#[test]
fn figure_17_with_clocks_half_a_minute_apart() {
    let header = second_version("Tue Dec 8 15:16:40 UTC 2009", 31_340_420_000);
    let page = of_log(&header, &figures::figure_17(), PageVersion::Two, 70);
    assert_eq!(page, include_str!("golden/figure_17.txt"));
}

#[test]
fn corrected_values_are_those_of_annex_a() {
    let header = second_version("Tue Dec 8 15:16:40 UTC 2009", 31_340_420_000);
    let (header, rows) = log(&header, &figures::figure_17());
    let figures = page_figures(
        &header,
        &classified(&header, &rows),
        PageVersion::Two,
        NonZeroU32::new(70).expect("not zero"),
    );
    let page = JitlatPage {
        figures: &figures,
        header: &header,
        origin: Origin::Log,
        corrected: true,
        latency_plot: true,
    };
    let text = body(&page);
    assert!(
        text.contains("min/avg/max corrected latency = 1.614847000 s / 1.614975850 s / 1.616147000 s\n"),
        "{text}"
    );
    assert!(text.contains("\nlatency histogram limited to 1.615 s (99 percentile)\n"), "{text}");
    assert!(text.contains("min/avg/max jitter = 0.000 s / 128.8 us / 1.300 ms\n"), "{text}");
}

#[test]
fn nothing_received_and_a_test_that_was_interrupted() {
    let mut header = second_version("Tue Dec 8 15:16:40 UTC 2009", -80_000);
    header.facts.ending = Some(Ending::Interrupted("the user ended the test".into()));
    header.facts.sent = Some(7);
    header.facts.client_ntp = Some(crate::jitlat_log::NtpErrors { estimated_ns: 1_500, max_ns: 21_000_000 });
    for version in [PageVersion::One, PageVersion::Two] {
        let figures = page_figures(&header, &classified(&header, &[]), version, NonZeroU32::MIN);
        let page = JitlatPage {
            figures: &figures,
            header: &header,
            origin: Origin::Live,
            corrected: true,
            latency_plot: true,
        };
        let text = body(&page);
        assert!(text.starts_with("Interrupted: the user ended the test. "), "{text}");
        assert!(text.contains("\n7 packets sent\n") && text.contains("average receive period = unknown\n"));
        assert!(text.contains("7 lost") && text.contains("(100.00%)"), "{text}");
        assert!(text.contains(NOTHING_ARRIVED) && text.contains("regression, too few packets\n"), "{text}");
        let of_two = text.contains("Estimated NTP error of the client = 1.500 us (max 21.00 ms)\n");
        assert_eq!(of_two, version == PageVersion::Two, "{text}");
    }
}
