//! Data inside the page: one packed block of JSON from which scripts draw.

use crate::chart::Chart;
use crate::plot::Numbers;
use base64::prelude::BASE64_STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

/// Integers up to here are exact in JSON's numbers (RFC 8259, section 6).
const MOST_EXACT: f64 = (1_u64 << 53) as f64;

impl Serialize for Numbers {
    /// A list with `null` for gaps. Fractions have ten significant digits, which is finer than any drawing.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(|value| match value {
            value if !value.is_finite() => Value::Null,
            value if value.fract() == 0.0 && value.abs() <= MOST_EXACT => Value::from(*value as i64),
            value => Value::from(format!("{value:.9e}").parse::<f64>().unwrap_or(*value)),
        }))
    }
}

#[derive(Serialize)]
struct ChartData<'a> {
    linked: Option<&'a str>,
    plot: &'a crate::plot::Plot,
}

/// What scripts draw the page's charts from. Equal columns of numbers of several charts stand in it once.
#[derive(Default)]
pub(super) struct Drawings {
    charts: Map<String, Value>,
    columns: Vec<Value>,
    known: HashMap<String, usize>,
}

/// From this many numbers on a column stands by itself.
const LONG: usize = 32;
/// Fields that hold columns.
const FIELDS: [&str; 7] = ["x", "y", "low", "high", "edges", "counts", "shares"];

impl Drawings {
    /// Adds the data of a chart.
    pub(super) fn add(&mut self, chart: &Chart) -> io::Result<()> {
        let mut data =
            serde_json::to_value(ChartData { linked: chart.linked.as_deref(), plot: &chart.plot })?;
        self.set_apart(&mut data);
        self.charts.insert(chart.id.clone(), data);
        Ok(())
    }

    /// Takes long columns out and leaves their numbers: `@3`.
    fn set_apart(&mut self, data: &mut Value) {
        match data {
            Value::Array(items) => items.iter_mut().for_each(|item| self.set_apart(item)),
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
                Value::Array(numbers) if numbers.len() >= LONG && FIELDS.contains(&name.as_str()) => {
                    let next = self.columns.len();
                    let number = *self.known.entry(value.to_string()).or_insert(next);
                    let column = std::mem::replace(value, Value::String(format!("@{number}")));
                    if number == next {
                        self.columns.push(column);
                    }
                }
                value => self.set_apart(value),
            }),
            _ => {}
        }
    }

    /// Writes all as one block: JSON, deflated (RFC 1951), in base64, which holds nothing that would end the element.
    pub(super) fn write(self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"<script type=\"text/plain\" id=\"view-data\">")?;
        let text = EncoderWriter::new(&mut *out, &BASE64_STANDARD);
        let mut packed = DeflateEncoder::new(text, Compression::best());
        serde_json::to_writer(&mut packed, &json!({ "charts": self.charts, "columns": self.columns }))?;
        packed.finish()?.finish()?;
        out.write_all(b"</script>\n")
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
    fn numbers_are_exact_integers_short_fractions_and_gaps() {
        let numbers =
            Numbers(vec![1.0, f64::NAN, 2.5, 1.0 / 3.0, 12_345_678_901.0, -0.0, f64::INFINITY, 1e300]);
        let json = serde_json::to_string(&numbers).unwrap();
        assert_eq!(json, "[1,null,2.5,0.3333333333,12345678901,0,null,1e+300]");
    }

    #[test]
    fn equal_columns_stand_in_the_page_once() {
        let chart = |id: &str, last: f64| {
            let x: Vec<f64> = (0..100).map(f64::from).collect();
            let y = x.iter().copied().chain([last]).collect();
            let plot = Xy::default().with(Series::new("@1", Colour::Muted, Data::Points { x: x.into(), y }));
            Chart::new(id, "", plot)
        };
        let mut drawings = Drawings::default();
        for chart in [chart("a", 1.0), chart("b", 2.0)] {
            drawings.add(&chart).unwrap();
        }
        let mut out = Vec::new();
        drawings.write(&mut out).unwrap();
        let data = crate::html::unpacked(std::str::from_utf8(&out).unwrap());
        let lengths: Vec<usize> = data["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column.as_array().unwrap().len())
            .collect();
        assert_eq!(lengths, [100, 101, 101]);
        assert_eq!(data["columns"][1][100], 1);
        let series = |chart: &str| &data["charts"][chart]["plot"]["series"][0];
        assert_eq!(
            (&series("a")["name"], &series("a")["x"], &series("a")["y"]),
            (&"@1".into(), &"@0".into(), &"@1".into())
        );
        assert_eq!((&series("b")["x"], &series("b")["y"]), (&"@0".into(), &"@2".into()));
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
