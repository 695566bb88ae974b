use super::*;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{Certainty, EdgeCap, LatePacket, PacketPosition, Part, Piece};
use quaver_analysis::model::{LayerColumn, Names, PacketTable, Unread};
use quaver_analysis::summary::{
    CHASE_SCHEMA, CauseSummary, Lateness, LayerSummary, Remedy, SourceClass, StageSummary, Unexplained,
};
use quaver_arrivals::distribution::Distribution;
use quaver_view::{Data, Plot, Style, plain, write_terminal};

mod verdict;

const HOSTILE: &str = "</script><script>alert(1)</script>";

/// A late packet of which only these are looked at.
pub(super) fn late(row: u32, lateness_ns: i64, cause: Option<u32>) -> LatePacket {
    let (seq, start_ns, end_ns) = (u64::from(row), 0, lateness_ns);
    LatePacket { row: Some(row), seq, start_ns, end_ns, lateness_ns, cause, first_piece: 0, end_piece: 0 }
}

fn distribution(count: u64, p50_ns: i64, max_ns: i64) -> Distribution {
    Distribution {
        count,
        min_ns: p50_ns / 20,
        mean_ns: p50_ns as f64 * 1.002,
        sd_ns: p50_ns as f64 * 0.31,
        p50_ns,
        p90_ns: p50_ns + p50_ns / 20,
        p99_ns: p50_ns + p50_ns / 4,
        p99_9_ns: p50_ns * 3,
        p99_99_ns: p50_ns * 10,
        p99_999_ns: max_ns - max_ns / 5,
        max_ns,
    }
}

fn facts() -> RunFacts {
    RunFacts {
        name: "chase-20261120T165800Z-7f3a".into(),
        verb: "chase".into(),
        directory: "runs/chase-20261120T165800Z-7f3a".into(),
        command: "quaver chase --for 10s --period 7.41us".into(),
        started: "2026-11-20T16:58:00Z".into(),
        version: "0.1.0".into(),
        host: "studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)".into(),
        trigger: String::new(),
        stream: "made here, two network namespaces".into(),
        facts: vec![
            ("clocksource".into(), "tsc".into()),
            ("RT throttling".into(), "950 ms of each 1 s".into()),
        ],
    }
}

fn stage(from: Layer, to: Layer, typical_ns: i64, late_ns: i64, excess_share: f64) -> StageSummary {
    StageSummary {
        from,
        to,
        on_time: distribution(1_349_527, typical_ns, late_ns * 2),
        late: distribution(2_311, late_ns, late_ns * 2),
        excess_ns: (excess_share * 61e6) as i64,
        excess_share,
    }
}

fn cause(source: &str, name: &str, share: f64, packets: u64, worst_ns: i64, remedy: Remedy) -> CauseSummary {
    let time_ns = (share * 61e6) as i64;
    CauseSummary {
        source: source.into(),
        name: name.into(),
        class: SourceClass::NetworkIndependent,
        time_ns,
        entry_exit_ns: time_ns / 40,
        catch_up_ns: time_ns / 12,
        share,
        packets,
        intervals: packets / 20,
        worst_ns,
        example_seq: 481_203,
        remedy,
        threads: Vec::new(),
        functions: Vec::new(),
        inferred_ns: 0,
        stable_name: None,
    }
}

fn causes() -> Vec<CauseSummary> {
    vec![
        cause(
            "rt-thread",
            "thread stress (fifo 50)",
            0.612,
            1_480,
            204_310,
            Remedy {
                setting: Some("quaver tune apply pin-threads  (moves it: taskset -pc 0 1234)".into()),
                boot: Some("isolcpus=managed_irq,domain,1".into()),
                known: None,
            },
        ),
        cause(
            "tick",
            "vector local timer",
            0.241,
            611,
            12_450,
            Remedy {
                setting: None,
                boot: Some("nohz_full=1".into()),
                known: Some("the run never saw more than one runnable thread on CPU 1".into()),
            },
        ),
        cause(
            "dev-irq",
            "irq 41 virtio3-<b>rx</b>\u{1b}[2J and a long device name",
            0.095,
            180,
            31_020,
            Remedy { setting: Some("quaver tune apply irq-affinity".into()), ..Remedy::default() },
        ),
    ]
}

fn summary() -> ChaseSummary {
    ChaseSummary {
        schema: CHASE_SCHEMA.into(),
        period_ns: 7_410.0,
        period_learned: false,
        pace: None,
        duration_ns: 10_000_000_000,
        losses: Losses {
            sent: Some(1_349_527),
            received: 1_349_500,
            duplicates: 0,
            reordered: 2,
            network: Some(0),
            nic_ring: None,
            stack: [("NO_SOCKET".to_owned(), 3)].into(),
            socket_buffer: Some(24),
            elsewhere: 0,
            ours: 0,
            unaccounted: 0,
        },
        layers: vec![
            LayerSummary { layer: Layer::Source, stamped: 1_349_500, delta_t: distribution(1_349_499, 7_410, 61_200) },
            LayerSummary { layer: Layer::Receive, stamped: 1_349_500, delta_t: distribution(99_999, 7_410, 240_000) },
            LayerSummary {
                layer: Layer::Application,
                stamped: 1_349_500,
                delta_t: distribution(1_349_499, 7_410, 412_000),
            },
        ],
        stages: vec![
            stage(Layer::Schedule, Layer::Source, 90, 210, 0.004),
            stage(Layer::Source, Layer::Receive, 1_800, 2_400, 0.05),
            stage(Layer::Receive, Layer::Application, 900, 48_000, 0.946),
        ],
        lateness: Lateness {
            threshold_ns: 14_820,
            typical_path_ns: 2_700,
            packets: 2_311,
            time_ns: 61_000_000,
            distribution: distribution(1_349_500, 110, 405_000),
        },
        limits: Vec::new(),
        causes: causes(),
        unexplained: Unexplained {
            time_ns: 3_172_000,
            share: 0.052,
            packets: 40,
            worst_ns: 9_800,
            example_seq: Some(99_120),
            note: "Hypervisor or hardware, or a class of event that was not recorded (see \"not observed\").".into(),
            ..Unexplained::default()
        },
        probe_cost: Some(ProbeCost { per_packet_ns: 412.0, interval_ns: (371.5, 455.2), blocks: 20 }),
        unread: None,
        backlog: None,
            far_source: None,
        tier: "tracefs".into(),
        tier_reason: Some("BPF needs CAP_BPF and CAP_PERFMON; run: sudo setcap cap_bpf,cap_perfmon+ep quaver".into()),
        blind: vec!["NMI (no hardware counters in this virtual machine)".into()],
        warnings: vec![
            "RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second. Turn it off with: \
             quaver tune apply rt-throttle"
                .into(),
        ],
        rtp: None,
        complete: true,
    }
}

fn stream(count: usize) -> PacketTable {
    PacketTable {
        seq: (0..count as u64).collect(),
        app_ns: (0..count).map(|n| 1_000_000 + 7_410 * n as i64).collect(),
        app_cpu: vec![1; count],
        stack_cpu: vec![0; count],
        layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns: vec![900; count] }],
    }
}

struct Case {
    analysis: PacketAnalysis,
    facts: RunFacts,
    measured: PacketRun,
}

impl Case {
    fn of(summary: ChaseSummary) -> Self {
        let piece = Piece {
            start_ns: 1_060_000,
            end_ns: 1_090_000,
            cause: Some(0),
            part: Part::CatchUp,
            place: PacketPosition::Receiver,
            cpu: 1,
            certainty: Certainty::Inferred,
        };
        let event = EventRecord {
            start_ns: 1_050_000,
            end_ns: 1_095_000,
            id: 7,
            cpu: 1,
            kind: EventKind::Thread as u8,
            ..EventRecord::default()
        };
        let measured = PacketRun {
            packets: stream(100),
            events: vec![event],
            names: Names { task: [(7, HOSTILE.to_owned())].into(), ..Names::default() },
            ..PacketRun::default()
        };
        let analysis = PacketAnalysis {
            summary,
            late: vec![],
            pieces: vec![piece],
            catch_up_cap_ns: 0,
            edge_cap: EdgeCap::default(),
        };
        Self { analysis, facts: facts(), measured }
    }

    fn late(mut self, late: impl IntoIterator<Item = LatePacket>) -> Self {
        self.analysis.late.extend(late);
        self
    }

    fn document(&self) -> Document {
        document(&ChaseInput { analysis: &self.analysis, run: &self.facts, measured: &self.measured })
    }

    fn page(&self) -> String {
        let mut document = self.document();
        document.report_path = Some("runs/chase-x/report.html".into());
        plain(&document)
    }

    fn html(&self) -> String {
        let mut out = Vec::new();
        quaver_view::write_html(&mut out, &self.document()).unwrap();
        String::from_utf8(out).unwrap()
    }
}

/// The drawings of a section by their identifiers.
fn plots(document: &Document, section: &str) -> Vec<(String, Plot)> {
    let section = document.sections.iter().find(|one| one.id == section);
    let blocks = section.into_iter().flat_map(|section| &section.blocks);
    blocks
        .flat_map(|block| match block {
            Block::Charts(group) => group.charts.clone(),
            block => panic!("{block:?}"),
        })
        .map(|chart| (chart.id, chart.plot))
        .collect()
}

#[test]
fn page_of_a_run_with_late_packets() {
    assert_eq!(Case::of(summary()).page(), GOLDEN);
}

#[test]
fn a_timeline_of_many_pieces_keeps_the_longest_and_counts_the_rest() {
    let mut case = Case::of(summary()).late([late(50, 100_000, Some(0))]);
    let piece = case.analysis.pieces.remove(0);
    let end_ns = case.measured.packets.app_ns[50];
    case.analysis.pieces = (end_ns - 100_000..end_ns)
        .step_by(20)
        .map(|at| Piece { start_ns: at, end_ns: at + 20, ..piece })
        .collect();
    let document = case.document();
    let [(_, Plot::Timeline(timeline))] = &plots(&document, "worst")[..] else { panic!("no timeline") };
    let lane = timeline.lanes.iter().find(|lane| lane.name == "late time").unwrap();
    assert_eq!(lane.spans.len(), 400);
    assert!(case.html().contains("4,600 shorter pieces of late time omitted."));
}

#[test]
fn page_of_a_clean_run_that_knows_little() {
    let mut summary = summary();
    summary.losses = Losses { received: 9_000, ..Losses::default() };
    summary.lateness.packets = 0;
    summary.causes.clear();
    summary.stages.clear();
    summary.layers.truncate(1);
    summary.layers[0].delta_t.count = 8_999;
    summary.probe_cost = None;
    summary.tier = "user".into();
    summary.complete = false;
    summary.period_learned = true;
    assert_eq!(Case::of(summary).page(), CLEAN);
}

#[test]
fn no_line_is_wider_than_the_terminal_and_none_drives_it() {
    let mut summary = summary();
    for n in 0..40 {
        let mut more = summary.causes[2].clone();
        more.name = format!("thread {n} {}", "x".repeat(200));
        more.share = 0.000_1;
        summary.causes.push(more);
    }
    let document = Case::of(summary).document();
    for width in [40, 57, 80, 120, 200] {
        let mut out = Vec::new();
        write_terminal(&mut out, &document, Style { width, ..Style::PLAIN }).unwrap();
        let page = String::from_utf8(out).unwrap();
        for line in page.lines() {
            assert!(line.chars().count() <= width, "wider than {width}: {line}");
        }
        assert!(!page.contains('\u{1b}'));
        assert!(page.contains("40 smaller causes"));
    }
}

#[test]
fn unknown_is_not_zero() {
    let shown = places(&Losses { network: Some(0), ..Losses::default() });
    assert_eq!(shown[0], ("lost in the network".to_owned(), Some(0)));
    assert_eq!(shown[1], ("lost in the NIC ring".to_owned(), None));
}

#[test]
fn hostile_names_never_become_markup() {
    let mut summary = summary();
    summary.causes[0].name = format!("thread {HOSTILE}");
    summary.warnings.push(HOSTILE.into());
    summary.unexplained.note = HOSTILE.into();
    let mut case = Case::of(summary).late([late(12, 40_000, Some(0))]);
    case.facts.host = HOSTILE.into();
    let page = case.html();
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
}

#[test]
fn the_page_asks_for_nothing() {
    let page = Case::of(summary()).html();
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=\"http", "href=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn every_layer_is_drawn_with_the_late_packets_under_their_causes() {
    let case = Case::of(summary()).late([late(12, 40_000, Some(0)), late(20, 30_000, None)]);
    let document = case.document();
    let plots = plots(&document, "time");
    let ids: Vec<&str> = plots.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["time-application", "time-receive", "time-lateness"], "the application's comes first");
    for (id, plot) in &plots {
        let Plot::Xy(plot) = plot else { panic!("{id}: {plot:?}") };
        let marks = plot.series.iter().filter_map(|series| match &series.data {
            Data::Points { x, y } => Some((series.name.as_str(), x.to_vec(), y.to_vec())),
            _ => None,
        });
        let heights = if id == "time-lateness" { [40_000.0, 30_000.0] } else { [7_410.0; 2] };
        let wanted = [
            ("thread stress (fifo 50)", vec![88_920.0], vec![heights[0]]),
            ("unexplained", vec![148_200.0], vec![heights[1]]),
        ];
        assert_eq!(marks.collect::<Vec<_>>(), wanted, "{id}");
    }
    let page = case.html();
    assert!(page.contains("All 2 late packets are marked."));
}

#[test]
fn the_distribution_counts_every_delta_of_each_layer() {
    let document = Case::of(summary()).document();
    let plots = plots(&document, "distribution");
    let [(_, Plot::Distribution(histogram)), (_, Plot::Distribution(tail))] = &plots[..] else {
        panic!("{plots:?}");
    };
    for plot in [histogram, tail] {
        let counted: Vec<(&str, f64)> =
            plot.series.iter().map(|one| (one.name.as_str(), one.counts.iter().sum())).collect();
        assert_eq!(counted, [("receive", 99.0), ("application", 99.0)]);
    }
}

#[test]
fn a_timeline_shows_the_packet_its_neighbours_its_late_time_and_the_cpus() {
    let document = Case::of(summary()).late([late(12, 40_000, Some(0))]).document();
    let plots = plots(&document, "worst");
    let [(_, Plot::Timeline(timeline))] = &plots[..] else { panic!("{plots:?}") };
    let (due, came) = timeline.zone.unwrap();
    assert_eq!(came - due, 40_000.0);
    assert_eq!(timeline.origin, Some((due, "due".to_owned())));
    let lanes: Vec<(&str, &str)> =
        timeline.lanes.iter().map(|lane| (lane.name.as_str(), lane.detail.as_str())).collect();
    assert_eq!(lanes, [("this packet", ""), ("arrivals", ""), ("late time", ""), ("CPU 1", "receiver")]);
    let piece = &timeline.lanes[2].spans[0];
    assert_eq!(piece.end - piece.start, 30_000.0);
    assert_eq!(piece.label, "thread stress (fifo 50) (catching up)");
    assert_eq!(timeline.keys.len(), 1, "only the causes that are there: {:?}", timeline.keys);
    assert_eq!(timeline.lanes[3].spans[0].label, format!("{HOSTILE} (7)"));
}

#[test]
fn an_empty_run_has_a_page() {
    let mut summary = summary();
    summary.layers.clear();
    summary.stages.clear();
    summary.causes.clear();
    summary.lateness.packets = 0;
    let mut unmeasured = summary.clone();
    let mut case = Case::of(summary);
    case.measured.packets = PacketTable::default();
    let page = case.html();
    assert!(page.contains("None: no packet was more than 14.8 µs late."));
    unmeasured.lateness.distribution.count = 0;
    assert!(Case::of(unmeasured).html().contains("Not known: no packet was measured."));
    assert!(page.contains("there is no ΔT") && !page.contains("time-application"));
}

#[test]
fn late_rows_and_causes_that_do_not_exist_do_no_harm() {
    let late = [late(5, i64::MAX / 4, Some(99)), late(5_000, -3, None)];
    let case = Case::of(summary()).late(late);
    assert!(case.html().contains("The late packet is marked."));
    assert_eq!(plots(&case.document(), "worst").len(), 1);
}

const GOLDEN: &str = "\
quaver chase · chase-20261120T165800Z-7f3a
  host          studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)
  stream        made here, two network namespaces · one packet every 7.41 µs · 134,953 packets/s ·
                for 10.0 s
  tracing       tracefs
                no better tier: BPF needs CAP_BPF and CAP_PERFMON; run: sudo setcap
                cap_bpf,cap_perfmon+ep quaver
  not observed  NMI (no hardware counters in this virtual machine)

  27 of 1,349,527 packets (< 0.01 %) were lost, 24 of them at the socket buffer. 2,311 packets
  (0.17 %) were late. Largest cause: thread stress (fifo 50), 61.2 % of the late time.

Causes of lateness  ranked by share of the late time; each late packet counts for its largest cause
  2,311 of 1,349,500 packets (0.17 %) were delayed by more than 14.8 µs. Total late time 61.0 ms
  (0.61 % of the run). Worst lateness: 405 µs. Of the late time, 84.5 % is certain, 10.3 % inferred
  and 5.2 % unknown.
  #   share     time  late packets    worst  example  source
  1  61.2 %  37.3 ms         1,480   204 µs  #481203  thread stress (fifo 50)
       [rt-thread] 74 times: 33.3 ms inside, 933 µs entry and exit, 3.11 ms catching up
       now:  quaver tune apply pin-threads (moves it: taskset -pc 0 1234)
       boot: isolcpus=managed_irq,domain,1
  2  24.1 %  14.7 ms           611  12.4 µs  #481203  vector local timer
       [tick] 30 times: 13.1 ms inside, 368 µs entry and exit, 1.23 ms catching up
       boot: nohz_full=1
       known: the run never saw more than one runnable thread on CPU 1
  3   9.5 %  5.79 ms           180  31.0 µs  #481203  irq 41 virtio3-<b>rx</b>�[2J and a …
       irq 41 virtio3-<b>rx</b>�[2J and a long device name
       [dev-irq] 9 times: 5.17 ms inside, 145 µs entry and exit, 483 µs catching up
       now:  quaver tune apply irq-affinity
  ?   5.2 %  3.17 ms            40  9.80 µs   #99120  unexplained
       Hypervisor or hardware, or a class of event that was not recorded (see \"not observed\").

Where late packets wait  extra time per stage, compared with packets on time
  stage                   share                        on time  late p50  late max
  schedule → source      0.40 %  ▏                       90 ns    210 ns    420 ns
  source → receive        5.0 %  █                     1.80 µs   2.40 µs   4.80 µs
  receive → application  94.6 %  ██████████████████▉    900 ns   48.0 µs   96.0 µs

ΔT at each layer  time between successive packets at each stamped layer
  layer            p50      p90      p99    p99.9   p99.99  p99.999      max       sd
  source       7.41 µs  7.78 µs  9.26 µs  22.2 µs  74.1 µs  49.0 µs  61.2 µs  2.30 µs
  receive      7.41 µs  7.78 µs  9.26 µs  22.2 µs  74.1 µs        -   240 µs  2.30 µs
  application  7.41 µs  7.78 µs  9.26 µs  22.2 µs  74.1 µs   330 µs   412 µs  2.30 µs

Packets
  sent                           1,349,527
  received                       1,349,500  > 99.99 %
    of these duplicates                  0
    of these reordered                   2
  lost in the network                    0
  lost in the NIC ring           not known
  lost in the stack (NO_SOCKET)          3   < 0.01 %
  lost at the socket buffer             24   < 0.01 %
  lost in Quaver                         0
  lost, place unknown                    0

Cost of the probes
  412 ns per packet (95 % CI 372 ns to 455 ns), from 20 blocks with and 20 without probes

Warnings
  ! RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second. Turn it off
    with: quaver tune apply rt-throttle

Report  runs/chase-x/report.html
";

const CLEAN: &str = "\
quaver chase · chase-20261120T165800Z-7f3a
  host          studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)
  stream        made here, two network namespaces · one packet every 7.41 µs (learned from the
                stream) · 134,953 packets/s · for 10.0 s
  tracing       user space only
                no better tier: BPF needs CAP_BPF and CAP_PERFMON; run: sudo setcap
                cap_bpf,cap_perfmon+ep quaver
  not observed  NMI (no hardware counters in this virtual machine)
  This run was cut short; what follows covers what was kept.

  No packet was delayed by more than 14.8 µs.

Causes of lateness
  None: no packet was more than 14.8 µs late.

ΔT at each layer  time between successive packets at each stamped layer
  layer       p50      p90      p99    p99.9  p99.99  p99.999      max       sd
  source  7.41 µs  7.78 µs  9.26 µs  22.2 µs       -        -  61.2 µs  2.30 µs

Packets
  sent                       not known
  received                       9,000
    of these duplicates              0
    of these reordered               0
  lost in the network        not known
  lost in the NIC ring       not known
  lost in the stack          not known
  lost at the socket buffer  not known
  lost in Quaver                     0
  lost, place unknown                0

Cost of the probes
  not measured in this run

Warnings
  ! RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second. Turn it off
    with: quaver tune apply rt-throttle

Report  runs/chase-x/report.html
";
