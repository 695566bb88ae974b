//! Trace files as text, for places that keep no other files: a line that says what it is, then base64 (RFC 4648, section 4) in
//! lines of 76 characters.
//!
//! ```text
//! quaver trace in base64 (RFC 4648)\n
//! UVRSQUNFDQoBAAAAAAAAAAEAAAA…\n
//! ```

/// The first line.
const FIRST: &str = "quaver trace in base64 (RFC 4648)";
/// Characters in a line.
const LINE: usize = 76;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// Whether a file that begins so is a trace as text.
pub fn is_armour(start: &[u8]) -> bool {
    start.starts_with(FIRST.as_bytes())
}

/// A trace file as text.
pub fn encode(octets: &[u8]) -> String {
    let mut out = String::with_capacity(octets.len() / 3 * 4 + octets.len() / 50 + FIRST.len() + 8);
    out.push_str(FIRST);
    out.push('\n');
    for line in octets.chunks(LINE / 4 * 3) {
        for three in line.chunks(3) {
            let word = three.iter().fold(0_u32, |word, octet| word << 8 | u32::from(*octet))
                << (8 * (3 - three.len()));
            for place in 0..4 {
                let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
                out.push(char::from(if place <= three.len() { digit } else { PAD }));
            }
        }
        out.push('\n');
    }
    out
}

/// The bytes of a trace file from its text. Blanks and ends of lines count nothing.
///
/// # Errors
/// What is wrong, with its line.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut lines = text.split(|octet| *octet == b'\n');
    if lines.next().map(<[u8]>::trim_ascii_end) != Some(FIRST.as_bytes()) {
        return Err("it does not begin as a trace in text".into());
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut digits, mut pads) = (0_u32, 0_u32, 0_u32);
    for (line, octets) in lines.enumerate() {
        let number = line + 2;
        for octet in octets.iter().filter(|octet| !octet.is_ascii_whitespace()) {
            let value = match value_of(*octet) {
                Some(value) if pads == 0 => value,
                None if *octet == PAD && digits >= 2 => {
                    pads += 1;
                    0
                }
                _ => return Err(format!("line {number} has a character that does not belong there")),
            };
            word = word << 6 | value;
            digits += 1;
            if digits == 4 {
                out.extend_from_slice(&word.to_be_bytes()[1..4 - pads as usize]);
                (word, digits) = (0, 0);
            }
        }
    }
    if digits == 0 { Ok(out) } else { Err("it ends in the middle".into()) }
}

fn value_of(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_vectors_of_rfc_4648_section_10() {
        for (plain, coded) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let text = encode(plain.as_bytes());
            assert_eq!(text, format!("{FIRST}\n{coded}\n"));
            assert_eq!(decode(text.as_bytes()).unwrap(), plain.as_bytes());
        }
        assert_eq!(encode(b""), format!("{FIRST}\n"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let of = |rest: &str| decode(format!("{FIRST}\n{rest}").as_bytes()).unwrap_err();
        assert_eq!(of("Zm9v\nZm*v\n"), "line 3 has a character that does not belong there");
        assert_eq!(of("Zg==Zg==\n"), "line 2 has a character that does not belong there");
        assert_eq!(of("Z===\n"), "line 2 has a character that does not belong there");
        assert_eq!(of("Zm9vYg"), "it ends in the middle");
        assert_eq!(decode(b"Zm9v").unwrap_err(), "it does not begin as a trace in text");
    }

    proptest! {
        #[test]
        fn all_octets_come_back(octets in proptest::collection::vec(any::<u8>(), 0..500)) {
            let text = encode(&octets);
            prop_assert!(is_armour(text.as_bytes()));
            prop_assert!(text.lines().all(|line| line.len() <= LINE));
            prop_assert_eq!(decode(text.as_bytes()).unwrap(), octets.clone());
            prop_assert_eq!(decode(text.replace('\n', "\r\n").as_bytes()).unwrap(), octets);
        }

        #[test]
        fn nothing_is_a_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[FIRST.as_bytes(), b"\n", &octets].concat());
        }
    }
}
