//! What a chase's steal and long turns explain, beside a placebo: the same records moved by 10 ms and more must name
//! little.
//!
//! `cargo run -p quaver-store --example steal_placebo -- RUN...`

use quaver_abi::record::EventKind;
use quaver_analysis::attribution::{AttributionOptions, analyze_packets};
use quaver_analysis::model::PacketRun;
use quaver_store::load::load_packet_run;
use quaver_store::run::RunDir;

const SHIFTS_MS: [i64; 7] = [0, -37, -23, -10, 10, 17, 29];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let run = load_packet_run(&RunDir::open(path.as_ref())?)?.run;
        let steal = |cpu: u16| -> u64 {
            let records = run.events.iter().filter(|e| e.kind == EventKind::Steal as u8 && e.cpu == cpu);
            records.map(|record| record.aux).sum()
        };
        println!("{path}");
        for cpu in &run.circumstances.traced_cpus {
            println!("  CPU {cpu}: {:.3} ms of steal recorded", steal(*cpu) as f64 / 1e6);
        }
        println!("  /proc/stat, all CPUs: {:.0} ms", run.circumstances.steal_ns as f64 / 1e6);
        let mut bare = run.clone();
        bare.events.retain(|e| e.kind != EventKind::Steal as u8 && e.kind != EventKind::LoopGap as u8);
        report("without steal and long turns", &bare);
        for shift_ms in SHIFTS_MS {
            let mut moved = run.clone();
            for event in moved.events.iter_mut().filter(|e| e.kind == EventKind::Steal as u8) {
                event.start_ns = event.start_ns.saturating_add_signed(shift_ms * 1_000_000);
                event.end_ns = event.end_ns.saturating_add_signed(shift_ms * 1_000_000);
            }
            report(&format!("steal moved by {shift_ms} ms"), &moved);
        }
    }
    Ok(())
}

fn report(what: &str, run: &PacketRun) {
    let summary = analyze_packets(run, &AttributionOptions::default()).summary;
    let named = |source: &str| -> i64 {
        summary.causes.iter().filter(|cause| cause.source == source).map(|cause| cause.time_ns).sum()
    };
    let ms = |time_ns: i64| time_ns as f64 / 1e6;
    println!(
        "  {what:28}: late {:.1} ms, steal {:.3} ms, outside {:.3} ms, unexplained {:.3} ms ({:.2} %), of it {:.3} ms in calls",
        ms(summary.lateness.time_ns),
        ms(named("steal")),
        ms(named("outside")),
        ms(summary.unexplained.time_ns),
        summary.unexplained.share * 100.0,
        ms(summary.unexplained.in_call_ns)
    );
}
