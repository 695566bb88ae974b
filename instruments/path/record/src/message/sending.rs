//! How a flow is to be sent, and was, as messages tell it. A peer of an earlier version passes over these fields.

use super::super::sending::{Sending, number, policy};
use super::{Body, Message};
use quaver_abi::wire::extension::{ExtensionError, SendingElement, SendingReportElement, field};
use quaver_path_flow::SendingSummary;

impl Body {
    pub(in super::super) fn sending(self, sending: Sending) -> Self {
        self.element(field::SENDING, &sending.element())
    }

    pub(in super::super) fn sending_report(self, summary: Option<SendingSummary>) -> Self {
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
    pub(in super::super) fn sending(&self) -> Result<Option<Sending>, ExtensionError> {
        match self.element::<SendingElement>(field::SENDING) {
            Ok(element) => Sending::read(&element).map(Some).ok_or(ExtensionError::BadField(field::SENDING)),
            Err(ExtensionError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the sender did; nothing from a peer that knows nothing of it, and for what cannot be.
    pub(in super::super) fn sending_report(&self) -> Option<SendingSummary> {
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
    use quaver_path_flow::{LatePolicy, TrainWish};

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
