//! What stands for the BPF programs in a build without them.

use super::super::join::Below;
use super::super::socket::TapInterface;
use super::{LayerState, XdpWish};
use quaver_abi::stamp::Layer;

/// There are none.
#[derive(Debug)]
pub(super) struct Programs;

impl Programs {
    pub(super) fn attach(
        interfaces: &[TapInterface],
        xdp: XdpWish,
        states: &mut Vec<LayerState>,
    ) -> Option<Self> {
        for interface in interfaces {
            let state = |layer| LayerState {
                layer,
                interface: interface.name.clone(),
                state: Err(format!("this build has no BPF: {}", crate::bpf::BUILD_REMEDY)),
            };
            if xdp != XdpWish::Off {
                states.push(state(Layer::Xdp));
            }
            states.push(state(Layer::Tc));
        }
        None
    }

    pub(super) fn covers(&self, _interface: u32) -> bool {
        false
    }

    pub(super) fn drain(&mut self, _put: impl FnMut(Below)) {}

    pub(super) fn lost(&self) -> u64 {
        0
    }
}
