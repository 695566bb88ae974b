use super::super::fixture;
use super::*;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{LatePacket, Part, Piece, Place};
use quaver_analysis::model::{LayerColumn, Names, PacketTable};
use quaver_analysis::summary::ChaseSummary;
use sha2::{Digest, Sha256};

const HOSTILE: &str = "</script><script>alert(1)</script>";

fn stream(count: usize) -> PacketTable {
    PacketTable {
        seq: (0..count as u64).collect(),
        app_ns: (0..count).map(|n| 1_000_000 + 7_410 * n as i64).collect(),
        app_cpu: vec![1; count],
        stack_cpu: vec![0; count],
        layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns: vec![900; count] }],
    }
}

fn render(summary: &ChaseSummary, packets: &PacketTable, late: &[LatePacket]) -> String {
    let mut run = fixture::facts();
    run.host = HOSTILE.into();
    let names = Names { task: [(7, HOSTILE.to_owned())].into(), ..Names::default() };
    let piece = Piece {
        start_ns: 1_060_000,
        end_ns: 1_090_000,
        cause: Some(0),
        part: Part::CatchUp,
        place: Place::Receiver,
        cpu: 1,
    };
    let event = EventRecord {
        start_ns: 1_050_000,
        end_ns: 1_095_000,
        id: 7,
        cpu: 1,
        kind: EventKind::Thread as u8,
        ..EventRecord::default()
    };
    let mut out = Vec::new();
    let (pieces, events) = ([piece], [event]);
    let input =
        ReportInput { summary, run: &run, packets, late, pieces: &pieces, events: &events, names: &names };
    write_html(&mut out, &input).unwrap();
    String::from_utf8(out).unwrap()
}

fn data_of(page: &str) -> serde_json::Value {
    let from = page.find("id=\"data\">").expect("the page has data") + 10;
    let to = from + page[from..].find("</script>").expect("the data ends");
    serde_json::from_str(&page[from..to]).unwrap()
}

#[test]
fn hostile_names_never_become_markup() {
    let mut summary = fixture::summary();
    summary.causes[0].name = format!("thread {HOSTILE}");
    summary.warnings.push(HOSTILE.into());
    summary.unexplained.note = HOSTILE.into();
    let late = [fixture::late(12, 40_000, Some(0))];
    let page = render(&summary, &stream(100), &late);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(
        data_of(&page)["causes"][0].as_str().unwrap().ends_with(HOSTILE),
        "the data keeps the name whole"
    );
}

#[test]
fn the_page_asks_for_nothing() {
    let page = render(&fixture::summary(), &stream(100), &[]);
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=\"http", "href=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn every_script_element_ends_where_it_should() {
    let page = render(&fixture::summary(), &stream(100), &[]);
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    for script in SCRIPTS {
        assert!(!script.contains("</script") && !script.contains("<!--"));
    }
}

#[test]
fn data_and_timeline_match_the_run() {
    let late = [fixture::late(12, 40_000, Some(0))];
    let data = data_of(&render(&fixture::summary(), &stream(100), &late));
    assert_eq!((data["late"].as_u64(), data["late_drawn"].as_u64()), (Some(1), Some(1)));
    assert_eq!(data["layers"][0]["name"], "receive");
    assert_eq!(data["layers"][1]["name"], "application");
    let timeline = &data["timelines"][0];
    assert_eq!(timeline["came_ns"].as_i64().unwrap() - timeline["due_ns"].as_i64().unwrap(), 40_000);
    let lanes: Vec<_> =
        timeline["lanes"].as_array().unwrap().iter().map(|lane| lane["name"].as_str().unwrap()).collect();
    assert_eq!(lanes, ["this packet", "arrivals", "late time", "CPU 1 (receiver)"]);
    let piece = &timeline["lanes"][2]["boxes"][0];
    assert_eq!(piece["end_ns"].as_i64().unwrap() - piece["start_ns"].as_i64().unwrap(), 30_000);
}

#[test]
fn an_empty_run_has_a_page() {
    let mut summary = fixture::summary();
    summary.layers.clear();
    summary.stages.clear();
    summary.causes.clear();
    summary.lateness.packets = 0;
    let page = render(&summary, &PacketTable::default(), &[]);
    assert!(page.contains("nothing to rank"));
    assert!(!page.contains("id=\"time-plot\""));
}

#[test]
fn late_rows_and_causes_that_do_not_exist_do_no_harm() {
    let late = [fixture::late(5, i64::MAX / 4, Some(99)), fixture::late(5_000, -3, None)];
    let data = data_of(&render(&fixture::summary(), &stream(100), &late));
    assert_eq!(data["late_drawn"].as_u64(), Some(1));
}

#[test]
fn committed_plot_library_has_the_recorded_digests() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../view/assets/uplot/");
    let sums = std::fs::read_to_string(format!("{folder}SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 3);
    for line in sums.lines() {
        let (digest, name) = line.split_once("  ").expect("digest, two spaces, name");
        let found: String = Sha256::digest(std::fs::read(format!("{folder}{name}")).unwrap())
            .iter()
            .map(|o| format!("{o:02x}"))
            .collect();
        assert_eq!(found, digest, "{name}");
    }
}
