//! A source at the other host: what is asked of it, and what it says afterwards.

use super::message::{Body, Message};
use super::outcome::Moved;
use quaver_abi::wire::extension::{ExtensionError, SourceElement, SourceReportElement, field};
use quaver_path_flow::SenderSummary;
use quaver_probe::profile::{PayloadSize, Profile, ProfileName};
use quaver_probe::schedule::{Schedule, ScheduleError};
use quaver_probe::source::Pace;
use std::time::Duration;

/// Ways to wait, in the order of their numbers on the wire.
const PACES: [Pace; 4] = [Pace::Spin, Pace::Sleep, Pace::Hybrid, Pace::Txtime];

/// Packets of a stream and when they are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamShape {
    /// One size, a period apart.
    Plain {
        /// Bytes of a packet's payload.
        payload_bytes: u32,
        /// Period in nanoseconds, (numerator, denominator).
        period: (u64, u64),
    },
    /// A stream with a name, whose packets and schedule are known on both sides.
    Named(ProfileName),
}

/// No stream has this shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The period.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The size.
    #[error(transparent)]
    Payload(#[from] PayloadSize),
}

impl StreamShape {
    /// What is sent.
    ///
    /// # Errors
    /// When the size or the period cannot be.
    pub fn profile(&self) -> Result<Profile, ShapeError> {
        match *self {
            Self::Plain { payload_bytes, period } => {
                let schedule = Schedule::every(period.0, period.1)?;
                Ok(Profile::plain(payload_bytes as usize, schedule)?)
            }
            Self::Named(name) => Ok(Profile::named(name)),
        }
    }
}

/// A stream that a server is asked to send to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRequest {
    /// Packets and schedule.
    pub shape: StreamShape,
    /// Packets, at most; none: as many as the time allows.
    pub packets: Option<u64>,
    /// Time, at most; a stop ends it earlier.
    pub duration: Duration,
    /// How the source waits for deadlines.
    pub pace: Pace,
    /// Send late packets at once, back to back, rather than skip slots.
    pub catch_up: bool,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Identity of the stream, in every packet.
    pub stream_id: u32,
}

impl SourceRequest {
    pub(super) fn element(&self, wait: bool) -> SourceElement {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let place = |at: Option<usize>| at.map_or(0, |at| at as u8);
        let (profile, packet_bytes, period) = match self.shape {
            StreamShape::Plain { payload_bytes, period } => (SourceElement::PLAIN, payload_bytes, period),
            StreamShape::Named(name) => {
                (1 + place(ProfileName::ALL.iter().position(|known| *known == name)), 0, (0, 0))
            }
        };
        SourceElement {
            period_numerator: period.0.into(),
            period_denominator: period.1.into(),
            packets: self.packets.unwrap_or(SourceElement::UNBOUNDED).into(),
            duration_ns: u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX).into(),
            packet_bytes: packet_bytes.into(),
            stream_id: self.stream_id.into(),
            profile,
            pace: place(PACES.iter().position(|known| *known == self.pace)),
            flags: flag(wait, SourceElement::WAIT) | flag(self.catch_up, SourceElement::CATCH_UP),
            dscp: self.dscp,
            reserved: 0.into(),
        }
    }

    /// What an element asks for, and whether its sender would wait in a queue; none if it is impossible.
    pub(super) fn of(element: &SourceElement) -> Option<(Self, bool)> {
        let period = (element.period_numerator.get(), element.period_denominator.get());
        let payload_bytes = element.packet_bytes.get();
        let shape = match element.profile {
            SourceElement::PLAIN => StreamShape::Plain { payload_bytes, period },
            _ if period != (0, 0) || payload_bytes != 0 => return None,
            named => StreamShape::Named(*ProfileName::ALL.get(usize::from(named) - 1)?),
        };
        let known = SourceElement::WAIT | SourceElement::CATCH_UP;
        let packets = element.packets.get();
        let duration = Duration::from_nanos(element.duration_ns.get());
        if element.flags & !known != 0
            || element.reserved.get() != 0
            || element.dscp > 63
            || packets == 0
            || duration.is_zero()
        {
            return None;
        }
        let request = Self {
            shape,
            packets: Some(packets).filter(|packets| *packets != SourceElement::UNBOUNDED),
            duration,
            pace: *PACES.get(usize::from(element.pace))?,
            catch_up: element.flags & SourceElement::CATCH_UP != 0,
            dscp: element.dscp,
            stream_id: element.stream_id.get(),
        };
        Some((request, element.flags & SourceElement::WAIT != 0))
    }
}

/// What a source at the other host says of the schedule that it achieved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSummary {
    /// Counts and lateness.
    pub sender: SenderSummary,
    /// Packets that its kernel did not take; their sequence numbers are used up.
    pub failed: u64,
    /// Refusals by this host (ICMP); the packet at hand was then sent again.
    pub refused: u64,
    /// Packets sent later than half a period after their deadline.
    pub late: u64,
    /// From the first deadline to the last one used, nanoseconds.
    pub lasted_ns: u64,
    /// Slope of lateness over deadline, parts per million; none for fewer than 2 packets.
    pub drift_ppm: Option<f64>,
    /// Where it sent to at last, if it followed its client to another port.
    pub moved: Option<Moved>,
}

impl SourceSummary {
    pub(super) fn body(&self) -> Body {
        let drift_ppb =
            self.drift_ppm.map_or(SourceReportElement::NO_DRIFT, |ppm| (ppm * 1e3).round() as i64);
        let element = SourceReportElement {
            failed: self.failed.into(),
            refused: self.refused.into(),
            late: self.late.into(),
            lasted_ns: self.lasted_ns.into(),
            drift_ppb: drift_ppb.into(),
        };
        Body::new().sender(&self.sender).element(field::SOURCE_REPORT, &element).moved(self.moved)
    }

    pub(super) fn read(message: &Message) -> Result<Self, ExtensionError> {
        let element: SourceReportElement = message.element(field::SOURCE_REPORT)?;
        let drift_ppb = Some(element.drift_ppb.get()).filter(|ppb| *ppb != SourceReportElement::NO_DRIFT);
        Ok(Self {
            sender: message.sender()?,
            failed: element.failed.get(),
            refused: element.refused.get(),
            late: element.late.get(),
            lasted_ns: element.lasted_ns.get(),
            drift_ppm: drift_ppb.map(|ppb| ppb as f64 / 1e3),
            moved: message.moved(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SourceRequest {
        SourceRequest {
            shape: StreamShape::Plain { payload_bytes: 1_428, period: (7_410_000, 1_000) },
            packets: None,
            duration: Duration::from_secs(20),
            pace: Pace::Hybrid,
            catch_up: true,
            dscp: 46,
            stream_id: 7,
        }
    }

    #[test]
    fn what_is_asked_for_is_what_is_understood() {
        let shapes =
            ProfileName::ALL.map(StreamShape::Named).into_iter().chain([request().shape]).enumerate();
        for (at, shape) in shapes {
            for pace in PACES {
                let packets = (at % 2 == 0).then_some(5);
                let asked = SourceRequest { shape, pace, packets, catch_up: at % 3 == 0, ..request() };
                let wait = pace == Pace::Spin;
                assert_eq!(SourceRequest::of(&asked.element(wait)), Some((asked, wait)));
                assert!(shape.profile().is_ok());
            }
        }
    }

    #[test]
    fn impossible_requests_are_none() {
        type Change = fn(&mut SourceElement);
        let changes: [(&str, Change); 8] = [
            ("pace", |element| element.pace = 4),
            ("profile", |element| element.profile = 7),
            ("a period beside a profile", |element| element.profile = 1),
            ("flags", |element| element.flags = 4),
            ("DSCP", |element| element.dscp = 64),
            ("reserved", |element| element.reserved = 1.into()),
            ("no packets", |element| element.packets = 0.into()),
            ("no time", |element| element.duration_ns = 0.into()),
        ];
        for (what, change) in changes {
            let mut element = request().element(false);
            change(&mut element);
            assert_eq!(SourceRequest::of(&element), None, "{what}");
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused_in_words() {
        let of = |payload_bytes, period| {
            StreamShape::Plain { payload_bytes, period }.profile().map_err(|error| error.to_string())
        };
        assert!(of(31, (1_000, 1)).unwrap_err().contains("31 bytes"));
        assert!(of(80, (1, 2)).unwrap_err().contains("at least 1 ns"));
        assert!(of(80, (1, 0)).is_err());
    }
}
