//! How a flow is to be sent beside its schedule, as the two ends tell each other: what becomes of late packets, when it is
//! over, and trains. A peer of an earlier version passes over both fields, and so does neither.

use quaver_abi::wire::extension::{SendingElement, SendingReportElement};
use quaver_path_flow::{FlowSpec, LatePolicy, SendReport, TrainWish};

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

    pub(super) fn element(self) -> SendingElement {
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

    pub(super) fn read(element: &SendingElement) -> Option<Self> {
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
    pub(super) fn element(self) -> SendingReportElement {
        SendingReportElement {
            late: self.late.into(),
            unsent: self.unsent.into(),
            train_packets: self.train_packets.into(),
            longest_train: self.longest_train.into(),
            late_policy: number(self.late_policy),
            finished: self.finished.into(),
            reserved: [0; 6],
        }
    }

    pub(super) fn read(element: &SendingReportElement) -> Option<Self> {
        Some(Self {
            late_policy: policy(element.late_policy)?,
            late: element.late.get(),
            unsent: element.unsent.get(),
            train_packets: element.train_packets.get(),
            longest_train: element.longest_train.get(),
            finished: element.finished == 1,
        })
    }

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
