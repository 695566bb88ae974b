//! `manifest.json`: what was asked, on what machine, how the clock was calibrated, how the run ended, and the
//! facts that an analysis of the stored samples needs.

use crate::error::StoreError;
use quaver_analysis::model::{Actor, Circumstances, NoiseLoop, PacketCounts, Unread};
use quaver_analysis::summary::{Backlog, FarSource, ProbeCost};
use quaver_arrivals::rtp::{Tai, VideoTold};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use std::path::Path;

/// Version of the run directory's format. Reading one refuses versions that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct FormatVersion(u32);

impl FormatVersion {
    /// What this program writes, and the latest that it reads.
    pub const CURRENT: Self = Self(1);

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for FormatVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        if number == 0 || number > Self::CURRENT.0 {
            let known = Self::CURRENT.0;
            return Err(de::Error::custom(format!("format version {number} is not among 1 to {known}")));
        }
        Ok(Self(number))
    }
}

/// The program that wrote the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What the payload of a stream is, which decides how kernel stamps are joined with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum StreamPayload {
    /// Our source's header lies `offset` bytes into the UDP payload: joined by its 64-bit sequence number.
    Ours {
        /// Bytes before our header.
        offset: u16,
    },
    /// RTP: joined by its 16-bit sequence number, extended over wraps.
    Rtp,
    /// Unknown: joined by the order of the socket's queue.
    Opaque,
}

/// One stream of packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// Where its packets go, `address:port`.
    pub destination: String,
    /// Where they come from, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Profile or description, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Payload.
    pub payload: StreamPayload,
    /// UDP payload length in bytes, where it is constant and known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u32>,
}

/// First and last instant of the measured phase, CLOCK_MONOTONIC nanoseconds. Packets outside belong to warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// First instant.
    pub start_ns: i64,
    /// Last instant.
    pub end_ns: i64,
}

/// Facts that an analysis of stored packets needs beside samples, events and names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnalysisFacts {
    /// Period of the stream, nanoseconds; none: learned from the stream.
    pub period_ns: Option<f64>,
    /// Whether source and receiver share a clock, so that scheduled and sent instants can be compared with the rest.
    pub source_on_this_host: bool,
    /// Who received.
    pub receiver: Actor,
    /// Who sent, where it was on this host.
    pub source: Option<Actor>,
    /// Streams received. The first is the one analysed.
    pub streams: Vec<Stream>,
    /// Facts that bear on the naming of causes.
    pub circumstances: Circumstances,
    /// Packets by place, from counters.
    pub counts: PacketCounts,
    /// Tier of tracing that ran: `bpf`, `tracefs` or `user`.
    pub tier: String,
    /// Why not a better one.
    pub tier_reason: Option<String>,
    /// Classes of causes that could not be seen.
    pub blind: Vec<String>,
    /// Own cost per packet, where it was measured.
    pub probe_cost: Option<ProbeCost>,
    /// The source at another host that was started for this run; none if there was none, or it went without a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far_source: Option<FarSource>,
    /// The queue of a receiver that did not keep up; none where it did, or where that was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Packets that a followed receiver had not read at the end of the measured phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    /// The measured phase; none: all that was recorded.
    pub window: Option<Window>,
    /// How TAI was known when the run ended; none where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tai: Option<Tai>,
    /// What was told of the format of ST 2110-20 video.
    #[serde(skip_serializing_if = "VideoTold::is_empty")]
    pub video: VideoTold,
}

impl AnalysisFacts {
    /// Payload of the analysed stream.
    pub fn payload(&self) -> StreamPayload {
        self.streams.first().map_or(StreamPayload::Opaque, |stream| stream.payload)
    }

    /// CPU that the source on this host was pinned to; none where it was not pinned, or is elsewhere.
    pub fn source_cpu(&self) -> Option<u16> {
        self.source.as_ref().and_then(|source| source.cpu)
    }
}

/// Facts that an analysis of stored gaps needs beside those of [`AnalysisFacts`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NoiseFacts {
    /// Period of the paper's dummy program, nanoseconds; none for the tight loop.
    pub period_ns: Option<f64>,
    /// Gaps shorter than this were not recorded, nanoseconds.
    pub threshold_ns: i64,
    /// The loops, one a CPU.
    pub loops: Vec<NoiseLoop>,
    /// Gaps that found no room.
    pub gaps_lost: u64,
}

/// How well raw cycles could be turned into time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockCalibration {
    /// Pairings of the cycle counter with the kernel's clocks.
    pub anchors: u64,
    /// Widest half bracket of these, nanoseconds.
    pub worst_half_bracket_ns: i64,
    /// No converted instant is wrong by more, nanoseconds.
    pub error_bound_ns: i64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the first anchor, nanoseconds: before any of the steps. None in runs of
    /// earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime_minus_monotonic_ns: Option<i64>,
    /// Steps of CLOCK_REALTIME against CLOCK_MONOTONIC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub realtime_steps: Vec<RealtimeStep>,
    /// What was known of the clocks when the run began; none in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ClockState>,
}

/// The clocks of the host when a run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockState {
    /// Counter that the samples are stamped with: `tsc`, `cntvct` or `clock-monotonic`.
    pub counter: String,
    /// The kernel's clocksource.
    pub clocksource: Option<String>,
    /// What the check between CPUs added to the error bound, nanoseconds; none where it could not be made.
    pub cross_core_ns: Option<i64>,
    /// Counters of the CPUs are apart by no more than this, nanoseconds.
    pub cross_core_limit_ns: Option<i64>,
    /// Whether the kernel's clock followed a reference.
    pub synchronised: bool,
    /// The kernel's correction of the rate, parts per billion.
    pub frequency_ppb: i64,
    /// Leap second: `none`, `insert pending`, `delete pending`, `within` or `over`.
    pub leap: String,
    /// TAI minus UTC as the kernel was told, seconds; none where nobody told it.
    pub tai_offset_s: Option<i32>,
}

/// The wall clock jumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RealtimeStep {
    /// CLOCK_MONOTONIC of the last look before it, nanoseconds.
    pub at_ns: i64,
    /// By how much, nanoseconds, positive: forward.
    pub step_ns: i64,
}

/// What was not recorded although it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Events that found no room.
    pub events: u64,
    /// Samples that found no room.
    pub samples: u64,
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of the directory's format.
    pub format: FormatVersion,
    /// Who wrote it.
    pub tool: Tool,
    /// Verb that was run.
    pub verb: String,
    /// Options as they were resolved.
    pub asked: Value,
    /// CLOCK_REALTIME at the start, nanoseconds.
    pub started_realtime_ns: i64,
    /// The same for people, RFC 3339 in UTC.
    pub started: String,
    /// CLOCK_REALTIME at the end, nanoseconds; none while it runs or where it was killed.
    pub ended_realtime_ns: Option<i64>,
    /// Whether the run came to its end. False from the start on, true only when all is stored.
    pub complete: bool,
    /// Why it was cut short, where that is known.
    pub interrupted: Option<String>,
    /// CPU of a measuring thread that was taken offline, which ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_lost: Option<u16>,
    /// What was lost.
    pub lost: Lost,
    /// Calibration of the clock.
    pub clock: Option<ClockCalibration>,
    /// Facts for the analysis of packets; none for verbs without packets.
    pub analysis: Option<AnalysisFacts>,
    /// Facts of a noise run; none for other verbs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseFacts>,
    /// Facts of a path measurement; none for other verbs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Value>,
    /// Facts of a comparison of stamps; none for other verbs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Value>,
    /// What `quaver scrub` replaced and left out; none of a run that is no copy of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrubbed: Option<Value>,
    /// Facts of the host, as the collector has them.
    pub host: Value,
}

/// The version alone, which is read first, since all else may differ in a later one.
#[derive(Deserialize)]
struct VersionOnly {
    format: u64,
}

impl Manifest {
    /// Manifest of a run that begins: incomplete, nothing known of its end.
    pub fn begin(
        tool_version: &str,
        verb: &str,
        asked: Value,
        host: Value,
        started_realtime_ns: i64,
    ) -> Self {
        Self {
            format: FormatVersion::CURRENT,
            tool: Tool { name: "quaver".to_owned(), version: tool_version.to_owned() },
            verb: verb.to_owned(),
            asked,
            started_realtime_ns,
            started: crate::utc::rfc3339_utc(started_realtime_ns),
            ended_realtime_ns: None,
            complete: false,
            interrupted: None,
            cpu_lost: None,
            lost: Lost::default(),
            clock: None,
            analysis: None,
            noise: None,
            path: None,
            compare: None,
            scrubbed: None,
            host,
        }
    }

    /// Marks the end of a run; `interrupted` says why it did not run its full length. An interrupted run stays
    /// incomplete, though all that it measured is stored.
    pub fn end(&mut self, ended_realtime_ns: i64, interrupted: Option<String>) {
        self.ended_realtime_ns = Some(ended_realtime_ns);
        self.complete = interrupted.is_none();
        self.interrupted = interrupted;
    }

    /// Why the run is incomplete, as a sentence; none where it is complete.
    pub fn incomplete_reason(&self) -> Option<String> {
        (!self.complete).then(|| {
            self.interrupted.clone().unwrap_or_else(|| {
                "the program ended before the run did (killed, crashed, or power lost)".to_owned()
            })
        })
    }

    /// Parses a manifest; `path` is for the error.
    ///
    /// # Errors
    /// A later format, or text that is no manifest.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, StoreError> {
        let json = |source| StoreError::Json { path: path.to_owned(), source };
        let version: VersionOnly = serde_json::from_slice(text).map_err(json)?;
        let supported = u64::from(FormatVersion::CURRENT.0);
        if version.format > supported {
            return Err(StoreError::NewerFormat { path: path.to_owned(), found: version.format, supported });
        }
        serde_json::from_slice(text).map_err(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn example() -> Manifest {
        let asked = json!({"period": "7.41us", "for": "10s"});
        let mut manifest =
            Manifest::begin("0.1.0", "chase", asked, json!({"kernel": "6.18"}), 1_795_193_880_000_000_001);
        manifest.analysis = Some(AnalysisFacts {
            period_ns: Some(7_419.766_716_5),
            streams: vec![Stream {
                destination: "10.0.0.2:5004".to_owned(),
                source: None,
                profile: Some("st2022-6".to_owned()),
                payload: StreamPayload::Ours { offset: 20 },
                payload_bytes: Some(1400),
            }],
            window: Some(Window { start_ns: 5, end_ns: i64::MAX }),
            ..AnalysisFacts::default()
        });
        manifest
    }

    #[test]
    fn comes_back_as_it_was() {
        let mut manifest = example();
        manifest.end(1_795_193_890_000_000_000, None);
        let text = serde_json::to_vec(&manifest).unwrap();
        assert_eq!(Manifest::parse(Path::new("m"), &text).unwrap(), manifest);
        assert_eq!(manifest.started, "2026-11-20T16:58:00Z");
        assert_eq!(manifest.incomplete_reason(), None);
        assert_eq!(
            example().incomplete_reason().unwrap(),
            "the program ended before the run did (killed, crashed, or power lost)"
        );
    }

    #[test]
    fn a_clock_of_an_older_run_is_written_back_without_what_it_lacks() {
        let old = r#"{"anchors":12,"worst_half_bracket_ns":21,"error_bound_ns":30}"#;
        let clock: ClockCalibration = serde_json::from_str(old).unwrap();
        assert_eq!((clock.state.as_ref(), serde_json::to_string(&clock).unwrap().as_str()), (None, old));
    }

    #[test]
    fn a_later_format_is_refused_in_a_sentence() {
        let text = br#"{"format": 2, "all": "else differs"}"#;
        let error = Manifest::parse(Path::new("runs/x/manifest.json"), text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "read runs/x/manifest.json: format version 2, but this program reads up to version 1; \
             use the version of quaver that wrote it, or a later one"
        );
        assert!(error.is_bad_input());
        assert!(serde_json::from_str::<FormatVersion>("0").is_err());
    }

    proptest! {
        #[test]
        fn hostile_text_is_an_error(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Manifest::parse(Path::new("m"), &text).is_err());
        }

        #[test]
        fn damaged_manifests_do_not_panic(at in 0usize..2000, octet: u8) {
            let mut text = serde_json::to_vec(&example()).unwrap();
            let at = at % text.len();
            text[at] = octet;
            let _ = Manifest::parse(Path::new("m"), &text);
        }
    }

    #[test]
    fn an_interrupted_run_says_why_it_is_incomplete() {
        let mut manifest = example();
        assert!(!manifest.complete && manifest.ended_realtime_ns.is_none());
        manifest.end(1_795_193_890_000_000_000, Some("Ctrl-C".to_owned()));
        assert_eq!((manifest.complete, manifest.ended_realtime_ns), (false, Some(1_795_193_890_000_000_000)));
        assert_eq!(manifest.incomplete_reason().unwrap(), "Ctrl-C");
        assert_eq!(manifest.analysis.unwrap().payload(), StreamPayload::Ours { offset: 20 });
        assert_eq!(AnalysisFacts::default().payload(), StreamPayload::Opaque);
        assert_eq!(FormatVersion::CURRENT.number(), 1);
        let error = serde_json::from_str::<FormatVersion>("2").unwrap_err().to_string();
        assert!(error.starts_with("format version 2 is not among 1 to 1"), "{error}");
    }
}
