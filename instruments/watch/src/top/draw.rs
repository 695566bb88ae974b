//! How it looks: receivers, the lateness of the chosen one over time, causes of late time, and incidents.

use super::history::{History, LATELY_S, bound, incident_lines, incidents, time_of_day};
use crate::board::{Figures, ReceiverState};
use crate::judge::BOUNDS_US;
use quaver_screen::parts::{beside, columns, headed, in_ascii, lines, right, split, text};
use quaver_screen::{Buffer, Color, Key, Look, Moment, Picture, Rect, Style};
use quaver_view::{Cell, bar};

/// Columns of figures beside a receiver's name, which has the rest.
const FIGURES: [(&str, u16); 7] = [
    ("packets/s", 10),
    ("missing", 8),
    ("dropped", 8),
    ("late p50", 10),
    ("p99", 10),
    ("largest", 10),
    ("incidents", 10),
];
/// Fewest columns of a name.
const NAME: u16 = 14;
/// Columns of a cause, and of its time with its share.
const CAUSE: u16 = 24;
const TIME: u16 = 18;

const HELP: [&str; 13] = [
    "q, Ctrl-C    end; the watch goes on",
    "p            hold the picture",
    "Tab, up/down another receiver",
    "left/right   another time: up to 15 minutes back",
    "?            back",
    "",
    "Rates, losses and quantiles are of the last 10 s.",
    "Late is a packet by the learned pace of its stream.",
    "Quantiles are bounds of the watch's buckets.",
    "Missing: by number. Dropped: by this host.",
    "Incidents count those alike that were counted in one.",
    "`quaver report RUN` opens an incident.",
    "`quaver watch trigger` keeps the last seconds now.",
];

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Place of the receiver; the first that is watched unless the user chose.
    receiver: Option<usize>,
    /// Answers before the newest.
    back: usize,
}

impl Choice {
    fn chosen(self, now: &Figures) -> usize {
        let watched = || now.receivers.values().position(|state| state.watched).unwrap_or(0);
        self.receiver.unwrap_or_else(watched).min(now.receivers.len().saturating_sub(1))
    }
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
        let (chosen, receivers) = (choice.chosen(now), now.receivers.len().max(1));
        match key {
            Key::Tab | Key::Down => choice.receiver = Some((chosen + 1) % receivers),
            Key::BackTab | Key::Up => choice.receiver = Some((chosen + receivers - 1) % receivers),
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
        "q end  p hold  Tab receiver  left/right time  ? help"
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
        let count = now.receivers.len() as u16;
        let chosen = choice.chosen(now);
        // All receivers, unless that left no room for the chosen one.
        let rows = count.min(area.height.saturating_sub(13).max(3));
        let (table, rest) = split(area, rows + 1);
        self.table(now, choice, chosen, look, table, buffer);
        let Some((name, state)) = now.receivers.iter().nth(chosen) else { return };
        let (_, rest) = split(rest, u16::from(rest.height > 10));
        let (strips, rest) = split(rest, if rest.height > 12 { 6 } else { 4 });
        self.strips(name, choice.back, look, strips, buffer);
        let (_, rest) = split(rest, u16::from(rest.height > 8));
        let (causes, kept) =
            split(rest, rest.height.div_ceil(2).min(2 + state.outcomes.explained_ns.len() as u16));
        late_time(name, state, look, causes, buffer);
        self.kept(now, look, kept, buffer);
    }

    fn table(
        &self,
        now: &Figures,
        choice: Choice,
        chosen: usize,
        look: Look,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let (head, rows) = split(area, 1);
        let name_columns = area.width.saturating_sub(FIGURES.iter().map(|(_, width)| width).sum()).max(NAME);
        let (_, mut rest) = beside(head, name_columns);
        for (name, width) in FIGURES {
            let (place, after) = beside(rest, width);
            right(buffer, place, name, look.faint());
            rest = after;
        }
        text(buffer, head, "receiver", look.faint());
        // The chosen one is always among those that are shown.
        let first = (chosen + 1).saturating_sub(usize::from(rows.height));
        let shown = now.receivers.iter().enumerate().skip(first);
        for (row, (at, (name, state))) in rows.rows().zip(shown) {
            let style = if at == chosen { look.strong() } else { Style::new() };
            let (place, mut rest) = beside(row, name_columns);
            text(buffer, place, &format!("{} {name}", if at == chosen { ">" } else { " " }), style);
            if !state.watched {
                text(buffer, rest, &format!(" not watched: {}", state.words), look.alarm());
                continue;
            }
            for ((words, bad), (_, width)) in self.figures(name, state, choice.back).into_iter().zip(FIGURES)
            {
                let (place, after) = beside(rest, width);
                right(buffer, place, &words, if bad { look.alarm() } else { style });
                rest = after;
            }
        }
    }

    /// In the order of `FIGURES`, and whether each is bad news.
    fn figures(&self, name: &str, state: &ReceiverState, back: usize) -> [(String, bool); 7] {
        let lately = self.lately(name, back);
        let rate = lately.packets_per_second();
        let count = |count: u64| {
            (if rate.is_some() { Cell::Count(count).to_string() } else { "-".to_owned() }, count > 0)
        };
        let late = |quantile| (bound(&lately.lateness, quantile), false);
        [
            (rate.map_or("-".to_owned(), |rate| Cell::Rate(rate, "").to_string()), false),
            count(lately.missing),
            count(lately.dropped),
            late(0.5),
            late(0.99),
            late(1.0),
            (Cell::Count(incidents(state)).to_string(), lately.incidents > 0),
        ]
    }

    /// Largest lateness and p99 of each second, by the buckets' numbers, and where packets were lost.
    fn strips(&self, name: &str, back: usize, look: Look, area: Rect, buffer: &mut Buffer) {
        let seconds = self.each(name, back, usize::from(area.width));
        let height = |stretch: &super::history::Stretch, quantile: f64| {
            let bucket = stretch.lateness.bucket(quantile);
            bucket.map_or(0.0, |bucket| (bucket + 1) as f64 / (BOUNDS_US.len() + 1) as f64)
        };
        let forms = [
            format!("{name}: lateness of each second, largest above and p99 below, 10 µs to 1 s by 1, 2, 5"),
            "lateness of each second, largest and p99, 10 µs to 1 s by 1, 2, 5".to_owned(),
            "largest and p99 lateness of each second".to_owned(),
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

/// The last columns of a place, for so many seconds.
fn newest_right(place: Rect, seconds: usize) -> Rect {
    let (_, rest) = beside(place, place.width.saturating_sub(seconds as u16));
    rest
}

/// Late time within incidents, by cause, the largest first.
fn late_time(name: &str, state: &ReceiverState, look: Look, area: Rect, buffer: &mut Buffer) {
    let total_ns: u64 = state.outcomes.explained_ns.values().sum();
    if total_ns == 0 {
        headed(&[format!("{name}: no late time in incidents yet")], look, area, buffer);
        return;
    }
    let below = headed(&[format!("{name}: late time in its incidents, by cause")], look, area, buffer);
    let mut causes: Vec<(&String, u64)> =
        state.outcomes.explained_ns.iter().map(|(cause, ns)| (cause, *ns)).collect();
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
        let studio = Choice { receiver: Some(1), back: 0 };
        insta::assert_snapshot!("80x24", picture(&history(40), studio, Moment::default(), PLAIN, 80, 24));
        insta::assert_snapshot!("120x30", picture(&history(100), studio, Moment::default(), PLAIN, 120, 30));
        insta::assert_snapshot!(
            "first_80x24",
            picture(&history(1), studio, Moment::default(), PLAIN, 80, 24)
        );
        // Three seconds in: before the first incident, and before anything was lost.
        insta::assert_snapshot!(
            "back_80x24",
            picture(&history(40), Choice { receiver: Some(1), back: 37 }, Moment::default(), PLAIN, 80, 24)
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
        assert_eq!(choice.chosen(history.newest().unwrap()), 1, "the one that is watched");
        let mut after = |key| {
            history.press(key, &mut choice);
            (choice.receiver.unwrap_or(9), choice.back)
        };
        assert_eq!([after(Key::Tab), after(Key::Down), after(Key::Up)], [(0, 0), (1, 0), (0, 0)]);
        assert_eq!([after(Key::Left), after(Key::Left), after(Key::Left)], [(0, 1), (0, 2), (0, 2)]);
        assert_eq!(after(Key::Right), (0, 1));
    }

    #[test]
    fn a_watch_that_does_not_answer_is_told_and_its_last_figures_stay() {
        let mut history = history(20);
        history.miss(&anyhow::anyhow!("ask the watch at /run/quaver/watch.sock: Connection refused"));
        let text = picture(&history, Choice::default(), Moment::default(), PLAIN, 100, 24);
        assert!(text.contains("Connection refused") && text.contains("studio"), "{text}");
    }
}
