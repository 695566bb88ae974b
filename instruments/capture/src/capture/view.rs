//! What a person sees of a capture at its end: what came of the packets of each interface, and where they were stamped.

use super::accounts::{Accounts, InterfaceCount};
use super::write::Written;
use crate::view::flows;
use quaver_abi::stamp::Layer;
use quaver_view::{Block, Cell, Document, Section, Table, Text, Tone, text};

/// Places whose packets the user chose to do without.
const WANTED: [&str; 3] = ["filter", "direction", "after_limit"];

/// The document.
pub(super) fn document(accounts: &Accounts, written: &Written) -> Document {
    let names: Vec<&str> = accounts.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let mut document = Document::new("quaver capture", names.join(", "));
    document.version = env!("CARGO_PKG_VERSION").into();
    let sum = |of: fn(&InterfaceCount) -> u64| accounts.interfaces.iter().map(of).sum::<u64>();
    let dropped = sum(|interface| interface.places().iter().map(|place| place.packets).sum());
    let [captured, seen, dropped] =
        [accounts.captured(), sum(InterfaceCount::seen), dropped].map(Cell::Count);
    document.verdict = Some(text!("{captured} of {seen} packets were captured. {dropped} were left out."));
    for (at, file) in accounts.files.iter().enumerate() {
        document.fact(if at == 0 { "file" } else { "" }, file.display().to_string());
    }
    for (at, interface) in accounts.interfaces.iter().enumerate() {
        document.section(section(at, interface, accounts));
        let name = &interface.name;
        let fates = &interface.fates;
        if fates.other_layer > 0 {
            document.warn(text!(
                "{name}: without the requested layer's stamp: {}",
                Cell::several(fates.other_layer, "packet")
            ));
        }
        if fates.disordered > 0 {
            document.warn(text!(
                "{name}: with stamps in the wrong layer order: {}",
                Cell::several(fates.disordered, "packet")
            ));
        }
    }
    if written.stamps_lost + written.stamps_unmatched > 0 {
        let unmatched = Cell::several(written.stamps_unmatched, "packet");
        let lost = Cell::several(written.stamps_lost, "stamp");
        document.warn(text!("without XDP and TC stamps: {unmatched}; {lost} dropped (ring full)"));
    }
    if let Some(raw) = written.raw.filter(|raw| raw.missing + raw.lost > 0) {
        let missing = Cell::several(raw.missing, "received packet");
        let lost = Cell::several(raw.lost, "reading");
        document.warn(text!("without raw cycles: {missing}; {lost} dropped (ring full)"));
    }
    if !accounts.notes.is_empty() {
        let notes = accounts.notes.iter().map(Text::from).collect();
        document.section(Section::new("notes", "Notes").with(Block::List(notes)));
    }
    if let Some(figures) = &written.figures {
        document.section(flows::live(figures));
    }
    document
}

/// What was seen is what was captured and what was dropped at named places.
fn section(at: usize, interface: &InterfaceCount, accounts: &Accounts) -> Section {
    let (fates, seconds) = (&interface.fates, accounts.took.as_secs_f64());
    let note = text!(
        "{} captured in {}, {}",
        Cell::several(fates.captured, "packet"),
        Cell::Duration(i64::try_from(accounts.took.as_nanos()).unwrap_or(i64::MAX)),
        Cell::Rate(fates.captured as f64 / seconds, "packets").only_if(seconds > 0.0)
    );
    let mut table = Table::bare(2);
    table.row(["seen".into(), Cell::Count(interface.seen())]);
    table.row(["captured".into(), Cell::Count(fates.captured)]);
    for place in interface.places().iter().filter(|place| place.packets > 0) {
        let tone = if WANTED.contains(&place.name) { Tone::Plain } else { Tone::Bad };
        table.toned(tone, [place.words.into(), Cell::Count(place.packets)]);
    }
    let mut section = Section::new(format!("interface-{at}"), &interface.name).note(note).with(table);
    if let Some(counters) = interface.counters.filter(|counters| counters.rx_dropped + counters.rx_errors > 0)
    {
        section.push(text!(
            "before the capture: {} dropped by the interface, {} with errors",
            Cell::Count(counters.rx_dropped),
            Cell::Count(counters.rx_errors)
        ));
    }
    if let Some(kept_out) = interface.kept_out().filter(|kept_out| *kept_out > 0) {
        section.push(text!("about {} more on the interface, outside the capture", Cell::Count(kept_out)));
    }
    section.push(text!("stamped by {}", stamped(interface)));
    section
}

fn stamped(interface: &InterfaceCount) -> String {
    let fates = &interface.fates;
    let of = |layer: &Layer| {
        let packets = fates.stamped[*layer as usize - 1];
        (packets > 0).then(|| match packets == fates.captured {
            true => format!("{} (all)", layer.name()),
            false => format!("{} ({})", layer.name(), Cell::Count(packets)),
        })
    };
    let there: Vec<String> = Layer::ALL.iter().filter_map(of).collect();
    if there.is_empty() {
        return "none: no packets".to_owned();
    }
    let below = [Layer::Xdp, Layer::Tc].map(|layer| fates.stamped[layer as usize - 1]);
    // Sent packets have no stamp of these layers, and none is missing there.
    let some = below.iter().any(|packets| (1..fates.captured).contains(packets));
    format!("{}{}", there.join(", "), if some { "; xdp and tc stamp received packets only" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fates::Fates;
    use crate::record::{RawCounts, RingStatistics, TapCounts};
    use quaver_host::counters::InterfaceCounters;
    use std::time::Duration;

    #[test]
    fn terminal() {
        let ring = RingStatistics { seen: 1_100, dropped: 60, freezes: 1 };
        let mut stamped = [0; Layer::ALL.len()];
        stamped[Layer::Kernel as usize - 1] = 1_000;
        stamped[Layer::Tc as usize - 1] = 900;
        let fates = Fates { captured: 1_000, filtered: 40, stamped, disordered: 2, ..Fates::default() };
        let counters = InterfaceCounters { rx_packets: 1_150, rx_dropped: 7, ..InterfaceCounters::default() };
        let interface = InterfaceCount {
            name: "eth0".to_owned(),
            link_type: 1,
            tap: TapCounts { ring, delivered: 1_040, unaccounted: 0 },
            rings: Vec::new(),
            fates,
            counters: Some(counters),
        };
        let mut accounts = Accounts::begin(&[]);
        accounts.interfaces = vec![interface];
        accounts.took = Duration::from_secs(2);
        accounts.files = vec!["a.pcapng".into(), "b.pcapng".into()];
        accounts.notes = vec!["counters of two CPUs differ by 30 ns; bounds include it".to_owned()];
        let written = Written {
            fates: Vec::new(),
            output: None,
            told: Accounts::begin(&[]).first_file(),
            failed: None,
            figures: None,
            stamps_lost: 3,
            stamps_unmatched: 100,
            raw: Some(RawCounts { missing: 2, lost: 1, ..RawCounts::default() }),
            limited: false,
            notes: Vec::new(),
        };
        insta::assert_snapshot!(quaver_view::plain(&document(&accounts, &written)), @"
        quaver capture · eth0
          file      a.pcapng
                    b.pcapng

          1,000 of 1,100 packets were captured. 100 were left out.

        eth0  1,000 packets captured in 2.00 s, 500 packets/s
          seen              1,100
          captured          1,000
          ring full            60
          userspace filter     40

          before the capture: 7 dropped by the interface, 0 with errors
          about 50 more on the interface, outside the capture
          stamped by kernel (all), tc (900); xdp and tc stamp received packets only

        Notes
          - counters of two CPUs differ by 30 ns; bounds include it

        Warnings
          ! eth0: with stamps in the wrong layer order: 2 packets
          ! without XDP and TC stamps: 100 packets; 3 stamps dropped (ring full)
          ! without raw cycles: 2 received packets; 1 reading dropped (ring full)
        ");
    }
}
