//! Messages of the extension as values.

mod below;
mod sending;

use super::clocks::{ClockEstimate, ClockPair};
use super::outcome::Moved;
use quaver_abi::wire::chrony::Tracking;
use quaver_abi::wire::extension::{
    ClockElement, ClockPairElement, ExtensionError, Fields, HEADER_BYTES, Header, Kind, MOST_SENTENCE_BYTES,
    MoveElement, ReceiverElement, Refusal, SAMPLE_BYTES, SenderElement, field,
};
use quaver_abi::wire::jitlat::Singleton;
use quaver_path_flow::{
    Lateness, Received, ReceiverSummary, SenderSummary, Side as SegmentSide, StampSource,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A message that came.
#[derive(Debug)]
pub(super) struct Message {
    header: Header,
    /// Header and body, without the code.
    octets: Vec<u8>,
}

impl Message {
    pub(super) fn new(header: Header, octets: Vec<u8>) -> Self {
        Self { header, octets }
    }

    pub(super) fn kind(&self) -> Kind {
        self.header.kind
    }

    /// All of it, for the keys.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(super) fn fields(&self) -> Fields<'_> {
        Fields::new(&self.octets[HEADER_BYTES..])
    }

    /// Whether it has no necessary field but these.
    pub(super) fn check(&self, known: &[u16]) -> Result<(), ExtensionError> {
        self.fields().check(known)
    }

    /// The first field of this type, which must be there, as this element.
    pub(super) fn element<T: FromBytes>(&self, wanted: u16) -> Result<T, ExtensionError> {
        T::read_from_bytes(self.fields().find(wanted)?).map_err(|_| ExtensionError::BadField(wanted))
    }

    /// All fields of this type as this element.
    pub(super) fn elements<T: FromBytes>(&self, wanted: u16) -> Result<Vec<T>, ExtensionError> {
        let mut all = Vec::new();
        for field in self.fields() {
            let (found, value) = field?;
            if found == wanted {
                all.push(T::read_from_bytes(value).map_err(|_| ExtensionError::BadField(wanted))?);
            }
        }
        Ok(all)
    }

    pub(super) fn u32(&self, wanted: u16) -> Result<u32, ExtensionError> {
        let octets = self.element::<[u8; 4]>(wanted)?;
        Ok(u32::from_be_bytes(octets))
    }

    pub(super) fn u64(&self, wanted: u16) -> Result<u64, ExtensionError> {
        let octets = self.element::<[u8; 8]>(wanted)?;
        Ok(u64::from_be_bytes(octets))
    }

    /// Least and most version.
    pub(super) fn versions(&self) -> Result<(u32, u32), ExtensionError> {
        let octets = self.element::<[[u8; 4]; 2]>(field::VERSIONS)?;
        Ok((u32::from_be_bytes(octets[0]), u32::from_be_bytes(octets[1])))
    }

    /// Reason and words of a refusal. What would control a terminal, or the order of what it shows, is left out.
    pub(super) fn refusal(&self) -> (Refusal, String) {
        let refusal = Refusal::of(self.u32(field::REFUSAL).unwrap_or(0));
        let words = self.fields().find(field::SENTENCE).unwrap_or(b"no reason given");
        let words = String::from_utf8_lossy(&words[..words.len().min(MOST_SENTENCE_BYTES)]);
        (refusal, words.chars().filter(|c| is_plain(*c)).collect())
    }

    /// Rows of samples and the number of the first.
    pub(super) fn samples(&self) -> Result<(u64, Vec<Received>), ExtensionError> {
        let bad = ExtensionError::BadField(field::SAMPLES);
        let octets = self.fields().find(field::SAMPLES)?;
        let (first, rows) = octets.split_first_chunk().ok_or(bad)?;
        if rows.len() % SAMPLE_BYTES != 0 {
            return Err(bad);
        }
        Ok((u64::from_be_bytes(*first), Singleton::all_in(rows).0.map(received).collect()))
    }

    /// Offsets of a recorded schedule and the number of the first.
    pub(super) fn offsets(&self) -> Result<(u64, Vec<u64>), ExtensionError> {
        let bad = ExtensionError::BadField(field::OFFSETS);
        let octets = self.fields().find(field::OFFSETS)?;
        let (first, rest) = octets.split_first_chunk().ok_or(bad)?;
        let (offsets, []) = rest.as_chunks::<8>() else { return Err(bad) };
        Ok((u64::from_be_bytes(*first), offsets.iter().map(|o| u64::from_be_bytes(*o)).collect()))
    }

    pub(super) fn address(&self) -> Result<SocketAddr, ExtensionError> {
        let octets = self.element::<[u8; 18]>(field::ADDRESS)?;
        let ip: [u8; 16] = std::array::from_fn(|place| octets[place]);
        Ok(endpoint(ip, u16::from_be_bytes([octets[16], octets[17]])))
    }

    /// Whether and where the client moved; nothing from a server that does not follow.
    pub(super) fn moved(&self) -> Option<Moved> {
        let element = self.element::<MoveElement>(field::MOVE).ok()?;
        let to = endpoint(element.address, element.port.get());
        Some(Moved { times: element.times.get(), uncounted: element.uncounted.get(), to })
    }

    pub(super) fn clock(&self) -> Option<ClockEstimate> {
        self.element::<ClockElement>(field::CLOCK).ok().map(|clock| ClockEstimate {
            realtime_ns: clock.realtime_ns.get(),
            offset_ns: clock.offset_ns.get(),
            maxerror_ns: clock.maxerror_ns.get(),
            esterror_ns: clock.esterror_ns.get(),
            frequency_ppb: clock.frequency_ppb.get(),
            state: clock.state.get(),
            status: clock.status.get(),
            tai_offset_s: clock.tai.get(),
            chrony: self.fields().find(field::CHRONY).ok().and_then(Tracking::from_octets),
        })
    }

    pub(super) fn clock_pairs(&self) -> Vec<ClockPair> {
        let octets = self.fields().find(field::CLOCK_PAIRS).unwrap_or_default();
        let (pairs, _) = octets.as_chunks::<{ size_of::<ClockPairElement>() }>();
        let pairs = pairs.iter().map(|octets| -> ClockPairElement { zerocopy::transmute!(*octets) });
        pairs
            .map(|pair| ClockPair {
                realtime_ns: pair.realtime_ns.get(),
                monotonic_ns: pair.monotonic_ns.get(),
            })
            .collect()
    }

    pub(super) fn sender(&self) -> Result<SenderSummary, ExtensionError> {
        let sender: SenderElement = self.element(field::SENDER)?;
        Ok(SenderSummary {
            packets: sender.packets.get(),
            sent: sender.sent.get(),
            misses: sender.misses.get(),
            sentinels: sender.sentinels.get(),
            start_realtime_ns: sender.start_realtime_ns.get(),
            cpu_ns: sender.cpu_ns.get(),
            lateness: Lateness {
                mean_ns: sender.mean_ns.get() as f64,
                smallest_ns: sender.smallest_ns.get(),
                quantiles_ns: sender.quantiles_ns.map(|quantile| quantile.get()),
                largest_ns: sender.largest_ns.get(),
            },
            segments: self.segments(),
            departures: self.departures(),
            sending: self.sending_report(),
        })
    }

    pub(super) fn receiver(&self) -> Result<ReceiverSummary, ExtensionError> {
        let receiver: ReceiverElement = self.element(field::RECEIVER)?;
        let (hops, dscps) = self.hops();
        Ok(ReceiverSummary {
            received: receiver.received.get(),
            duplicates: receiver.duplicates.get(),
            invalid: receiver.invalid.get(),
            sentinels: receiver.sentinels.get(),
            foreign: receiver.foreign.get(),
            unreadable: receiver.unreadable.get(),
            own_drops: Some(receiver.own_drops.get()).filter(|drops| *drops != u64::MAX),
            stamped_by: receiver.stamped_by.map(|count| count.get()),
            cpu_ns: receiver.cpu_ns.get(),
            end_seen: receiver.end_seen.get() == 1,
            segments: self.segments(),
            of_trains: self.u64(field::OF_TRAINS).unwrap_or(0),
            hops,
            dscps,
        })
    }
}

/// Bytes of an address, IPv4 mapped into IPv6.
fn octets_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The address and port of such bytes.
fn endpoint(ip: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(ip)).to_canonical(), port)
}

/// Whether a character shows itself and nothing else: no control character, line or paragraph separator, nor one of
/// those that turn the direction of text (Unicode, UAX 9) or are not seen at all.
fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

/// Place of the byte of a row's flags that tells what stamped it.
const STAMP_SHIFT: u32 = 24;
/// Bit of a row's flags: the stamp is that of several packets that came in one piece.
const OF_TRAIN: u32 = 1 << 26;

fn received(mut singleton: Singleton) -> Received {
    let stamped_by = match (singleton.flags.cast_unsigned() >> STAMP_SHIFT) & 3 {
        0 => StampSource::Hardware,
        1 => StampSource::Kernel,
        _ => StampSource::Application,
    };
    let of_train = singleton.flags.cast_unsigned() & OF_TRAIN != 0;
    singleton.flags = (singleton.flags.cast_unsigned() & ((1 << STAMP_SHIFT) - 1)).cast_signed();
    Received { singleton, stamped_by, of_train }
}

fn row(received: &Received) -> [u8; SAMPLE_BYTES] {
    let stamp: u32 = match received.stamped_by {
        StampSource::Hardware => 0,
        StampSource::Kernel => 1,
        StampSource::Application => 2,
    };
    let mut singleton = received.singleton;
    let flags = singleton.flags.cast_unsigned() & ((1 << STAMP_SHIFT) - 1);
    let train = if received.of_train { OF_TRAIN } else { 0 };
    singleton.flags = (flags | stamp << STAMP_SHIFT | train).cast_signed();
    singleton.to_octets()
}

/// A body to be sent.
#[derive(Debug, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// With a field of at most 65535 bytes; what is more is cut.
    pub(super) fn field(mut self, kind: u16, value: &[u8]) -> Self {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.0.extend_from_slice(&kind.to_be_bytes());
        self.0.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn element<T: IntoBytes + Immutable>(self, kind: u16, element: &T) -> Self {
        self.field(kind, element.as_bytes())
    }

    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.field(kind, &value.to_be_bytes())
    }

    pub(super) fn u64(self, kind: u16, value: u64) -> Self {
        self.field(kind, &value.to_be_bytes())
    }

    pub(super) fn refusal(self, refusal: Refusal, sentence: &str) -> Self {
        let most = (0..=MOST_SENTENCE_BYTES).rev().find(|at| sentence.is_char_boundary(*at));
        let sentence =
            if sentence.len() > MOST_SENTENCE_BYTES { &sentence[..most.unwrap_or(0)] } else { sentence };
        self.u32(field::REFUSAL, refusal as u32).field(field::SENTENCE, sentence.as_bytes())
    }

    pub(super) fn versions(self, least: u32, most: u32) -> Self {
        self.field(field::VERSIONS, &[least.to_be_bytes(), most.to_be_bytes()].concat())
    }

    pub(super) fn address(self, address: SocketAddr) -> Self {
        self.field(field::ADDRESS, &[&octets_of(address.ip())[..], &address.port().to_be_bytes()].concat())
    }

    /// Where the client is now, if it moved.
    pub(super) fn moved(self, moved: Option<Moved>) -> Self {
        let Some(Moved { times, uncounted, to }) = moved else { return self };
        let address = octets_of(to.ip());
        let element =
            MoveElement { times: times.into(), uncounted: uncounted.into(), address, port: to.port().into() };
        self.element(field::MOVE, &element)
    }

    pub(super) fn samples(self, first: u64, rows: &[Received]) -> Self {
        let mut octets = Vec::with_capacity(8 + rows.len() * SAMPLE_BYTES);
        octets.extend_from_slice(&first.to_be_bytes());
        rows.iter().for_each(|received| octets.extend_from_slice(&row(received)));
        self.field(field::SAMPLES, &octets)
    }

    pub(super) fn offsets(self, first: u64, offsets: &[u64]) -> Self {
        let mut octets = first.to_be_bytes().to_vec();
        offsets.iter().for_each(|offset| octets.extend_from_slice(&offset.to_be_bytes()));
        self.field(field::OFFSETS, &octets)
    }

    pub(super) fn clock(self, estimate: Option<ClockEstimate>) -> Self {
        let Some(estimate) = estimate else { return self };
        let element = ClockElement {
            realtime_ns: estimate.realtime_ns.into(),
            offset_ns: estimate.offset_ns.into(),
            maxerror_ns: estimate.maxerror_ns.into(),
            esterror_ns: estimate.esterror_ns.into(),
            frequency_ppb: estimate.frequency_ppb.into(),
            state: estimate.state.into(),
            status: estimate.status.into(),
            tai: estimate.tai_offset_s.into(),
            reserved: 0.into(),
        };
        let this = self.element(field::CLOCK, &element);
        match estimate.chrony {
            Some(chrony) => this.field(field::CHRONY, &chrony.to_octets()),
            None => this,
        }
    }

    pub(super) fn clock_pairs(self, pairs: &[ClockPair]) -> Self {
        let mut octets = Vec::with_capacity(size_of_val(pairs));
        for pair in pairs {
            let element = ClockPairElement {
                realtime_ns: pair.realtime_ns.into(),
                monotonic_ns: pair.monotonic_ns.into(),
            };
            octets.extend_from_slice(element.as_bytes());
        }
        self.field(field::CLOCK_PAIRS, &octets)
    }

    pub(super) fn sender(self, summary: &SenderSummary) -> Self {
        let element = SenderElement {
            packets: summary.packets.into(),
            sent: summary.sent.into(),
            misses: summary.misses.into(),
            sentinels: summary.sentinels.into(),
            start_realtime_ns: summary.start_realtime_ns.into(),
            cpu_ns: summary.cpu_ns.into(),
            mean_ns: (summary.lateness.mean_ns.max(0.0) as u64).into(),
            smallest_ns: summary.lateness.smallest_ns.into(),
            quantiles_ns: summary.lateness.quantiles_ns.map(Into::into),
            largest_ns: summary.lateness.largest_ns.into(),
        };
        let told = self.element(field::SENDER, &element).departures(summary.departures);
        let told = told.sending_report(summary.sending);
        told.segments(SegmentSide::Sender, summary.segments)
    }

    pub(super) fn receiver(self, summary: &ReceiverSummary) -> Self {
        let element = ReceiverElement {
            received: summary.received.into(),
            duplicates: summary.duplicates.into(),
            invalid: summary.invalid.into(),
            sentinels: summary.sentinels.into(),
            foreign: summary.foreign.into(),
            unreadable: summary.unreadable.into(),
            own_drops: summary.own_drops.unwrap_or(u64::MAX).into(),
            stamped_by: summary.stamped_by.map(Into::into),
            cpu_ns: summary.cpu_ns.into(),
            end_seen: u64::from(summary.end_seen).into(),
        };
        let told = self.element(field::RECEIVER, &element).u64(field::OF_TRAINS, summary.of_trains);
        told.hops(&summary.hops, summary.dscps).segments(SegmentSide::Receiver, summary.segments)
    }

    pub(super) fn into_octets(self) -> Vec<u8> {
        self.0
    }
}
