//! The plots of a path for gnuplot: a file of data for each, and a script that draws them all.
//!
//! Times are seconds. Where gnuplot 5 or later runs, `gnuplot plots.gp` in the directory makes a PNG of each plot; in the
//! script, `set terminal qt persist` instead of the two first lines shows them in windows.

use super::{Bars, DelayPlot, PathPlots};
use quaver_arrivals::path::histogram::Histogram;
use std::io::{self, Write};

/// Name of the script.
pub const SCRIPT: &str = "plots.gp";
const BURSTINESS: &str = "burstiness";

/// Writes every file that the plots need: `open` makes a file of the name that it is given.
///
/// # Errors
/// Those of `open` and of the writers.
pub fn write_all<W: Write>(
    plots: &PathPlots<'_>,
    mut open: impl FnMut(&str) -> io::Result<W>,
) -> io::Result<()> {
    for plot in DelayPlot::ALL {
        if let Some(histogram) = plots.histogram(plot) {
            let mut out = open(&data_name(plot.file()))?;
            write_histogram(&mut out, histogram)?;
            out.flush()?;
        }
    }
    let mut out = open(&data_name(BURSTINESS))?;
    write_burstiness(&mut out, plots)?;
    out.flush()?;
    for bars in plots.bars() {
        let mut out = open(&data_name(bars.file))?;
        writeln!(out, "# {}: {}, {}", bars.title, bars.of, bars.unit)?;
        bars.bars.iter().try_for_each(|(value, height)| writeln!(out, "{value} {height}"))?;
        out.flush()?;
    }
    let mut out = open(SCRIPT)?;
    out.write_all(script(plots).as_bytes())?;
    out.flush()
}

fn data_name(base: &str) -> String {
    format!("{base}.dat")
}

/// Centre of each bin, packets in it, part of all packets up to its end.
fn write_histogram(out: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    writeln!(out, "# centre of the bin s, packets, part of all packets up to the end of the bin")?;
    let limit = seconds(histogram.limit_ns as f64);
    writeln!(out, "# {} of {} packets lie beyond the limit, {limit} s", histogram.above, histogram.total())?;
    for (at, (count, share)) in histogram.counts.iter().zip(histogram.cumulative()).enumerate() {
        writeln!(out, "{} {count} {share:.6}", seconds(histogram.centre_ns(at)))?;
    }
    Ok(())
}

/// Time of arrival after the first, latency.
fn write_burstiness(out: &mut dyn Write, plots: &PathPlots<'_>) -> io::Result<()> {
    writeln!(out, "# time of arrival after the first s, latency s, sequence number")?;
    let first_ns = plots.arrivals.first().map_or(0, |first| first.received_ns);
    for arrival in plots.arrivals {
        let after_ns = arrival.received_ns.saturating_sub(first_ns);
        let [after, latency] = [after_ns, arrival.delay_ns()].map(exact_seconds);
        writeln!(out, "{after} {latency} {}", arrival.sequence)?;
    }
    Ok(())
}

/// Seconds to a tenth of a nanosecond.
fn seconds(ns: f64) -> String {
    format!("{:.10}", ns / 1e9)
}

/// Seconds, each nanosecond kept.
fn exact_seconds(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000)
}

/// The script.
fn script(plots: &PathPlots<'_>) -> String {
    let mut out = String::from(
        "set terminal pngcairo size 1000,600 noenhanced\n\
         set encoding utf8\n\
         set grid\n\
         set style fill solid 0.5\n",
    );
    for plot in DelayPlot::ALL {
        if let Some(histogram) = plots.histogram(plot) {
            out += &delay_script(plots, plot, histogram);
        }
    }
    if !plots.arrivals.is_empty() {
        out += &burstiness_script(plots);
    }
    out += "set format x '%g'\nset format y '%g'\n";
    for bars in plots.bars() {
        out += &bars_script(plots, &bars);
    }
    out
}

fn head(plots: &PathPlots<'_>, file: &str, title: &str, x: &str, y: &str) -> String {
    format!(
        "\nset output '{file}.png'\nset title {}.\"\\n\".{}\nset xlabel {}\nset ylabel {}\n",
        quoted(title),
        quoted(plots.title),
        quoted(x),
        quoted(y)
    )
}

fn delay_script(plots: &PathPlots<'_>, plot: DelayPlot, histogram: &Histogram) -> String {
    let data = quoted(&data_name(plot.file()));
    let title = format!("{} up to the 99th percentile", plot.name());
    head(plots, plot.file(), &title, plot.name(), "packets")
        + &format!(
            "set format x '{}'\nset key right center\nset y2tics\nset y2range [0:1]\nset y2label 'part of all packets'\n\
             set boxwidth {}\n\
             plot {data} using 1:2 with boxes title 'packets', \\\n     \
             {data} using 1:3 axes x1y2 with steps linewidth 2 title 'cumulative'\n\
             unset y2tics\nunset y2label\nunset boxwidth\nset key default\n",
            time_format(histogram.min_ns, histogram.limit_ns),
            seconds(histogram.bin_ns as f64)
        )
}

fn burstiness_script(plots: &PathPlots<'_>) -> String {
    let data = quoted(&data_name(BURSTINESS));
    let mut out = head(plots, BURSTINESS, "burstiness", "time of arrival", "latency");
    let delays = || plots.arrivals.iter().map(quaver_arrivals::path::Arrival::delay_ns);
    let format = time_format(delays().min().unwrap_or(0), delays().max().unwrap_or(0));
    out += &format!("set format x '%g s'\nset format y '{format}'\n");
    out += &format!("plot {data} using 1:2 with points pointtype 7 pointsize 0.3 title 'packets'");
    if let Some(line) = plots.line {
        let (time, delay) = (line.mean_time_ns / 1e9, line.mean_delay_ns / 1e9);
        let slope = line.slope;
        out += &format!(
            ", \\\n     {delay:.10} + {slope:e} * (x - {time:.10}) linewidth 2 title 'least squares, m = {slope:.6}'"
        );
    }
    out + "\nset format y '%g'\n"
}

fn bars_script(plots: &PathPlots<'_>, bars: &Bars) -> String {
    let data = quoted(&data_name(bars.file));
    let span = bars.bars.first().zip(bars.bars.last()).map_or(0, |(first, last)| last.0.abs_diff(first.0));
    // A mark for each whole number where there is room.
    let marks = if span <= 30 { "1" } else { "autofreq" };
    let title = head(plots, bars.file, bars.title, bars.of, bars.unit);
    format!(
        "{title}set boxwidth 0.8\nset yrange [0:*]\nset xtics {marks}\n\
         plot {data} using 1:2 with boxes notitle\nset yrange [*:*]\nunset boxwidth\n"
    )
}

/// The format of an axis of times with a prefix, with as many decimals as tell its marks apart.
fn time_format(min_ns: i64, max_ns: i64) -> String {
    let largest = (min_ns.unsigned_abs().max(max_ns.unsigned_abs()).max(1) as f64).log10();
    // About eight marks, and gnuplot takes steps of 1, 2 or 5.
    let step = (min_ns.abs_diff(max_ns).max(8) as f64 / 16.0).log10().floor();
    let decimals = ((largest / 3.0).floor() * 3.0 - step).clamp(0.0, 9.0) as usize;
    format!("%.{decimals}s %cs")
}

/// A string of gnuplot: in single quotes nothing but the quote itself means anything.
fn quoted(text: &str) -> String {
    format!("'{}'", quaver_view::safe(text).replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::example::Example;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    /// A file in memory.
    #[derive(Clone, Default)]
    struct Memory(Rc<RefCell<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn files(plots: &PathPlots<'_>) -> BTreeMap<String, String> {
        let mut made: BTreeMap<String, Memory> = BTreeMap::new();
        write_all(plots, |name| Ok(made.entry(name.to_owned()).or_default().clone())).unwrap();
        let text = |memory: Memory| String::from_utf8(memory.0.take()).unwrap();
        made.into_iter().map(|(name, memory)| (name, text(memory))).collect()
    }

    #[test]
    fn data_of_every_plot_and_a_script_that_names_them_all() {
        let example = Example::new();
        let files = files(&example.plots());
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let wanted = [
            "burstiness.dat",
            "duplication-length.dat",
            "latency.dat",
            "loss-length.dat",
            "pdv.dat",
            "plots.gp",
            "reorder-density.dat",
        ];
        assert_eq!(names, wanted);
        for name in wanted.iter().filter(|name| name.ends_with(".dat")) {
            assert!(files["plots.gp"].contains(&format!("'{name}'")), "{name}");
        }
        assert_eq!(files["loss-length.dat"].lines().skip(1).collect::<Vec<_>>(), ["1 5", "2 1", "7 1"]);
        let density: Vec<&str> = files["reorder-density.dat"].lines().skip(1).collect();
        assert_eq!(density, ["-1 0.01", "0 0.98", "2 0.01"]);
        assert_eq!(files["burstiness.dat"].lines().nth(2), Some("0.020370000 0.001370000 1"));
        assert_eq!(files["burstiness.dat"].lines().count(), 201);
    }

    #[test]
    fn histograms_end_at_the_limit_and_add_up() {
        let example = Example::new();
        let pdv = &files(&example.plots())["pdv.dat"];
        let rows: Vec<Vec<f64>> = pdv
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.len(), 10);
        let counted: f64 = rows.iter().map(|row| row[1]).sum();
        assert_eq!(counted as u64 + example.pdv.above, 200);
        assert!((rows[9][2] - counted / 200.0).abs() < 1e-6);
        assert!(rows.iter().all(|row| row[0] < 0.98e-3));
    }

    #[test]
    fn marks_of_an_axis_differ() {
        assert_eq!(time_format(0, 42_000_000), "%.0s %cs");
        assert_eq!(time_format(1_614_710_000, 1_614_977_000), "%.5s %cs");
        assert_eq!(time_format(-80_000, 20_000), "%.0s %cs");
        assert_eq!(time_format(5, 5), "%.1s %cs");
    }

    #[test]
    fn a_title_cannot_leave_its_quotes() {
        assert_eq!(quoted("it's\n`x`"), "'it''s\u{fffd}`x`'");
    }
}
