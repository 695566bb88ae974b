//! Wire codecs: what our source writes into a packet, and the headers of the streams that it imitates.

pub mod chrony;
pub mod extension;
pub mod hbrmt;
pub mod jitlat;
pub mod owamp;
pub mod rfc4175;
pub mod rtp;
pub mod stamp;
pub mod stream;
