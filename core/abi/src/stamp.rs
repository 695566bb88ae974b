//! The stamps of one captured packet: where each was taken, by which clock, and how wrong it may be.

use strum::{FromRepr, IntoStaticStr};

/// A place on a received packet's way where it can be stamped, in the order in which a packet passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Layer {
    /// The interface's own hardware stamp (SOF_TIMESTAMPING_RAW_HARDWARE).
    Nic = 1,
    /// The XDP program, before the kernel has made a packet buffer.
    Xdp = 2,
    /// The kernel's receive stamp (`skb->tstamp`), taken on entry into the network stack.
    Kernel = 3,
    /// The processor's counter at `netif_receive_skb`, right behind the kernel's stamp.
    Raw = 7,
    /// The traffic control program at the ingress hook.
    Tc = 4,
    /// The receive stamp that a datagram socket hands over (SOF_TIMESTAMPING_RX_SOFTWARE).
    Socket = 5,
    /// The capturing program, when it takes the packet from the ring.
    Application = 6,
}

impl Layer {
    /// All, in a packet's order.
    pub const ALL: [Self; 7] =
        [Self::Nic, Self::Xdp, Self::Kernel, Self::Raw, Self::Tc, Self::Socket, Self::Application];

    /// The word for it in options, columns and pages.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The layer with this number in a file; none for numbers that are not in use.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::from_repr(number)
    }
}

/// The clock that a stamp was read from. Its nanoseconds count from that clock's own zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum StampClock {
    /// CLOCK_REALTIME: UTC since 1970.
    Realtime = 1,
    /// CLOCK_MONOTONIC.
    Monotonic = 2,
    /// CLOCK_TAI.
    Tai = 3,
    /// The interface's own clock (PHC), whatever it is set to.
    Phc = 4,
    /// Raw cycles, converted to CLOCK_REALTIME by anchors.
    Cycles = 5,
}

impl StampClock {
    /// All.
    pub const ALL: [Self; 5] = [Self::Realtime, Self::Monotonic, Self::Tai, Self::Phc, Self::Cycles];

    /// The word for it in options, columns and pages.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The clock with this number in a file; none for numbers that are not in use.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::from_repr(number)
    }
}

/// One stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerStamp {
    /// What the packet was stamped by, before any conversion.
    pub clock: StampClock,
    /// The instant, nanoseconds of CLOCK_REALTIME (UTC since 1970), but for [`StampClock::Phc`], whose own
    /// count it is.
    pub time_ns: i64,
    /// The instant at which the stamp was taken lies no farther off, nanoseconds; `u32::MAX` is unknown.
    pub bound_ns: u32,
    /// Which stretch of the live clock converted it: 1 is its first epoch, counted modulo 65,535; 0 where no cycles were
    /// converted. Only stamps of one epoch are in order to the nanosecond.
    pub epoch: u16,
}

/// The stamps of one packet; a layer that did not stamp it has none (missing is not zero).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketStamps {
    at: [Option<LayerStamp>; Layer::ALL.len()],
    raw_cycles: Option<u64>,
}

impl PacketStamps {
    /// Of that layer.
    pub fn get(&self, layer: Layer) -> Option<LayerStamp> {
        self.at[layer as usize - 1]
    }

    /// Sets that layer's.
    pub fn set(&mut self, layer: Layer, stamp: LayerStamp) {
        self.at[layer as usize - 1] = Some(stamp);
    }

    /// The reading of the counter that the stamp of [`Layer::Raw`] was converted from.
    pub fn raw_cycles(&self) -> Option<u64> {
        self.raw_cycles
    }

    /// Sets that reading.
    pub fn set_raw_cycles(&mut self, cycles: u64) {
        self.raw_cycles = Some(cycles);
    }

    /// Those that there are, in a packet's order.
    pub fn iter(&self) -> impl Iterator<Item = (Layer, LayerStamp)> + '_ {
        Layer::ALL.iter().filter_map(|layer| Some((*layer, self.get(*layer)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_told_apart() {
        for layer in Layer::ALL {
            assert_eq!(Layer::from_number(layer as u8), Some(layer));
        }
        for clock in StampClock::ALL {
            assert_eq!(StampClock::from_number(clock as u8), Some(clock));
        }
        assert_eq!((Layer::from_number(0), Layer::from_number(8)), (None, None));
        assert_eq!((StampClock::from_number(0), StampClock::from_number(6)), (None, None));
    }

    #[test]
    fn missing_is_not_zero() {
        let mut stamps = PacketStamps::default();
        let zero = LayerStamp { clock: StampClock::Phc, time_ns: 0, bound_ns: 8, epoch: 0 };
        stamps.set(Layer::Nic, zero);
        assert_eq!(stamps.get(Layer::Nic), Some(zero));
        assert_eq!(stamps.get(Layer::Xdp), None);
        assert_eq!(stamps.iter().count(), 1);
    }
}
