//! Keys of a terminal in raw mode, from the bytes that it sends.
//!
//! crossterm's reader of events is not used. It waits by edges of epoll: a key that comes together with a resize is not read
//! until the next one, and whoever waits for both spins meanwhile. At a terminal that was hung up it never returns.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character of ASCII.
    Char(char),
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Ctrl-C, which in raw mode is no signal.
    ControlC,
}

const ESCAPE: u8 = 0x1b;
/// Longest control sequence that is waited for.
const LONGEST: usize = 16;

/// Turns bytes into keys. A sequence may come in parts.
#[derive(Debug, Default)]
pub(crate) struct KeyReader {
    /// The beginning of a sequence.
    begun: Vec<u8>,
}

impl KeyReader {
    /// The keys that these bytes complete. What is no key of ours is passed over.
    pub(crate) fn take(&mut self, octets: &[u8]) -> Vec<Key> {
        octets.iter().filter_map(|octet| self.next(*octet)).collect()
    }

    fn next(&mut self, octet: u8) -> Option<Key> {
        match (self.begun.as_slice(), octet) {
            (_, ESCAPE) => {
                self.begun = vec![ESCAPE];
                None
            }
            ([], _) => plain(octet),
            // CSI or SS3 (ECMA-48): `ESC [ A`, with modifiers `ESC [ 1 ; 5 A`, in the keypad's mode `ESC O A`.
            ([_], b'[' | b'O') | ([_, _, ..], 0x20..=0x3f) if self.begun.len() < LONGEST => {
                self.begun.push(octet);
                None
            }
            // The Escape key, or Alt with a character.
            ([_], _) => {
                self.begun.clear();
                plain(octet)
            }
            _ => {
                self.begun.clear();
                last(octet)
            }
        }
    }
}

fn plain(octet: u8) -> Option<Key> {
    match octet {
        0x03 => Some(Key::ControlC),
        b'\t' => Some(Key::Tab),
        b' '..=b'~' => Some(Key::Char(char::from(octet))),
        _ => None,
    }
}

/// By the last byte of its sequence.
fn last(octet: u8) -> Option<Key> {
    match octet {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'Z' => Some(Key::BackTab),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(octets: &[u8]) -> Vec<Key> {
        KeyReader::default().take(octets)
    }

    #[test]
    fn keys_as_terminals_send_them() {
        use Key::{BackTab, Char, ControlC, Down, Left, Right, Tab, Up};
        assert_eq!(keys(b"q?\t\x03"), [Char('q'), Char('?'), Tab, ControlC]);
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D\x1b[Z"), [Up, Down, Right, Left, BackTab]);
        assert_eq!(keys(b"\x1bOA\x1b[1;5D"), [Up, Left]);
        // Escape, Alt-q, F5, Delete, a mouse's report and text that is no ASCII.
        assert_eq!(
            keys(b"\x1b\x1bq\x1b[15~\x1b[3~x\x1b[<0;10;20My\xc3\xa4z"),
            [Char('q'), Char('x'), Char('y'), Char('z')]
        );
    }

    #[test]
    fn a_sequence_in_parts_is_one_key_and_an_endless_one_ends() {
        let mut reader = KeyReader::default();
        let parts = [&b"\x1b"[..], b"[", b"1;", b"5A", b"q"].map(|part| reader.take(part));
        assert_eq!(parts.concat(), [Key::Up, Key::Char('q')]);
        let mut endless = b"\x1b[".to_vec();
        endless.extend([b'1'; 1_000]);
        assert!(keys(&endless).len() < 1_000);
        assert!(reader.take(&endless).len() > 900, "it is text again");
        assert!(reader.begun.is_empty());
    }
}
