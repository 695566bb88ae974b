//! The HTML report: one file that works offline and fetches nothing.
//!
//! Words and tables are rendered here and are readable without scripts; plots are drawn in the browser from
//! data blocks. The content security policy of the page forbids every request.

pub mod drawn;
pub mod embed;
pub mod page;
pub mod table;

use serde::Serialize;
use std::io::{self, Write};

const STYLE: &str = include_str!("../../assets/report/report.css");
/// What the pages are made of, beside each page's own text.
const PARTS: [(&str, &str); 2] = [
    ("compare_table.html", include_str!("../../assets/report/compare_table.html")),
    ("document.html", include_str!("../../assets/report/document.html")),
];
const PLOT_STYLE: &str = include_str!("../../../view/assets/uplot/uPlot.min.css");

const PLOT_LICENCE: &str = include_str!("../../../view/assets/uplot/LICENSE");

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The page could not be filled in; a mistake of ours.
    #[error("fill in the report page: {0}")]
    Page(#[from] minijinja::Error),
    /// Writing failed.
    #[error("write the report: {0}; free some space or choose another place")]
    Write(#[from] io::Error),
}

/// The page up to its data, which these scripts draw.
pub fn write_head(
    out: &mut dyn Write,
    template: &str,
    page: &impl Serialize,
    scripts: &[&str],
) -> Result<(), ReportError> {
    let mut engine = minijinja::Environment::new();
    engine.add_template("page.html", template)?;
    for (name, text) in PARTS {
        engine.add_template(name, text)?;
    }
    let context = minijinja::context! {
        page => minijinja::value::Serde(page), style => STYLE, plot_style => PLOT_STYLE, scripted => !scripts.is_empty(),
    };
    out.write_all(engine.get_template("page.html")?.render(context)?.as_bytes())?;
    Ok(())
}

/// Scripts, and the end of the page.
pub fn write_end(out: &mut dyn Write, scripts: &[&str]) -> Result<(), ReportError> {
    if !scripts.is_empty() {
        // The library's licence asks that its text goes with every copy.
        writeln!(out, "<script type=\"text/plain\" id=\"uplot-licence\">{PLOT_LICENCE}</script>")?;
    }
    for script in scripts {
        writeln!(out, "<script>{script}</script>")?;
    }
    out.write_all(b"</body>\n</html>\n")?;
    out.flush()?;
    Ok(())
}
