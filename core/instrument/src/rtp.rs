//! The figures of an RTP stream, as a section of a document.

use quaver_arrivals::gapped::{ReadSchedule, Scan, SenderType, VideoTiming, Vrx};
use quaver_arrivals::rtp::{
    ClockKnown, FrameFigures, HbrmtFigures, RtpKind, RtpSummary, SequenceFigures, VideoFigures,
};
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// Name, value, and where it is defined or how it is known.
type Row = [Cell; 3];

fn row(name: &str, value: impl Into<Cell>, definition: &str) -> Row {
    [name.into(), value.into(), definition.into()]
}

/// Figures with their definitions, and what the analysis notes.
pub fn section(rtp: &RtpSummary) -> Section {
    let title = if rtp.kind == RtpKind::Other { "RTP" } else { rtp.kind.name() };
    let mut table = Table::new(["figure", "value", "definition"]);
    for row in rows(rtp) {
        table.row(row);
    }
    let section = Section::new("rtp", title)
        .link("RTP")
        .note(text!("{} packets of one source", Cell::Count(rtp.packets)))
        .with(table);
    if rtp.notes.is_empty() {
        return section;
    }
    section.with(Block::List(rtp.notes.iter().map(Text::from).collect()))
}

/// The figures in the order in which they are shown.
fn rows(rtp: &RtpSummary) -> Vec<Row> {
    let mut rows = stream(rtp);
    rows.extend(sequence(&rtp.sequence));
    rows.extend(rtp.frames.iter().flat_map(frames));
    rows.extend(rtp.hbrmt.iter().flat_map(hbrmt));
    rows.extend(rtp.video.iter().flat_map(video));
    rows
}

fn stream(rtp: &RtpSummary) -> Vec<Row> {
    let types: Vec<String> = rtp.payload_types.keys().map(u8::to_string).collect();
    let mut rows = vec![row("carries", rtp.kind.name(), "by the headers and lengths of its payloads")];
    if !types.is_empty() {
        rows.push(row("payload type", types.join(", "), "RFC 3550, 5.1"));
    }
    if let Some(ssrc) = rtp.ssrc {
        rows.push(row("source (SSRC)", format!("{ssrc:#010x}"), "RFC 3550, 5.1"));
    }
    let known = match rtp.clock.known {
        ClockKnown::PayloadType => "by its payload type (RFC 3551, 6)",
        ClockKnown::Format => "by its format",
        ClockKnown::Learned => "learned from the stream",
        ClockKnown::Assumed => "assumed: not known",
    };
    rows.push(row("media clock", format!("{} Hz", Cell::Count(u64::from(rtp.clock.hz))), known));
    let j = &rtp.interarrival;
    let stamp = format!("RFC 3550, 6.4.1, at {}", rtp.arrival);
    rows.push(row("interarrival jitter", Cell::FineDuration(j.last_ns), &stamp));
    rows.push(row("  as reported (ticks)", Cell::Count(u64::from(j.last_ticks)), "RFC 3550, A.8"));
    rows.push(row(
        "  mean, max",
        format!("{}, {}", Cell::FineDuration(j.mean_ns), Cell::FineDuration(j.max_ns)),
        &stamp,
    ));
    rows
}

fn sequence(s: &SequenceFigures) -> Vec<Row> {
    let share = |part: f64| if part > 0.0 { format!(" ({})", Cell::Share(part)) } else { String::new() };
    let mut rows = vec![
        row("expected", Cell::Count(s.expected), "sequence numbers, smallest to largest received"),
        row("received", Cell::Count(s.received), "duplicates included"),
        row("lost", format!("{}{}", Cell::Count(s.lost), share(s.loss_share)), "RFC 7680, 2"),
        row("  as reported", s.cumulative_lost.to_string(), "RFC 3550, A.3: duplicates count as received"),
    ];
    if s.lost > 0 {
        let longest = s.loss_period_lengths.keys().next_back().copied().unwrap_or(0);
        let periods = format!("{}, longest {}", Cell::Count(s.loss_periods), Cell::Count(longest));
        rows.push(row("  loss periods", periods, "RFC 3357, 6.2 and 6.3"));
        if let Some(least) = s.loss_distances.keys().next() {
            rows.push(row("  minimum loss distance", Cell::Count(*least), "RFC 3357, 4"));
        }
    }
    rows.push(row("duplicates", Cell::Count(s.duplicate), "RFC 5560, 5.1"));
    let reordered = format!("{}{}", Cell::Count(s.reordered), share(s.reordered_share));
    rows.push(row("reordered", reordered, "RFC 4737, 3.3 and 4.1"));
    if let Some(extent) = s.reordering_extents.keys().next_back() {
        rows.push(row("  max extent", Cell::Count(*extent), "RFC 4737, 4.2"));
    }
    rows
}

fn frames(f: &FrameFigures) -> Vec<Row> {
    let what = if f.fields { "fields" } else { "frames" };
    let per = f.packets_per_frame.map_or(Cell::Unknown, Cell::Count);
    let mut rows = vec![
        row(&format!("packets per {}", &what[..what.len() - 1]), per, "marker to marker"),
        row(what, Cell::Count(f.frames), "between the first marker and the last"),
        row("  complete", Cell::Count(f.complete), "every packet arrived"),
        row("  missing packets", Cell::Count(f.missing_packets), "in incomplete ones"),
    ];
    if f.lost_ends > 0 {
        rows.push(row("  end missing", Cell::Count(f.lost_ends), "marker packet lost"));
    }
    if f.odd_lengths > 0 {
        rows.push(row("  other length", Cell::Count(f.odd_lengths), "with their end present"));
    }
    rows
}

fn hbrmt(h: &HbrmtFigures) -> Vec<Row> {
    let format = format!("{}, {} per second, {}", h.frame, h.frame_rate, h.sample);
    let checks = [
        ("without a header", h.without_header, "ST 2022-6: every packet has one"),
        ("of another payload type", h.other_payload_type, "ST 2022-6: payload type 98"),
        ("of wrong length", h.wrong_length, "ST 2022-6: 1376 bytes of media"),
        ("of another format", h.other_format, "fields that differ from those of most packets"),
        ("wrong FRCount", h.wrong_frame_count, "increments after each marker"),
    ];
    let mut rows = vec![row("format", format, "HBRMT header")];
    let wrong: u64 = checks.iter().map(|(_, packets, _)| packets).sum();
    if wrong == 0 {
        rows.push(row("header checks", "all pass", "ST 2022-6: header, type, length, format, FRCount"));
    }
    rows.extend(
        checks
            .into_iter()
            .filter(|(_, packets, _)| *packets > 0)
            .map(|(name, packets, definition)| row(&format!("  {name}"), Cell::Count(packets), definition)),
    );
    rows
}

fn video(v: &VideoFigures) -> Vec<Row> {
    let mut rows = Vec::new();
    if let (Some(scan), Some(height)) = (v.scan, v.height) {
        let scan = if scan == Scan::Progressive { "progressive" } else { "interlaced or segmented" };
        let rate = match v.frame_rate {
            Some((frames, 1)) => format!(", {frames} frames/s"),
            Some((frames, seconds)) => format!(", {frames}/{seconds} frames/s"),
            None => String::new(),
        };
        rows.push(row(
            "format",
            format!("{height} lines, {scan}{rate}"),
            if v.told.frame_rate.is_some() { "as given" } else { "learned: lines, field bit, timestamps" },
        ));
    }
    if let Some(observed) = &v.observed {
        rows.extend(timing(observed, "ST 2110-21, 6.6.2, earliest schedule that no packet misses"));
    }
    if let Some(epoch) = &v.epoch {
        let vrx = [&epoch.gapped, &epoch.linear].into_iter().flatten();
        rows.extend(vrx.map(|vrx| vrx_row(vrx, "ST 2110-21, 6.6.2, by the SMPTE epoch")));
    }
    rows
}

fn timing(timing: &VideoTiming, datum: &str) -> Vec<Row> {
    let c = &timing.c_inst;
    let mean = c.mean.unwrap_or(0.0);
    let mut rows =
        vec![row("C_INST max, mean", format!("{}, {mean:.2}", Cell::Count(c.max)), "ST 2110-21, 6.6.1")];
    rows.extend([&timing.gapped, &timing.linear].into_iter().flatten().map(|vrx| vrx_row(vrx, datum)));
    for verdict in &timing.verdicts {
        let name = match verdict.sender {
            SenderType::Narrow => "  type N",
            SenderType::NarrowLinear => "  type NL",
            SenderType::Wide => "  type W",
        };
        let word = |kept: Option<bool>| match kept {
            Some(true) => "kept",
            Some(false) => "exceeded",
            None => "not known",
        };
        let c_max = verdict.c_max.map_or_else(|| "none".into(), Cell::Count);
        let limits = format!(
            "C_MAX {c_max} {}, VRX_FULL {} {}",
            word(verdict.network),
            Cell::Count(verdict.vrx_full),
            word(verdict.receiver)
        );
        rows.push(row(name, limits, "ST 2110-21, 7.1, measured here, network included"));
    }
    rows
}

fn vrx_row(vrx: &Vrx, definition: &str) -> Row {
    let name = match vrx.schedule {
        ReadSchedule::Gapped => "VRX gapped max, mean",
        ReadSchedule::Linear => "VRX linear max, mean",
    };
    let late = if vrx.late > 0 { format!(", {} late", Cell::Count(vrx.late)) } else { String::new() };
    row(name, format!("{}, {:.2}{late}", Cell::Count(vrx.max), vrx.mean), definition)
}
