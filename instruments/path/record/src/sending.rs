//! How a flow is to be sent beside its schedule, as the two ends tell each other: what becomes of late packets, when it is
//! over, and trains. A peer of an earlier version passes over both fields, and so does neither.

use quaver_abi::wire::extension::SendingElement;
use quaver_path_flow::{FlowSpec, LatePolicy, TrainWish};

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

/// Number of a policy on the wire.
pub(super) fn number(late: LatePolicy) -> u8 {
    LatePolicy::ALL.iter().position(|known| *known == late).map_or(0, |place| place as u8 + 1)
}

/// The policy of that number.
pub(super) fn policy(number: u8) -> Option<LatePolicy> {
    LatePolicy::ALL.get(usize::from(number).checked_sub(1)?).copied()
}
