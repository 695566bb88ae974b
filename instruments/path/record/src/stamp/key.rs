//! HMAC-SHA-256, cut to 128 bits (RFC 8762, section 4.4).

use hmac::{Hmac, Mac};
use quaver_abi::wire::stamp::{HMAC_BYTES, HMAC_FIELD, HMAC_TEXT};
use sha2::Sha256;
use std::fmt;

/// Least bytes of a key.
pub const LEAST_KEY_BYTES: usize = 16;

/// A key that both ends were given. `Debug` does not show it.
#[derive(Clone)]
pub struct StampKey(Hmac<Sha256>);

/// A key that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {0} bytes: give at least {LEAST_KEY_BYTES}, random ones")]
pub struct StampKeyTooShort(usize);

impl StampKey {
    /// The key of exactly these bytes.
    ///
    /// # Errors
    /// When they are fewer than [`LEAST_KEY_BYTES`].
    pub fn new(octets: &[u8]) -> Result<Self, StampKeyTooShort> {
        if octets.len() < LEAST_KEY_BYTES {
            return Err(StampKeyTooShort(octets.len()));
        }
        Ok(Self(Hmac::new_from_slice(octets).expect("HMAC takes keys of any length")))
    }

    /// HMAC of the parts, one after the other.
    pub(super) fn hmac(&self, parts: &[&[u8]]) -> [u8; HMAC_BYTES] {
        let whole = self.over(parts).finalize().into_bytes();
        std::array::from_fn(|place| whole[place])
    }

    /// Whether `hmac` is that of the parts; takes as long whatever it is.
    pub(super) fn verify(&self, parts: &[&[u8]], hmac: &[u8]) -> bool {
        hmac.len() == HMAC_BYTES && self.over(parts).verify_truncated_left(hmac).is_ok()
    }

    /// Whether an authenticated base packet bears the right HMAC. `packet` is long enough for one.
    pub(super) fn verify_base(&self, packet: &[u8]) -> bool {
        self.verify(&[&packet[HMAC_TEXT]], &packet[HMAC_FIELD])
    }

    /// Writes the HMAC of an authenticated base packet.
    pub(super) fn seal_base(&self, packet: &mut [u8]) {
        let hmac = self.hmac(&[&packet[HMAC_TEXT]]);
        packet[HMAC_FIELD].copy_from_slice(&hmac);
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        for part in parts {
            code.update(part);
        }
        code
    }
}

impl fmt::Debug for StampKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StampKey(..)")
    }
}

/// What an HMAC protects.
#[derive(Clone, Debug, Default)]
pub enum Protection {
    /// Nothing: unauthenticated mode.
    #[default]
    None,
    /// The TLVs of unauthenticated packets (RFC 8972, section 4.8).
    Tlvs(StampKey),
    /// Base packet and TLVs: authenticated mode.
    All(StampKey),
}

impl Protection {
    /// The key, if there is one.
    pub(super) fn key(&self) -> Option<&StampKey> {
        match self {
            Self::None => None,
            Self::Tlvs(key) | Self::All(key) => Some(key),
        }
    }

    /// Mode of the base packets.
    pub(super) fn mode(&self) -> quaver_abi::wire::stamp::Mode {
        match self {
            Self::None | Self::Tlvs(_) => quaver_abi::wire::stamp::Mode::Unauthenticated,
            Self::All(_) => quaver_abi::wire::stamp::Mode::Authenticated,
        }
    }
}
