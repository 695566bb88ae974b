//! Data inside the page: JSON that cannot end the script element that holds it, with long columns of numbers as base64.

use crate::chart::Chart;
use crate::plot::Numbers;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Write};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// From this many numbers on a column is base64.
const LONG: usize = 32;

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: impl ExactSizeIterator<Item = u8>, out: &mut String) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    let (mut value, mut held) = (0_u32, 0);
    let mut digits = |value: u32, held: usize| {
        for digit in 0..4 {
            let index = (value >> (18 - 6 * digit)) as usize & 63;
            out.push(char::from(if digit <= held { ALPHABET[index] } else { b'=' }));
        }
    };
    for byte in bytes {
        value |= u32::from(byte) << (16 - 8 * held);
        held += 1;
        if held == 3 {
            digits(value, held);
            (value, held) = (0, 0);
        }
    }
    if held > 0 {
        digits(value, held);
    }
}

/// A gap among integers.
const GAP: i32 = i32::MIN;

impl Serialize for Numbers {
    /// Few: a list with `null` for gaps. Many: `i` or `f` and the base64 of little-endian integers of 32 bits or floats of
    /// 64 bits.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.len() < LONG {
            return to.collect_seq(self.iter().map(|value| value.is_finite().then_some(*value)));
        }
        let integer = |value: f64| {
            let known = value.is_finite();
            (!known || (value.fract() == 0.0 && value.abs() < f64::from(i32::MAX))).then_some(if known {
                value as i32
            } else {
                GAP
            })
        };
        let mut out = String::new();
        match self.iter().map(|value| integer(*value)).collect::<Option<Vec<i32>>>() {
            Some(all) => {
                out.push('i');
                let bytes: Vec<u8> = all.iter().flat_map(|value| value.to_le_bytes()).collect();
                base64(bytes.into_iter(), &mut out);
            }
            None => {
                out.push('f');
                let bytes: Vec<u8> = self.iter().flat_map(|value| value.to_le_bytes()).collect();
                base64(bytes.into_iter(), &mut out);
            }
        }
        to.serialize_str(&out)
    }
}

#[derive(Serialize)]
struct ChartData<'a> {
    linked: Option<&'a str>,
    plot: &'a crate::plot::Plot,
}

/// Columns of numbers that were written: equal ones of several charts stand in the page once.
#[derive(Default)]
pub(super) struct Columns(HashMap<String, usize>);

/// From this many characters on a column stands by itself.
const APART: usize = 256;
/// Fields that hold columns.
const FIELDS: [&str; 7] = ["x", "y", "low", "high", "edges", "counts", "shares"];

impl Columns {
    /// The data that a script draws a chart from.
    pub(super) fn write_chart(&mut self, out: &mut dyn Write, chart: &Chart) -> io::Result<()> {
        let mut data =
            serde_json::to_value(ChartData { linked: chart.linked.as_deref(), plot: &chart.plot })?;
        self.set_apart(out, &mut data)?;
        write_json(out, &format!("data-{}", chart.id), &data)
    }

    /// Writes long columns by themselves and leaves their numbers: `@3`.
    fn set_apart(&mut self, out: &mut dyn Write, data: &mut Value) -> io::Result<()> {
        match data {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.set_apart(out, item)),
            Value::Object(fields) => fields.iter_mut().try_for_each(|(name, value)| match value {
                Value::String(text) if FIELDS.contains(&name.as_str()) => {
                    if text.len() < APART {
                        return Ok(());
                    }
                    let next = self.0.len();
                    let number = self.0.get(text.as_str()).copied().unwrap_or(next);
                    if number == next {
                        // Base64 holds nothing that would end the element.
                        writeln!(out, "<script type=\"text/plain\" id=\"column-{number}\">{text}</script>")?;
                        self.0.insert(std::mem::take(text), number);
                    }
                    *text = format!("@{number}");
                    Ok(())
                }
                value => self.set_apart(out, value),
            }),
            _ => Ok(()),
        }
    }
}

/// JSON as a data block; browsers do not run a script of this type. `<` only ever stands inside JSON strings, where it
/// may be written as an escape: so neither `</script>` nor `<!--` can occur.
pub(super) fn write_json(out: &mut dyn Write, id: &str, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(value)?.replace('<', "\\u003c");
    let mut name = super::markup::Markup::default();
    name.text(id);
    out.write_all(b"<script type=\"application/json\" id=\"")?;
    out.write_all(name.as_bytes())?;
    writeln!(out, "\">{json}</script>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Colour;
    use crate::plot::{Data, Series, Xy};

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
            let mut out = String::new();
            base64(text.bytes(), &mut out);
            assert_eq!(out, wanted);
        }
    }

    #[test]
    fn numbers_are_lists_integers_or_floats() {
        let json = |values: Vec<f64>| serde_json::to_string(&Numbers(values)).unwrap();
        assert_eq!(json(vec![1.0, f64::NAN, 2.5]), "[1.0,null,2.5]");
        let many = json((0..40).map(f64::from).collect());
        assert!(
            many.starts_with("\"iAAAAAAEAAAACAAAA") && many.len() == 3 + 160_usize.div_ceil(3) * 4,
            "{many}"
        );
        assert!(json((0..40).map(|at| f64::from(at) / 2.0).collect()).starts_with("\"fAAAAAAAAAAAAAAAA"));
    }

    #[test]
    fn equal_columns_stand_in_the_page_once() {
        let chart = |id: &str, last: f64| {
            let x: Vec<f64> = (0..100).map(f64::from).collect();
            let y = x.iter().copied().chain([last]).collect();
            let plot = Xy::default().with(Series::new("@1", Colour::Muted, Data::Points { x: x.into(), y }));
            Chart::new(id, "", plot)
        };
        let (mut out, mut columns) = (Vec::new(), Columns::default());
        for chart in [chart("a", 1.0), chart("b", 2.0)] {
            columns.write_chart(&mut out, &chart).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("id=\"column-").count(), 3, "{text}");
        assert!(
            text.contains(r#""name":"@1""#)
                && text.contains(r#""x":"@0","y":"@1""#)
                && text.contains(r#""x":"@0","y":"@2""#)
        );
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
