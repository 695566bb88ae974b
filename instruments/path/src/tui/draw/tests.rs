//! Whole pictures, on a terminal made of memory.

use super::*;
use crate::tui::state::{BARS, PdvHistogram};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const MS: u64 = 1_000_000;
const PLAIN: Look = Look { colour: false, ascii: false };
const ASCII: Look = Look { colour: false, ascii: true };

/// 20 s up, told at the end, then 12 s of 20 s down, with 2 % lost in one stretch and a slow one.
fn view() -> View {
    let length = Some(Duration::from_secs(20));
    let mut up = Way::new(Direction::Up, false, 20 * MS, length);
    up.phase = Phase::Done;
    up.totals = Some(totals(1_000, 0));
    let mut down = Way::new(Direction::Down, true, 20 * MS, length);
    down.phase = Phase::Running(Duration::from_secs(22));
    down.totals = Some(totals(589, 11));
    for number in (0..600).filter(|number| !(170..181).contains(number)) {
        let slow_ns = if (300..330).contains(&number) { 1_500_000 } else { 0 };
        down.series.take(number, 200_000 + (number as i64 * 37 % 100) * 4_000 + slow_ns);
    }
    let what = "Quaver's protocol, UDP, 80 bytes every 20.0 ms".to_owned();
    let mut view = View::new("192.0.2.7:2666".to_owned(), what, vec![up, down]);
    view.stage = Stage::Testing;
    view
}

fn totals(received: u64, not_arrived: u64) -> Totals {
    let mut bars = [0; BARS];
    bars.iter_mut().enumerate().for_each(|(at, bar)| *bar = 400 / (at as u64 * at as u64 + 1));
    Totals {
        received,
        not_arrived,
        duplicate: 2,
        reordered: 1,
        delay_ns: [-200_000, 398_000, 1_590_000, 2_096_000],
        pdv_ns: [198_000, 1_390_000],
        interarrival_jitter_ns: 61_234.5,
        histogram: PdvHistogram { limit_ns: 1_400_000, bars, above: 6 },
    }
}

const AT: Moment = Moment { now: Duration::from_secs(34), paused: false, help: false, ending: false };

fn picture(view: &View, choice: Choice, look: Look, columns: u16, rows: u16) -> String {
    picture_at(view, choice, AT, look, columns, rows)
}

fn picture_at(view: &View, choice: Choice, moment: Moment, look: Look, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(view, choice, moment, look, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_picture_of_both_ways() {
    insta::assert_snapshot!("100x30", picture(&view(), None, PLAIN, 100, 30));
    insta::assert_snapshot!("80x24", picture(&view(), None, PLAIN, 80, 24));
    insta::assert_snapshot!("60x15_ascii", picture(&view(), None, ASCII, 60, 15));
}

#[test]
fn before_the_first_packet_nothing_looks_like_a_zero() {
    let mut view = view();
    for way in &mut view.ways {
        *way = Way::new(way.direction, way.live, 20 * MS, way.length);
    }
    view.stage = Stage::RoundTrips { count: 2, least_ns: Some(1_200_000) };
    let text = picture(&view, None, PLAIN, 100, 30);
    for words in
        ["round trips: 2, at least 1.20 ms", "its turn comes later", "at the end", "not yet", "Not begun."]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    view.begin(Direction::Up, Duration::from_secs(30));
    let text = picture(&view, None, PLAIN, 100, 30);
    for words in ["4 s of 20 s, 16 s left", "Received there, told", "at the end"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let figures = text.lines().filter(|line| line.contains("delay min") || line.contains("not arrived"));
    assert!(figures.clone().count() == 2 && figures.into_iter().all(|line| !line.contains('0')), "{text}");
    view.stage = Stage::Queued(3);
    view.ways[0].phase = Phase::Waiting;
    assert!(picture(&view, None, PLAIN, 80, 24).contains("queue position 3"));
}

#[test]
fn the_other_way_help_pause_and_the_end() {
    let shown = |choice| picture(&view(), choice, PLAIN, 60, 15);
    assert!(shown(Some(0)).contains("1,000"));
    assert!(!shown(None).contains("1,000"));
    // A place that there is not is the last one.
    assert_eq!(shown(Some(9)), shown(None));
    let mut choice = None;
    view().press(Key::Tab, &mut choice);
    assert_eq!(choice, Some(0));
    let at = |moment| picture_at(&view(), None, moment, PLAIN, 60, 15);
    assert!(at(Moment { help: true, ..AT }).contains("(RFC 5481)"));
    assert!(at(Moment { paused: true, ..AT }).contains("stands still"));
    assert!(at(Moment { ending: true, ..AT }).contains("results so far are kept"));
}

#[test]
fn every_size_is_drawn_and_ascii_is_ascii() {
    for columns in [1, 5, 19, 34, 37, 56, 60, 72, 80, 133, 250] {
        for rows in [1, 2, 3, 4, 6, 9, 12, 15, 18, 24, 60] {
            for help in [false, true] {
                let text = picture_at(&view(), None, Moment { help, ..AT }, ASCII, columns, rows);
                assert!(text.is_ascii(), "{text}");
            }
        }
    }
    let mut endless = view();
    endless.ways.iter_mut().for_each(|way| way.length = None);
    assert!(picture(&endless, None, ASCII, 80, 24).contains("for 12 s"));
}

#[test]
fn colour_only_where_it_is_wanted() {
    let mut colours = [0, 0];
    for (at, colour) in [false, true].into_iter().enumerate() {
        let area = Rect::new(0, 0, 100, 30);
        let mut buffer = Buffer::empty(area);
        let look = Look { colour, ascii: false };
        draw(&view(), None, AT, look, area, &mut buffer);
        colours[at] = buffer.content().iter().filter(|cell| cell.fg != Color::Reset).count();
    }
    assert_eq!(colours[0], 0);
    assert!(colours[1] > 50);
}

#[test]
fn times_as_people_say_them() {
    let said =
        [(0, "0 s"), (119, "119 s"), (125, "2 min 05 s"), (7_260, "2 h 01 min"), (90_000, "25 h 00 min")];
    for (length, words) in said {
        assert_eq!(seconds(Duration::from_secs(length)), words);
    }
}
