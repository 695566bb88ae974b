//! sockperf `--full-log`: a summary, then a line a packet with its sending and receiving time in seconds, both by the client's
//! clock. The heading is `txTime, rxTime` until version 3.3, and `packet, txTime(sec), rxTime(sec), latency(usec)` after it. Their difference is the round trip; sockperf's own `latency` is half of it unless `--full-rtt` was given.

use super::Damage;
use super::json::S;
use crate::result::{Measurement, Quantity};

pub(super) fn is_log(text: &str) -> bool {
    text.lines().any(|line| columns(line).is_some())
        || text.contains("test was performed using the following parameters:")
}

/// The columns of the sending and the receiving time; none where the line is no heading of packets.
fn columns(line: &str) -> Option<[usize; 2]> {
    let place = |name: &str| line.split(',').position(|column| column.trim().split('(').next() == Some(name));
    Some([place("txTime")?, place("rxTime")?])
}

pub(super) fn parse(text: &str) -> Result<Measurement, Damage> {
    let heading = text.lines().position(|line| columns(line).is_some());
    let heading = heading.ok_or("it ends before its packets; --full-log writes them")?;
    let summary: Vec<&str> = text.lines().take(heading).collect();
    let summary = summary.join("\n");
    let mut lines = text.lines().skip(heading);
    let [sent, received] = lines.next().and_then(columns).expect("just found");
    let mut delays = Vec::new();
    let rows = lines.map(str::trim).take_while(|line| !line.starts_with("---"));
    for line in rows.filter(|line| !line.is_empty()) {
        let cut = || format!("its line {line:?} is no packet");
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let at = |column: usize| fields.get(column).and_then(|word| nanoseconds(word));
        let delay_ns = at(received).zip(at(sent)).and_then(|(to, from)| to.checked_sub(from));
        delays.push(delay_ns.ok_or_else(cut)? as f64);
    }
    let valid = summary.lines().find(|line| line.contains("[Valid Duration]")).unwrap_or_default();
    let mut counts = Vec::new();
    for (name, line, key) in [
        ("sent", valid, "SentMessages="),
        ("received", valid, "ReceivedMessages="),
        ("dropped", summary.as_str(), "# dropped messages = "),
        ("duplicates", summary.as_str(), "# duplicated messages = "),
        ("out_of_order", summary.as_str(), "# out-of-order messages = "),
    ] {
        let digits = line.split_once(key).map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
        counts.extend(
            digits.flatten().and_then(|digits| digits.parse::<u64>().ok()).map(|count| (name, count)),
        );
    }
    let received = counts.iter().find(|(name, _)| *name == "received").map(|(_, count)| *count);
    if let Some(received) = received.filter(|received| (delays.len() as u64) < *received) {
        return Err(format!("it has {} of {received} packets; copy it again", delays.len()));
    }
    if delays.is_empty() {
        return Err("it has no packet".to_owned());
    }
    let command = summary.split_once("following parameters: ").and_then(|(_, rest)| rest.lines().next());
    Ok(Measurement {
        tool: "sockperf",
        command: command.map(|options| format!("sockperf {}", options.trim())),
        quantities: vec![Quantity::samples("round_trip", "round-trip delay", delays)],
        counts,
        notes: vec!["its packets give the round trip; sockperf's own latency is half of that".to_owned()],
        ..Measurement::default()
    })
}

/// Seconds with at most nine decimals, exactly.
fn nanoseconds(word: &str) -> Option<i64> {
    let (seconds, decimals) = word.split_once('.').unwrap_or((word, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || decimals.len() > 9 || !digits(seconds) || !digits(decimals) {
        return None;
    }
    let rest: i64 = format!("{decimals:0<9}").parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(S as i64)?.checked_add(rest)
}
