//! What stands for the BPF programs in a build without them.

use super::super::error::CaptureError;
use super::super::join::Below;
use super::super::socket::TapInterface;
use super::{LayerState, LayerWish, XdpWish};
use quaver_abi::stamp::Layer;

/// There is nothing to take off.
#[derive(Clone, Debug)]
pub(super) struct Remover;

impl Remover {
    pub(super) fn now(&self) {}
}

/// Nothing is written.
#[derive(Debug)]
pub(in super::super) struct Written;

impl Written {
    pub(in super::super) fn covers(&self, _interface: u32) -> bool {
        false
    }

    pub(in super::super) fn drain(&mut self, _most: usize, _put: impl FnMut(Below)) -> usize {
        0
    }

    pub(in super::super) fn is_half_full(&self) -> bool {
        false
    }

    pub(in super::super) fn lost(&self) -> u64 {
        0
    }
}

/// There are none.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) told_by_driver: Vec<u32>,
}

impl Programs {
    pub(super) fn attach(
        interfaces: &[TapInterface],
        wish: LayerWish,
        states: &mut Vec<LayerState>,
    ) -> Result<Option<(Self, Written)>, CaptureError> {
        for interface in interfaces {
            let state = |layer| LayerState {
                layer,
                interface: interface.name.clone(),
                state: Err(format!("this build has no BPF: {}", quaver_host::bpf::BUILD_REMEDY)),
            };
            if wish.xdp != XdpWish::Off {
                states.push(state(Layer::Xdp));
            }
            states.push(state(Layer::Tc));
        }
        Ok(None)
    }

    pub(super) fn removers(&self) -> Vec<Remover> {
        Vec::new()
    }
}
