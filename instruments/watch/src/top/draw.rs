//! How it looks: receivers and tables of threads, the times of the chosen one, their causes, and incidents.

use super::history::{History, LATELY_S, bound, incident_lines, incidents, path_line, time_of_day};
use crate::board::{Figures, Outcomes};
use quaver_exposition::histogram::BOUNDS_US;
use quaver_screen::parts::{beside, columns, headed, in_ascii, lines, right, split, text};
use quaver_screen::{Buffer, Color, Key, Look, Moment, Picture, Rect, Style};
use quaver_view::{Cell, bar};

/// Columns of figures beside a name, which has the rest.
const WIDTHS: [u16; 7] = [10, 8, 8, 10, 10, 10, 10];
/// Their names, for a receiver and for a table of threads.
const OF_RECEIVERS: [&str; 7] =
    ["packets/s", "missing", "dropped", "late p50", "p99", "largest", "incidents"];
const OF_THREADS: [&str; 7] = ["waits/s", "", "", "wait p50", "p99", "largest", "incidents"];
/// Fewest columns of a name.
const NAME: u16 = 14;
/// Columns of a cause, and of its time with its share.
const CAUSE: u16 = 24;
const TIME: u16 = 18;

const HELP: [&str; 14] = [
    "q, Ctrl-C    end; the watch goes on",
    "p            hold the picture",
    "Tab, up/down another receiver or table of threads",
    "left/right   another time: up to 15 minutes back",
    "?            back",
    "",
    "Rates, losses and quantiles are of the last 10 s.",
    "Late is a packet by the learned pace of its stream.",
    "A wait is a thread's for a CPU.",
    "Quantiles are bounds of the watch's buckets.",
    "Missing: by number. Dropped: by this host.",
    "Incidents count those alike that were counted in one.",
    "`quaver report RUN` opens an incident.",
    "`quaver watch trigger` keeps the last seconds now.",
];

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Place among receivers and tables of threads; the first that is watched unless the user chose.
    row: Option<usize>,
    /// Answers before the newest.
    back: usize,
}

impl Choice {
    fn chosen(self, rows: &[Row<'_>]) -> usize {
        let watched = || rows.iter().position(|row| row.watched).unwrap_or(0);
        self.row.unwrap_or_else(watched).min(rows.len().saturating_sub(1))
    }
}

/// A receiver, or a table of threads.
struct Row<'a> {
    name: &'a str,
    watched: bool,
    words: &'a str,
    outcomes: &'a Outcomes,
    of_threads: bool,
}

/// All of an answer: receivers come first.
fn rows(now: &Figures) -> Vec<Row<'_>> {
    let receivers = now.receivers.iter().map(|(name, state)| Row {
        name,
        watched: state.watched,
        words: &state.words,
        outcomes: &state.outcomes,
        of_threads: false,
    });
    let threads = now.threads.iter().map(|(name, state)| Row {
        name,
        watched: state.watched,
        words: &state.words,
        outcomes: &state.outcomes,
        of_threads: true,
    });
    receivers.chain(threads).collect()
}

impl Picture for History {
    type Choice = Choice;

    fn draw(&self, choice: &Choice, moment: Moment, look: Look, area: Rect, buffer: &mut Buffer) {
        let Some(now) = self.at(choice.back) else { return };
        let (head, rest) = split(area, 1);
        heading(self, now, look, head, buffer);
        let (body, foot) = split(rest, rest.height.saturating_sub(1));
        footer(self, *choice, moment, look, foot, buffer);
        if moment.help {
            lines(buffer, body, &HELP, Style::new());
        } else {
            self.body(now, *choice, look, body, buffer);
        }
        if look.ascii {
            in_ascii(buffer);
        }
    }

    fn press(&self, key: Key, choice: &mut Choice) {
        let Some(now) = self.newest() else { return };
        let rows = rows(now);
        let (chosen, count) = (choice.chosen(&rows), rows.len().max(1));
        match key {
            Key::Tab | Key::Down => choice.row = Some((chosen + 1) % count),
            Key::BackTab | Key::Up => choice.row = Some((chosen + count - 1) % count),
            Key::Left => choice.back = (choice.back + 1).min(self.most_back()),
            Key::Right => choice.back = choice.back.saturating_sub(1),
            _ => {}
        }
    }
}

fn heading(history: &History, now: &Figures, look: Look, row: Rect, buffer: &mut Buffer) {
    text(buffer, row, &format!("quaver top, watch at {}", history.place), look.strong());
    let cost = &now.cost;
    let words = format!(" own cost {:.1} % of a CPU, {}", cost.cpu_percent, Cell::Bytes(cost.resident_bytes));
    if row.width >= 72 {
        right(buffer, row, &words, look.faint());
    }
}

fn footer(history: &History, choice: Choice, moment: Moment, look: Look, row: Rect, buffer: &mut Buffer) {
    if let Some(trouble) = &history.trouble {
        return text(buffer, row, trouble, look.alarm());
    }
    let words = if moment.ending {
        "ending; the watch goes on"
    } else if moment.paused {
        "the picture stands still; p goes on"
    } else {
        "q end  p hold  Tab another  left/right time  ? help"
    };
    text(buffer, row, words, look.faint());
    let at = history.at(choice.back).map_or(0, |figures| figures.realtime_ns);
    let time = match choice.back {
        0 => format!(" {} UTC", time_of_day(at)),
        back => format!(" {} UTC, {back} back", time_of_day(at)),
    };
    right(buffer, row, &time, if choice.back > 0 { look.strong() } else { look.faint() });
}

impl History {
    fn body(&self, now: &Figures, choice: Choice, look: Look, area: Rect, buffer: &mut Buffer) {
        let all = rows(now);
        let chosen = choice.chosen(&all);
        let (receivers, threads) = all.split_at(now.receivers.len());
        // All of them, unless that left no room for the chosen one.
        let most = usize::from(area.height.saturating_sub(13).max(3));
        let for_threads = threads.len().min((most / 3).max(most.saturating_sub(receivers.len() + 1)));
        let for_receivers = receivers.len().min(most.saturating_sub(for_threads).max(1));
        let mut rest = area;
        let kinds = [
            (receivers, for_receivers, Some(chosen)),
            (threads, for_threads, chosen.checked_sub(receivers.len())),
        ];
        for (rows, height, chosen) in kinds {
            if rows.is_empty() {
                continue;
            }
            let (table, below) = split(rest, height.max(1) as u16 + 1);
            self.table(rows, chosen.filter(|chosen| *chosen < rows.len()), choice.back, look, table, buffer);
            rest = below;
        }
        if !now.paths.is_empty() {
            let most = if all.is_empty() { rest.height } else { rest.height / 4 };
            let (paths, below) = split(rest, (now.paths.len() as u16 + 1).min(most));
            of_paths(now, look, paths, buffer);
            rest = below;
        }
        let Some(row) = all.get(chosen) else {
            if !now.paths.is_empty() {
                return;
            }
            return text(
                buffer,
                rest,
                "only times of CPUs are counted: `quaver watch metrics`",
                look.faint(),
            );
        };
        let (_, rest) = split(rest, u16::from(rest.height > 10));
        let (strips, rest) = split(rest, if rest.height > 12 { 6 } else { 4 });
        self.strips(row, choice.back, look, strips, buffer);
        let (_, rest) = split(rest, u16::from(rest.height > 8));
        let (causes, kept) =
            split(rest, rest.height.div_ceil(2).min(2 + row.outcomes.explained_ns.len() as u16));
        by_cause(row, look, causes, buffer);
        self.kept(now, look, kept, buffer);
    }

    /// Rows of one kind.
    fn table(
        &self,
        rows: &[Row<'_>],
        chosen: Option<usize>,
        back: usize,
        look: Look,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let (head, below) = split(area, 1);
        let of_threads = rows.first().is_some_and(|row| row.of_threads);
        let (kind, names) = if of_threads { ("threads", OF_THREADS) } else { ("receiver", OF_RECEIVERS) };
        let name_columns = area.width.saturating_sub(WIDTHS.iter().sum()).max(NAME);
        let (_, mut rest) = beside(head, name_columns);
        for (name, width) in names.into_iter().zip(WIDTHS) {
            let (place, after) = beside(rest, width);
            right(buffer, place, name, look.faint());
            rest = after;
        }
        text(buffer, head, kind, look.faint());
        // The chosen one is always among those that are shown.
        let first = (chosen.unwrap_or(0) + 1).saturating_sub(usize::from(below.height));
        for (line, (at, row)) in below.rows().zip(rows.iter().enumerate().skip(first)) {
            let is_chosen = chosen == Some(at);
            let style = if is_chosen { look.strong() } else { Style::new() };
            let (place, mut rest) = beside(line, name_columns);
            text(buffer, place, &format!("{} {}", if is_chosen { ">" } else { " " }, row.name), style);
            if !row.watched {
                text(buffer, rest, &format!(" not watched: {}", row.words), look.alarm());
                continue;
            }
            for ((words, bad), width) in self.figures(row, back).into_iter().zip(WIDTHS) {
                let (place, after) = beside(rest, width);
                right(buffer, place, &words, if bad { look.alarm() } else { style });
                rest = after;
            }
        }
    }

    /// In the order of the names, and whether each is bad news.
    fn figures(&self, row: &Row<'_>, back: usize) -> [(String, bool); 7] {
        let lately = self.lately(row.name, back);
        let rate = lately.rate();
        let count = |count: u64| match rate {
            _ if row.of_threads => (String::new(), false),
            Some(_) => (Cell::Count(count).to_string(), count > 0),
            None => ("-".to_owned(), count > 0),
        };
        let time = |quantile| (bound(&lately.times, quantile), false);
        [
            (rate.map_or("-".to_owned(), |rate| Cell::Rate(rate, "").to_string()), false),
            count(lately.missing),
            count(lately.dropped),
            time(0.5),
            time(0.99),
            time(1.0),
            (Cell::Count(incidents(row.outcomes)).to_string(), lately.incidents > 0),
        ]
    }

    /// Largest lateness (of threads: wait) and p99 of each second, by the buckets' numbers, and where packets were lost.
    fn strips(&self, row: &Row<'_>, back: usize, look: Look, area: Rect, buffer: &mut Buffer) {
        let (name, what) = (row.name, if row.of_threads { "waits" } else { "lateness" });
        let seconds = self.each(name, back, usize::from(area.width));
        let height = |stretch: &super::history::Stretch, quantile: f64| {
            let bucket = stretch.times.bucket(quantile);
            bucket.map_or(0.0, |bucket| (bucket + 1) as f64 / (BOUNDS_US.len() + 1) as f64)
        };
        let forms = [
            format!("{name}: {what} of each second, largest above and p99 below, 10 µs to 1 s by 1, 2, 5"),
            format!("{what} of each second, largest and p99, 10 µs to 1 s by 1, 2, 5"),
            format!("largest and p99 {what} of each second"),
        ];
        let below = headed(&forms, look, area, buffer);
        let (losses, below) = if seconds.iter().any(|second| second.missing + second.dropped > 0) {
            let (strips, losses) = split(below, below.height.saturating_sub(1));
            (Some(losses), strips)
        } else {
            (None, below)
        };
        let (largest, p99) = split(below, below.height.div_ceil(2));
        for (quantile, colour, place) in [(1.0, Color::Cyan, largest), (0.99, Color::Green, p99)] {
            let heights: Vec<f64> = seconds.iter().map(|second| height(second, quantile)).collect();
            columns(&heights, look, look.coloured(colour), newest_right(place, seconds.len()), buffer);
        }
        let losses = losses.map(|place| newest_right(place, seconds.len()));
        for (place, second) in losses.into_iter().flat_map(Rect::columns).zip(&seconds) {
            match second.missing + second.dropped {
                0 => {}
                few @ 1..=9 => text(buffer, place, &few.to_string(), look.alarm()),
                _ => text(buffer, place, "+", look.alarm()),
            }
        }
    }

    fn kept(&self, now: &Figures, look: Look, area: Rect, buffer: &mut Buffer) {
        let heading =
            if now.incidents.is_empty() { "incidents: none yet" } else { "incidents, the newest first" };
        let below = headed(&[heading.to_owned()], look, area, buffer);
        let mut rows = below.rows();
        for incident in now.incidents.iter().rev() {
            let age_ns = now.realtime_ns.saturating_sub(incident.realtime_ns);
            let fresh = age_ns <= LATELY_S * 1_000_000_000;
            let style = if fresh { look.alarm() } else { Style::new() };
            for (line, style) in incident_lines(incident).iter().zip([style, Style::new(), look.faint()]) {
                let Some(row) = rows.next() else { return };
                text(buffer, row, line, style);
            }
        }
    }
}

fn of_paths(now: &Figures, look: Look, area: Rect, buffer: &mut Buffer) {
    let below = headed(&["paths".to_owned()], look, area, buffer);
    for (place, (name, state)) in below.rows().zip(&now.paths) {
        let is_well = state.watched && !state.silent;
        text(buffer, place, &path_line((name, state)), if is_well { Style::new() } else { look.alarm() });
    }
}

/// The last columns of a place, for so many seconds.
fn newest_right(place: Rect, seconds: usize) -> Rect {
    let (_, rest) = beside(place, place.width.saturating_sub(seconds as u16));
    rest
}

/// Late time within incidents (of threads: their longest waits), by cause, the largest first.
fn by_cause(row: &Row<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    let Row { name, outcomes, .. } = row;
    let what = if row.of_threads { "time of the longest waits" } else { "late time" };
    let total_ns: u64 = outcomes.explained_ns.values().sum();
    if total_ns == 0 {
        headed(&[format!("{name}: no {what} in incidents yet")], look, area, buffer);
        return;
    }
    let below = headed(&[format!("{name}: {what} in its incidents, by cause")], look, area, buffer);
    let mut causes: Vec<(&String, u64)> =
        outcomes.explained_ns.iter().map(|(cause, ns)| (cause, *ns)).collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    for (row, (cause, ns)) in below.rows().zip(causes.into_iter().filter(|(_, ns)| *ns > 0)) {
        let share = ns as f64 / total_ns as f64;
        let (place, rest) = beside(row, CAUSE.min(row.width / 2));
        text(buffer, place, cause, Style::new());
        let (place, rest) = beside(rest, TIME);
        right(
            buffer,
            place,
            &format!("{} {:>7} ", Cell::Duration(ns.cast_signed()), Cell::Share(share).to_string()),
            Style::new(),
        );
        text(buffer, rest, &bar(share, usize::from(rest.width), look.ascii), look.coloured(Color::Cyan));
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::history;
    use super::*;
    use crate::board::PathState;
    use quaver_exposition::histogram::Histogram;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    const PLAIN: Look = Look { colour: false, ascii: false };

    fn picture(
        history: &History,
        choice: Choice,
        moment: Moment,
        look: Look,
        columns: u16,
        rows: u16,
    ) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| history.draw(&choice, moment, look, frame.area(), frame.buffer_mut())).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn pictures() {
        let studio = Choice { row: Some(1), back: 0 };
        insta::assert_snapshot!("80x24", picture(&history(40), studio, Moment::default(), PLAIN, 80, 24));
        insta::assert_snapshot!("120x30", picture(&history(100), studio, Moment::default(), PLAIN, 120, 30));
        insta::assert_snapshot!(
            "first_80x24",
            picture(&history(1), studio, Moment::default(), PLAIN, 80, 24)
        );
        // Three seconds in: before the first incident, and before anything was lost.
        insta::assert_snapshot!(
            "back_80x24",
            picture(&history(40), Choice { row: Some(1), back: 37 }, Moment::default(), PLAIN, 80, 24)
        );
    }

    #[test]
    fn every_size_is_drawn_and_ascii_is_ascii_but_for_bounds() {
        for columns in [1, 5, 17, 19, 40, 60, 79, 80, 200] {
            for rows in [1, 2, 3, 5, 9, 14, 18, 24, 60] {
                for help in [false, true] {
                    let moment = Moment { help, ..Moment::default() };
                    let look = Look { colour: true, ascii: true };
                    let text = picture(&history(30), Choice::default(), moment, look, columns, rows);
                    assert!(text.is_ascii(), "{text}");
                }
            }
        }
    }

    #[test]
    fn keys_go_round_the_receivers_and_back_in_time() {
        let (history, mut choice) = (history(3), Choice::default());
        assert_eq!(choice.chosen(&rows(history.newest().unwrap())), 1, "the one that is watched");
        let mut after = |key| {
            history.press(key, &mut choice);
            (choice.row.unwrap_or(9), choice.back)
        };
        assert_eq!([after(Key::Tab), after(Key::Down), after(Key::Up)], [(0, 0), (1, 0), (0, 0)]);
        assert_eq!([after(Key::Left), after(Key::Left), after(Key::Left)], [(0, 1), (0, 2), (0, 2)]);
        assert_eq!(after(Key::Right), (0, 1));
    }

    #[test]
    fn paths_stand_alone_or_between_the_tables_and_the_times() {
        let mut round_trip = Histogram::default();
        round_trip.add(15_000);
        let words = "44 bytes every 100 ms from 192.0.2.1:40000 to 192.0.2.7:862".to_owned();
        let state = PathState {
            watched: true,
            silent: true,
            sent: 40,
            lost: 3,
            round_trip,
            words,
            ..PathState::default()
        };
        let with_path = |before: &Figures| Figures {
            paths: [("studio-b".to_owned(), state.clone())].into(),
            ..before.clone()
        };
        let line = "studio-b: no reply comes; 3 lost of 40 packets; round trip p50 ≤ 20.0 µs, p99 ≤ 20.0 µs";
        let mut alone = History::new(String::new());
        alone.push(with_path(&Figures::default()));
        let mut beside = History::new(String::new());
        beside.push(with_path(history(3).newest().unwrap()));
        for (history, others) in [(alone, false), (beside, true)] {
            let text = picture(&history, Choice::default(), Moment::default(), PLAIN, 100, 24);
            assert!(text.contains(line) && text.contains("studio  ") == others, "{text}");
        }
    }

    #[test]
    fn a_watch_that_does_not_answer_is_told_and_its_last_figures_stay() {
        let mut history = history(20);
        history.miss(&anyhow::anyhow!("ask the watch at /run/quaver/watch.sock: Connection refused"));
        let text = picture(&history, Choice::default(), Moment::default(), PLAIN, 100, 24);
        assert!(text.contains("Connection refused") && text.contains("studio"), "{text}");
    }
}
