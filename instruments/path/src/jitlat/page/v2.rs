//! The page of figures 16 and 17.

use super::engineering::{four_digits, time, time_to_the_ns};
use super::{JitlatPage, NOTHING_ARRIVED, percent, percentiles, periods, regression};
use crate::facts::ChronyFacts;
use crate::jitlat_log::{LogHeader, NtpErrors};
use quaver_arrivals::path::jitlat_figures::{DelayFigures, PeriodFigures, SpreadFigures};

/// The page under its head. It ends with an empty line, as the figures do.
pub(super) fn body(page: &JitlatPage<'_>) -> String {
    let figures = page.figures;
    let mut out =
        format!("{:<61}User Throughput\n", format!("payload = {} bytes per packet.", figures.payload_bytes));
    out += &periods(figures, period_text);
    out += &format!("\n{}\n", counts(page));
    match &figures.delays {
        Some(delays) => out += &delay_part(page, delays),
        None => out += &format!("{NOTHING_ARRIVED}\n"),
    }
    if let Some(rtt_ns) = figures.min_rtt_ns {
        out += &format!("Estimated control channel minimum RTT = {}\n", time(rtt_ns as f64));
    }
    if let Some(error_ns) = figures.clock_error_ns {
        out += &format!("Estimated relative clock error = {}\n", time_to_the_ns(error_ns));
    }
    out += &ntp_lines(page.header);
    out += &format!("burstiness plot linear regression, {}\n\n", regression(figures));
    out
}

fn period_text(period: PeriodFigures) -> String {
    let packets = four_digits(period.packets_per_second, 0, "pkts/Sec");
    let bits = four_digits(period.user_bits_per_second, 0, "bps");
    format!("{} ({packets} = {bits})", time(period.period_ns))
}

fn counts(page: &JitlatPage<'_>) -> String {
    let counts = &page.figures.counts;
    let share =
        |count: u64, name: &str, whole: u64| format!("{count} {name} packets ({})\n", percent(count, whole));
    let mut out = format!("{} packets sent\n{} unique/valid packets received\n", counts.sent, counts.unique);
    out += &format!("    {} packets received\n", counts.received);
    out += &format!("        {}", share(counts.duplicate, "duplicate", counts.received));
    out += &format!("        {}", share(counts.invalid, "invalid", counts.received));
    out += &format!("    {}", share(counts.lost, "lost", counts.sent));
    out += &format!("    {}", share(counts.out_of_sequence, "out of sequence", counts.unique));
    out
}

fn delay_part(page: &JitlatPage<'_>, delays: &DelayFigures) -> String {
    let corrected = delays.corrected_latency.as_ref();
    let (name, latency) = match corrected.filter(|_| page.corrected) {
        Some(corrected) => ("corrected latency", corrected),
        None => ("latency", &delays.latency),
    };
    let [min, max] = [latency.min_ns, latency.max_ns].map(time_to_the_ns);
    let mean = time_to_the_ns(latency.mean_ns.round() as i64);
    let mut out = format!("min/avg/max {name} = {min} / {mean} / {max}\n{}\n", middle(latency));
    let pdv = &delays.pdv;
    let [min, max] = [pdv.min_ns, pdv.max_ns].map(|ns| time(ns as f64));
    out += &format!("min/avg/max jitter = {min} / {} / {max}\n{}\n", time(pdv.mean_ns), middle(pdv));
    let (plot, limited) = match corrected.filter(|_| page.latency_plot) {
        Some(corrected) => ("latency histogram", corrected),
        None => ("jitter histogram", pdv),
    };
    let limit = time(limited.histogram.limit_ns as f64);
    out += &format!("{plot} limited to {limit} (99 percentile)\n\n");
    out += &format!("{}\n", percentiles(&delays.pdv_percentiles_ns));
    out
}

fn middle(spread: &SpreadFigures) -> String {
    let [sd, median, mode] = [spread.sd_ns, spread.median_ns, spread.mode_ns].map(time);
    format!("std dev = {sd}\nmedian = {median}\nmode at {mode}\n")
}

/// The document's future work (section 5): the errors that the hosts' own NTP estimates. Not in the figures, and not
/// in a page about a log that does not know them.
fn ntp_lines(header: &LogHeader) -> String {
    let line = |end: &str, errors: Option<NtpErrors>| match errors {
        Some(NtpErrors { estimated_ns, max_ns }) => {
            let [estimated, max] = [estimated_ns, max_ns].map(|ns| time(ns as f64));
            format!("Estimated NTP error of the {end} = {estimated} (max {max})\n")
        }
        None => String::new(),
    };
    let chrony = |end: &str, said: Option<ChronyFacts>| match said {
        Some(said) => {
            let [delay, dispersion, offset] =
                [said.root_delay_ns, said.root_dispersion_ns, said.last_offset_ns].map(|ns| time(ns as f64));
            format!(
                "Chrony of the {end}: root delay = {delay}, root dispersion = {dispersion}, last offset = {offset}\n"
            )
        }
        None => String::new(),
    };
    let facts = &header.facts;
    [
        line("client", facts.client_ntp),
        line("server", facts.server_ntp),
        chrony("client", facts.client_chrony),
        chrony("server", facts.server_chrony),
    ]
    .concat()
}
