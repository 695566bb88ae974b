//! The stamps of packets, layer by layer: which there are, how wrong they may be, and the time between them.

use super::figures::{LayerFigures, StageFigures};
use super::spread::Spread;
use quaver_abi::stamp::{Layer, PacketStamps, StampClock};

/// Which layers stamped packets, by which clocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    found: Vec<LayerCount>,
}

#[derive(Clone, Debug)]
struct LayerCount {
    layer: Layer,
    clock: StampClock,
    packets: u64,
    unknown: u64,
    bounds: Spread,
}

impl Layers {
    pub(super) fn take(&mut self, stamps: &PacketStamps) {
        for (layer, stamp) in stamps.iter() {
            let found =
                self.found.iter().position(|found| (found.layer, found.clock) == (layer, stamp.clock));
            let at = found.unwrap_or_else(|| {
                let bounds = Spread::new();
                self.found.push(LayerCount { layer, clock: stamp.clock, packets: 0, unknown: 0, bounds });
                self.found.len() - 1
            });
            let found = &mut self.found[at];
            found.packets += 1;
            match stamp.bound_ns {
                u32::MAX => found.unknown += 1,
                bound_ns => found.bounds.record(i64::from(bound_ns)),
            }
        }
    }

    pub(super) fn figures(&self) -> Vec<LayerFigures> {
        let mut layers: Vec<LayerFigures> = self
            .found
            .iter()
            .map(|found| LayerFigures {
                layer: found.layer,
                clock: found.clock,
                packets: found.packets,
                bound_unknown: found.unknown,
                bound: found.bounds.figures(),
            })
            .collect();
        layers.sort_by_key(|layer| (place(layer.layer), layer.clock as u8));
        layers
    }
}

/// Where a layer comes on a packet's way.
fn place(layer: Layer) -> Option<usize> {
    Layer::ALL.iter().position(|one| *one == layer)
}

/// Times from layer to layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Stages {
    pairs: Vec<(Layer, Layer, Spread)>,
}

impl Stages {
    /// Takes a packet's stamps: each with the one before it on the packet's way. The interface's own clock may be set to
    /// anything and is left out.
    pub(super) fn take(&mut self, stamps: &PacketStamps) {
        let mut before: Option<(Layer, i64)> = None;
        for (layer, stamp) in stamps.iter().filter(|(_, stamp)| stamp.clock != StampClock::Phc) {
            if let Some((from, then_ns)) = before.replace((layer, stamp.time_ns)) {
                let found = self.pairs.iter().position(|(a, b, _)| (*a, *b) == (from, layer));
                let at = found.unwrap_or_else(|| {
                    self.pairs.push((from, layer, Spread::new()));
                    self.pairs.len() - 1
                });
                self.pairs[at].2.record(stamp.time_ns.saturating_sub(then_ns));
            }
        }
    }

    pub(super) fn figures(&self) -> Vec<StageFigures> {
        let mut stages: Vec<StageFigures> = self
            .pairs
            .iter()
            .filter_map(|(from, to, spread)| {
                Some(StageFigures { from: *from, to: *to, time: spread.figures()? })
            })
            .collect();
        stages.sort_by_key(|stage| (place(stage.from), place(stage.to)));
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::stamp::LayerStamp;

    #[test]
    fn layers_and_stages_come_in_a_packets_order_whatever_their_numbers() {
        let (mut layers, mut stages) = (Layers::default(), Stages::default());
        // The latest first, so that the order is not that of their first packets.
        for count in (1..=Layer::ALL.len()).rev() {
            let mut stamps = PacketStamps::default();
            for (at, layer) in Layer::ALL.into_iter().enumerate().rev().take(count) {
                let time_ns = 100 * at as i64;
                stamps.set(layer, LayerStamp { clock: StampClock::Cycles, time_ns, bound_ns: 5, epoch: 1 });
            }
            layers.take(&stamps);
            stages.take(&stamps);
        }
        assert_eq!(layers.figures().iter().map(|of| of.layer).collect::<Vec<_>>(), Layer::ALL);
        let pairs: Vec<_> = stages.figures().iter().map(|of| (of.from, of.to)).collect();
        assert_eq!(pairs, Layer::ALL.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>());
    }
}
