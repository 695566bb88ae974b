//! The pre-shared key: codes over control messages and test packets.
//!
//! HELLO and CHALLENGE bear no code, but all their bytes (so both nonces, the versions and the wish for a key) go
//! into the session's key: change one, and no later message has the right code. A server shows no code to anybody
//! who has not shown one, so it cannot be asked for material to guess from. Each direction has its own key and
//! counts its messages, so none can be played back, there or in another session.

use hmac::{Hmac, Mac};
use quaver_abi::wire::extension::CODE_BYTES;
use quaver_path_flow::{AUTHENTICATION_BYTES, PacketAuthenticator};
use sha2::Sha256;
use std::fmt;

type HmacSha256 = Hmac<Sha256>;

/// Least bytes of a key.
pub const LEAST_KEY_BYTES: usize = 16;

/// A key that both ends were given. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Box<[u8]>);

/// A key that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key has {0} bytes: give at least {LEAST_KEY_BYTES}, random ones, such as those of \
     `head -c 32 /dev/urandom | base64`"
)]
pub struct KeyTooShort(usize);

impl Key {
    /// The key of these bytes, as they come from a file or the environment, without white space at the end.
    ///
    /// # Errors
    /// When they are fewer than [`LEAST_KEY_BYTES`].
    pub fn new(octets: &[u8]) -> Result<Self, KeyTooShort> {
        let octets = octets.trim_ascii_end();
        if octets.len() < LEAST_KEY_BYTES { Err(KeyTooShort(octets.len())) } else { Ok(Self(octets.into())) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Keys of one session.
pub(super) struct SessionKeys {
    /// For messages of the client.
    pub(super) client: MessageKey,
    /// For messages of the server.
    pub(super) server: MessageKey,
    session: HmacSha256,
}

impl SessionKeys {
    /// Keys of the session that began with these two messages, headers and bodies.
    pub(super) fn derive(key: &Key, hello: &[u8], challenge: &[u8]) -> Self {
        let session = derived(&keyed(&key.0), &[b"quaver path 2 session", hello, challenge]);
        Self {
            client: MessageKey(derived(&session, &[b"client to server"])),
            server: MessageKey(derived(&session, &[b"server to client"])),
            session,
        }
    }

    /// Key of the test packets of the flow with this tag.
    pub(super) fn packets(&self, tag: &[u8; 8]) -> PacketKey {
        PacketKey(derived(&self.session, &[b"test packets", tag]))
    }
}

/// Key of the control messages of one direction.
#[derive(Clone)]
pub(super) struct MessageKey(HmacSha256);

impl MessageKey {
    /// Code of message `number`.
    pub(super) fn code(&self, number: u64, header: &[u8], body: &[u8]) -> [u8; CODE_BYTES] {
        self.over(number, header, body).finalize().into_bytes().into()
    }

    /// Whether `code` is that of message `number`; takes as long whatever it is.
    pub(super) fn verify(&self, number: u64, header: &[u8], body: &[u8], code: &[u8]) -> bool {
        self.over(number, header, body).verify_slice(code).is_ok()
    }

    fn over(&self, number: u64, header: &[u8], body: &[u8]) -> HmacSha256 {
        self.0.clone().chain_update(number.to_be_bytes()).chain_update(header).chain_update(body)
    }
}

/// Key of the test packets of one flow: the code of a packet is over its epoch and all of it but the code.
#[derive(Clone)]
pub struct PacketKey(HmacSha256);

impl PacketAuthenticator for PacketKey {
    fn code(&self, parts: &[&[u8]]) -> [u8; AUTHENTICATION_BYTES as usize] {
        let code = parts.iter().fold(self.0.clone(), |code, part| code.chain_update(part));
        let whole: [u8; CODE_BYTES] = code.finalize().into_bytes().into();
        std::array::from_fn(|place| whole[place])
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey(..)")
    }
}

fn keyed(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// A key made of another and of words; each with its length before it, so that no two rows of words are alike.
fn derived(key: &HmacSha256, words: &[&[u8]]) -> HmacSha256 {
    let mut code = key.clone();
    for word in words {
        code.update(&(word.len() as u64).to_be_bytes());
        code.update(word);
    }
    keyed(&code.finalize().into_bytes())
}

/// Random bytes of the kernel, fit for secrets.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut octets = [0u8; N];
    let mut filled = 0;
    while filled < N {
        let rest = &mut octets[filled..];
        // SAFETY: the pointer and length are those of `rest`, which is valid for writing.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        // Only EINTR can come: the flags are valid and the buffer is ours.
        filled += usize::try_from(got).unwrap_or(0);
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new(b"0123456789abcdef\n").unwrap()
    }

    #[test]
    fn short_keys_are_refused_and_none_is_shown() {
        assert_eq!(Key::new(b"0123456789abcde \n"), Err(KeyTooShort(15)));
        assert_eq!(format!("{:?}", key()), "Key(..)");
        assert_eq!(key(), Key::new(b"0123456789abcdef").unwrap(), "line end is no part of it");
    }

    /// RFC 4231, test case 2, through the same code.
    #[test]
    fn the_code_is_that_of_rfc_4231() {
        let code = keyed(b"Jefe").chain_update(b"what do ya want for nothing?").finalize().into_bytes();
        let hex: String = code.iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let packets = PacketKey(keyed(b"Jefe"));
        let code = packets.code(&[b"what do ya ", b"want for nothing?"]);
        assert_eq!(
            code[..],
            [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 4, 0x24, 0x26, 8, 0x95, 0x75, 0xc7]
        );
    }

    #[test]
    fn every_word_of_the_session_changes_its_keys() {
        let code = |key: &Key, hello: &[u8], challenge: &[u8]| {
            let keys = SessionKeys::derive(key, hello, challenge);
            [
                keys.client.code(0, b"h", b"b"),
                keys.server.code(0, b"h", b"b"),
                keys.client.code(1, b"h", b"b"),
            ]
        };
        let other = Key::new(b"0123456789abcdeF").unwrap();
        let all: Vec<[u8; 32]> =
            [code(&key(), b"ab", b"c"), code(&key(), b"a", b"bc"), code(&other, b"ab", b"c")].concat();
        for (index, code) in all.iter().enumerate() {
            assert!(!all[..index].contains(code), "{index}");
        }
    }

    #[test]
    fn tags_have_their_own_keys() {
        let keys = SessionKeys::derive(&key(), b"", b"");
        let (one, two) = (keys.packets(&[1; 8]), keys.packets(&[2; 8]));
        assert_ne!(one.code(&[b"packet"]), two.code(&[b"packet"]));
    }

    #[test]
    fn random_octets_differ() {
        assert_ne!(random::<16>(), random::<16>());
    }
}
