//! Files of other tools, as `quaver analyze` and `quaver compare` take them.

use crate::formats::{self, HEAD_BYTES, MOST_BYTES};
use crate::result::{Measurement, Quantity, Values};
use crate::view::document;
use anyhow::Context;
use quaver_analysis::compare::LEVELS;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::material::{Material, Samples, Stated};
use quaver_instrument::registry::{Comparable, FileKind};
use quaver_instrument::results::{self, Found};
use quaver_instrument::runs::AnalyzeArgs;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Results of other tools.
pub(crate) struct Results;

impl FileKind for Results {
    fn missing(&self) -> &'static str {
        "no result of cyclictest, rtla, irtt, iperf3, flent or sockperf"
    }

    fn recognizes(&self, path: &Path) -> anyhow::Result<bool> {
        Ok(formats::recognizes(&bytes(path, HEAD_BYTES)?))
    }

    fn analyze(&self, asked: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
        let refuse = |message| Err(failure(ExitCode::Usage, message));
        if asked.late.is_some() {
            return refuse("--late is for runs of chase and sink; other tools state no lateness of a packet");
        }
        if asked.layer.is_some() {
            return refuse("--layer is for captures, whose packets are stamped at several layers");
        }
        let (name, measurement) = read(&asked.run)?;
        let summary = measurement.json(&name);
        let page = || document(&name, &measurement);
        results::print(&Found::new(&summary), page, asked.json, &asked.fail_if)
    }

    fn comparable(&self, path: &Path) -> anyhow::Result<Comparable> {
        let (name, mut measurement) = read(path)?;
        // The figures of quantities are compared as such.
        let mut summary = measurement.json(&name);
        if let Some(all) = summary.as_object_mut() {
            all.retain(|key, _| key == "counts");
        }
        let mut material = Material::default();
        for quantity in measurement.quantities.drain(..) {
            let (id, name, unit) = (quantity.id.to_owned(), quantity.name.to_owned(), quantity.unit);
            match quantity {
                Quantity { values: Values::Samples(values), .. } => {
                    material.samples.push(Samples { id, name, unit, values });
                }
                _ => {
                    let levels = LEVELS.iter().zip(quantity.percentiles());
                    let percentiles =
                        levels.filter_map(|((_, share), value)| Some((*share, value?))).collect();
                    material.stated.push(Stated { id, name, unit, mean: quantity.figures.mean, percentiles });
                }
            }
        }
        Ok(Comparable { kind: measurement.tool.to_owned(), summary, material, notes: measurement.notes })
    }
}

/// A file's name, and what it says.
fn read(path: &Path) -> anyhow::Result<(String, Measurement)> {
    let all = bytes(path, MOST_BYTES + 1)?;
    let bad = |words: String| failure(ExitCode::BadInput, format!("read {}: {words}", path.display()));
    if all.len() > MOST_BYTES {
        return Err(bad(format!("it is larger than {} MiB", MOST_BYTES >> 20)));
    }
    let mut measurement = formats::parse(&all).map_err(bad)?;
    measurement.note_bounds();
    Ok((path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(), measurement))
}

fn bytes(path: &Path, most: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(most as u64).read_to_end(&mut bytes).with_context(|| format!("reading {}", path.display()))?;
    Ok(bytes)
}
