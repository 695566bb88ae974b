//! How the live view looks: from what is known to cells, and nothing else.

mod charts;

use super::state::{Phase, Stage, Totals, View, Way};
use quaver_arrivals::path::direction::Direction;
use quaver_screen::parts::{in_ascii, lines, right, text};
use quaver_screen::{Buffer, Color, Key, Look, Moment, Picture, Rect, Style};
use quaver_view::{Cell, bar};
use std::time::Duration;

/// Columns of the names of figures.
const NAMES: u16 = 20;
/// Columns of a direction's figures.
const FIGURES: u16 = 15;
/// Fewest columns that plots are drawn in.
const PLOTS: u16 = 20;
/// Columns between figures and plots.
const GAP: u16 = 2;
/// Columns of a bar of progress.
const BAR: u16 = 16;

/// The direction that is looked at, instead of the one that runs: its place.
pub type Choice = Option<usize>;

impl Picture for View {
    type Choice = Choice;

    fn draw(&self, choice: &Choice, moment: Moment, look: Look, area: Rect, buffer: &mut Buffer) {
        draw(self, *choice, moment, look, area, buffer);
    }

    fn press(&self, key: Key, choice: &mut Choice) {
        if key == Key::Tab {
            let shown = choice.unwrap_or(self.foremost());
            *choice = Some((shown + 1) % self.ways.len().max(1));
        }
    }
}

fn draw(view: &View, choice: Choice, moment: Moment, look: Look, area: Rect, buffer: &mut Buffer) {
    let now = moment.now;
    let mut rows = area.rows();
    let footer = rows.next_back();
    if let Some(row) = rows.next() {
        let short = format!("{}, {}", view.peer, view.what);
        let long = format!("quaver probe {short}");
        let fits = long.chars().count() <= usize::from(row.width);
        text(buffer, row, if fits { &long } else { &short }, look.strong());
    }
    for way in &view.ways {
        let Some(row) = rows.next() else { break };
        progress(way, view, now, look, row, buffer);
    }
    if let Some(row) = footer {
        let words = if moment.ending {
            "ending; results so far are kept"
        } else if moment.paused {
            "the picture stands still; p goes on"
        } else {
            "q end and keep   p hold   Tab other way   ? help"
        };
        text(buffer, row, words, look.faint());
    }
    let taken = 1 + view.ways.len() as u16;
    let body =
        Rect { y: area.y.saturating_add(taken), height: area.height.saturating_sub(taken + 1), ..area };
    // A line of air where there is room for it.
    let body = if body.height > 14 { Rect { y: body.y + 1, height: body.height - 2, ..body } } else { body };
    if moment.help {
        lines(buffer, body, &HELP, Style::new());
    } else {
        figures_and_plots(view, choice, look, body, buffer);
    }
    if look.ascii {
        in_ascii(buffer);
    }
}

const HELP: [&str; 11] = [
    "q, Ctrl-C  end the test; results so far are kept",
    "Ctrl-C     again: end at once, and keep nothing",
    "p          hold the picture; the test goes on",
    "Tab        look at the other direction",
    "?          back",
    "",
    "Delay is as measured: as good as the two clocks.",
    "PDV is delay less the smallest so far (RFC 5481).",
    "Not arrived: numbers up to the highest that has,",
    "without a packet; at the end these are lost.",
    "The page after the test has all other figures.",
];

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// `up   ███▌      12 s of 20 s, 8 s left`.
fn progress(way: &Way, view: &View, now: Duration, look: Look, row: Rect, buffer: &mut Buffer) {
    text(buffer, row, way.direction.name(), look.strong());
    let share = match (way.phase, way.length) {
        (Phase::Waiting, _) | (Phase::Running(_), None) => 0.0,
        (Phase::Running(since), Some(length)) => {
            now.saturating_sub(since).as_secs_f64() / length.as_secs_f64().max(1e-9)
        }
        (Phase::Done, _) => 1.0,
    };
    let rest = row.width.saturating_sub(5);
    let cells = if rest >= BAR * 3 { BAR } else { 0 };
    let track = Rect { x: row.x + 5.min(row.width), width: cells, ..row };
    let filled = bar(share, usize::from(cells), look.ascii);
    text(buffer, track, &filled, look.coloured(Color::Cyan));
    let left = filled.chars().count() as u16;
    let empty = if look.ascii { "." } else { "·" }.repeat(usize::from(cells.saturating_sub(left)));
    let track_rest = Rect { x: track.x + left.min(cells), width: cells.saturating_sub(left), ..row };
    text(buffer, track_rest, &empty, look.faint());
    let begin = 5 + if cells > 0 { cells + 2 } else { 0 };
    let place = Rect { x: row.x + begin.min(row.width), width: row.width.saturating_sub(begin), ..row };
    text(buffer, place, &doing(way, view, now), Style::new());
}

/// What a direction is doing.
fn doing(way: &Way, view: &View, now: Duration) -> String {
    let since = match way.phase {
        Phase::Done => return "done".to_owned(),
        Phase::Waiting => return waiting(way, view),
        Phase::Running(since) => since,
    };
    let gone = now.saturating_sub(since);
    let Some(length) = way.length else { return format!("for {}", seconds(gone)) };
    if gone >= length {
        let what = if way.live { "waiting for its end" } else { "getting its figures" };
        return format!("{} gone, {what}", seconds(length));
    }
    // Rounded up, so that what is left and what is gone add up.
    let left = Duration::from_secs(length.as_secs().saturating_sub(gone.as_secs()));
    format!("{} of {}, {} left", seconds(gone), seconds(length), seconds(left))
}

fn waiting(way: &Way, view: &View) -> String {
    let first = view.ways.first().is_some_and(|first| first.direction == way.direction);
    match view.stage {
        _ if !first => "its turn comes later".to_owned(),
        Stage::Connecting => "connecting".to_owned(),
        Stage::RoundTrips { count, least_ns } => {
            let least = least_ns.map(|least_ns| format!(", at least {}", Cell::Duration(least_ns)));
            format!("round trips: {count}{}", least.unwrap_or_default())
        }
        Stage::Queued(place) => format!("the server is busy; queue position {place}"),
        Stage::Testing => "begins".to_owned(),
    }
}

fn figures_and_plots(view: &View, choice: Choice, look: Look, area: Rect, buffer: &mut Buffer) {
    let shown = choice.unwrap_or(view.foremost()).min(view.ways.len().saturating_sub(1));
    let Some(way) = view.ways.get(shown) else { return };
    let all: Vec<&Way> = view.ways.iter().collect();
    let wide = NAMES + FIGURES * all.len() as u16;
    // Where not all fits, the figures of the direction that is looked at.
    let (ways, width) =
        if area.width >= wide + GAP + PLOTS { (all, wide) } else { (vec![way], NAMES + FIGURES) };
    table(&ways, way.direction, look, Rect { width: width.min(area.width), ..area }, buffer);
    let begin = width + GAP;
    if area.width >= begin + PLOTS {
        let plots = Rect { x: area.x + begin, width: area.width - begin, ..area };
        charts::draw(way, look, plots, buffer);
    }
}

/// A figure: its name, its value, and whether it is bad news.
struct Row {
    name: &'static str,
    value: fn(&Totals) -> Cell,
    bad: fn(&Totals) -> bool,
}

const fn row(name: &'static str, value: fn(&Totals) -> Cell) -> Row {
    Row { name, value, bad: |_| false }
}

const ROWS: [Row; 11] = [
    row("received", |totals| Cell::Count(totals.received)),
    Row { name: "not arrived", value: not_arrived, bad: |totals| totals.not_arrived > 0 },
    row("duplicates", |totals| Cell::Count(totals.duplicate)),
    row("reordered", |totals| Cell::Count(totals.reordered)),
    row("delay min", |totals| Cell::Duration(totals.delay_ns[0])),
    row("      p50", |totals| Cell::Duration(totals.delay_ns[1])),
    row("      p99", |totals| Cell::Duration(totals.delay_ns[2])),
    row("      max", |totals| Cell::Duration(totals.delay_ns[3])),
    row("PDV   p50", |totals| Cell::Duration(totals.pdv_ns[0].cast_signed())),
    row("      p99", |totals| Cell::Duration(totals.pdv_ns[1].cast_signed())),
    row("interarrival jitter", |totals| Cell::FineDuration(totals.interarrival_jitter_ns)),
];

/// Two of them on one line, where lines are few: those at 2 and 3.
const TOGETHER: Row = row("dup., reordered", |totals| {
    format!("{}, {}", Cell::Count(totals.duplicate), Cell::Count(totals.reordered)).into()
});

fn not_arrived(totals: &Totals) -> Cell {
    match totals.not_arrived {
        0 => Cell::Count(0),
        packets => format!("{} {}", Cell::Count(packets), Cell::Share(totals.not_arrived_share())).into(),
    }
}

fn table(ways: &[&Way], shown: Direction, look: Look, area: Rect, buffer: &mut Buffer) {
    let roomy = usize::from(area.height) > ROWS.len();
    let mut places = area.rows();
    let Some(heading) = places.next() else { return };
    for (at, way) in ways.iter().enumerate() {
        let style = if way.direction == shown { look.strong() } else { look.faint() };
        right(buffer, column(heading, at), way.direction.name(), style);
    }
    let counts = if roomy { &ROWS[..4] } else { &ROWS[..2] };
    let together = if roomy { None } else { Some(&TOGETHER) };
    let rows = counts.iter().chain(together).chain(&ROWS[4..]);
    for (line, (row, place)) in rows.zip(places).enumerate() {
        text(buffer, Rect { width: NAMES.min(place.width), ..place }, row.name, look.faint());
        for (at, way) in ways.iter().enumerate() {
            let cell = column(place, at);
            match &way.totals {
                Some(totals) => {
                    let style = if (row.bad)(totals) { look.alarm() } else { Style::new() };
                    right(buffer, cell, &(row.value)(totals).to_string(), style);
                }
                None if line == 0 => right(buffer, cell, nothing_yet(way), look.faint()),
                None => right(buffer, cell, "-", look.faint()),
            }
        }
    }
}

/// Why there are no figures.
fn nothing_yet(way: &Way) -> &'static str {
    match (way.phase, way.live) {
        (_, false) => "at the end",
        (Phase::Running(_), true) => "nothing yet",
        _ => "not yet",
    }
}

fn column(row: Rect, at: usize) -> Rect {
    let begin = (NAMES + FIGURES * at as u16).min(row.width);
    Rect { x: row.x + begin, width: FIGURES.min(row.width - begin), ..row }
}

#[cfg(test)]
mod tests;
