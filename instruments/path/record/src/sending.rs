//! How a flow is to be sent beside its schedule, as the two ends tell each other: what becomes of late packets, when it is
//! over, and trains. A peer of an earlier version passes over both fields, and so does neither.

use super::flow::{FlowSpec, LatePolicy, SendReport, TrainWish};
use super::message::{Body, Message};
use quaver_abi::wire::extension::{ExtensionError, SendingElement, SendingReportElement, field};

/// How a flow is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sending {
    pub(super) late: LatePolicy,
    pub(super) lasting_ns: Option<u64>,
    pub(super) train: TrainWish,
}

impl Sending {
    /// A flow's, so.
    pub(super) fn apply(self, spec: FlowSpec) -> FlowSpec {
        let Self { late, lasting_ns, train } = self;
        FlowSpec { late, lasting_ns, train, ..spec }
    }

    fn element(self) -> SendingElement {
        SendingElement {
            lasting_ns: self.lasting_ns.unwrap_or(0).into(),
            late: number(self.late),
            reserved: [0; 5],
            train: match self.train {
                TrainWish::Auto => 0,
                TrainWish::Packets(packets) => packets.max(1),
            }
            .into(),
        }
    }

    fn of(element: &SendingElement) -> Option<Self> {
        Some(Self {
            late: policy(element.late)?,
            lasting_ns: Some(element.lasting_ns.get()).filter(|ns| *ns > 0),
            train: match element.train.get() {
                0 => TrainWish::Auto,
                packets => TrainWish::Packets(packets),
            },
        })
    }
}

/// What a sender did with late packets, with its time and in trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingSummary {
    /// What becomes of late packets.
    pub late_policy: LatePolicy,
    /// Packets sent when the next one was due as well.
    pub late: u64,
    /// Packets due within the flow's time that had not been sent when it was over.
    pub unsent: u64,
    /// Packets that went in trains.
    pub train_packets: u64,
    /// Packets of the longest train; 0 without any.
    pub longest_train: u64,
    /// Whether the schedule, its packets or its time came to their end.
    pub finished: bool,
}

impl SendingSummary {
    pub(super) fn of(report: &SendReport) -> Option<Self> {
        Some(Self {
            late_policy: report.late_policy?,
            late: report.late,
            unsent: report.unsent,
            train_packets: report.train_packets,
            longest_train: report.longest_train,
            finished: report.finished,
        })
    }
}

/// Number of a policy on the wire.
fn number(late: LatePolicy) -> u8 {
    LatePolicy::ALL.iter().position(|known| *known == late).map_or(0, |place| place as u8 + 1)
}

fn policy(number: u8) -> Option<LatePolicy> {
    LatePolicy::ALL.get(usize::from(number).checked_sub(1)?).copied()
}

impl Body {
    pub(super) fn sending(self, sending: Sending) -> Self {
        self.element(field::SENDING, &sending.element())
    }

    pub(super) fn sending_report(self, summary: Option<SendingSummary>) -> Self {
        let Some(summary) = summary else { return self };
        let element = SendingReportElement {
            late: summary.late.into(),
            unsent: summary.unsent.into(),
            train_packets: summary.train_packets.into(),
            longest_train: summary.longest_train.into(),
            late_policy: number(summary.late_policy),
            finished: summary.finished.into(),
            reserved: [0; 6],
        };
        self.element(field::SENDING_REPORT, &element)
    }
}

impl Message {
    /// How the flow is to be sent; none from a peer that knows nothing of it.
    ///
    /// # Errors
    /// An impossible value.
    pub(super) fn sending(&self) -> Result<Option<Sending>, ExtensionError> {
        match self.element::<SendingElement>(field::SENDING) {
            Ok(element) => Sending::of(&element).map(Some).ok_or(ExtensionError::BadField(field::SENDING)),
            Err(ExtensionError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the sender did; nothing from a peer that knows nothing of it, and for what cannot be.
    pub(super) fn sending_report(&self) -> Option<SendingSummary> {
        let element: SendingReportElement = self.element(field::SENDING_REPORT).ok()?;
        Some(SendingSummary {
            late_policy: policy(element.late_policy)?,
            late: element.late.get(),
            unsent: element.unsent.get(),
            train_packets: element.train_packets.get(),
            longest_train: element.longest_train.get(),
            finished: element.finished == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::wire::extension::{Header, Kind, NONCE_BYTES};

    fn message(body: Body) -> Message {
        let body = body.into_octets();
        let header = Header {
            kind: Kind::Request,
            body_bytes: body.len() as u32,
            number: 0,
            coded: false,
            nonce: [0; NONCE_BYTES],
        };
        Message::new(header, [&header.to_octets()[..], &body].concat())
    }

    #[test]
    fn what_is_asked_for_is_what_is_understood_and_passed_over_by_who_does_not_know_it() {
        for late in LatePolicy::ALL {
            for lasting_ns in [None, Some(1), Some(u64::MAX)] {
                for train in [TrainWish::Auto, TrainWish::Packets(1), TrainWish::Packets(64)] {
                    let sending = Sending { late, lasting_ns, train };
                    let told = message(Body::new().sending(sending));
                    assert_eq!(told.sending(), Ok(Some(sending)));
                    assert_eq!(told.check(&[]), Ok(()), "a peer of an earlier version passes over it");
                }
            }
        }
        assert_eq!(message(Body::new()).sending(), Ok(None));
        for late in [0, 4] {
            let element = SendingElement { late, ..Default::default() };
            let told = message(Body::new().element(field::SENDING, &element));
            assert_eq!(told.sending(), Err(ExtensionError::BadField(field::SENDING)));
        }
    }

    #[test]
    fn what_a_sender_did_is_told_and_nonsense_is_nothing() {
        let summary = SendingSummary {
            late_policy: LatePolicy::Burst,
            late: 3,
            unsent: 5,
            train_packets: 640,
            longest_train: 64,
            finished: true,
        };
        let told = message(Body::new().sending_report(Some(summary)));
        assert_eq!((told.sending_report(), told.check(&[])), (Some(summary), Ok(())));
        assert_eq!(message(Body::new().sending_report(None)).sending_report(), None);
        assert_eq!(message(Body::new().field(field::SENDING_REPORT, &[9; 40])).sending_report(), None);
    }
}
