//! Data inside an HTML page: base64 blocks and JSON that cannot end the script element that holds them.

use serde::Serialize;
use std::io::{self, Write};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648, section 4).
pub(super) fn write_base64(out: &mut dyn Write, octets: &[u8]) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(4 * 4096);
    for chunk in octets.chunks(3 * 4096) {
        buffer.clear();
        for group in chunk.chunks(3) {
            let value =
                group.iter().enumerate().fold(0, |v, (at, octet)| v | u32::from(*octet) << (16 - 8 * at));
            for digit in 0..4 {
                let index = (value >> (18 - 6 * digit)) as usize & 63;
                buffer.push(if digit <= group.len() { ALPHABET[index] } else { b'=' });
            }
        }
        out.write_all(&buffer)?;
    }
    Ok(())
}

/// A data block of the page; `id` is ours and needs no escaping. Browsers do not run a script of this type.
pub fn write_block(out: &mut dyn Write, id: &str, octets: &[u8]) -> io::Result<()> {
    write!(out, "<script type=\"text/plain\" id=\"{id}\">")?;
    write_base64(out, octets)?;
    out.write_all(b"</script>\n")
}

/// Little-endian octets of 32-bit numbers.
pub fn octets_of(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// JSON as a data block. `<` only ever stands inside JSON strings, where it may be written as an escape; so
/// neither `</script>` nor `<!--` can occur.
pub fn write_json(out: &mut dyn Write, id: &str, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(value)?.replace('<', "\\u003c");
    writeln!(out, "<script type=\"application/json\" id=\"{id}\">{json}</script>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(text: &str) -> String {
        let mut out = Vec::new();
        write_base64(&mut out, text.as_bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn vectors_of_rfc_4648_section_10() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, wanted) in vectors {
            assert_eq!(base64(text), wanted);
        }
        assert_eq!(base64(&"abc".repeat(9_000)).len(), 36_000);
    }

    #[test]
    fn json_cannot_end_its_element() {
        let mut out = Vec::new();
        write_json(&mut out, "x", &["</script><script>alert(1)</script><!--"]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("</script>").count(), 1);
        assert!(text.contains(r"\u003c/script>\u003cscript>alert(1)\u003c/script>\u003c!--"));
    }
}
