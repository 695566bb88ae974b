//! Runs both noise loops on the CPUs given and prints what they counted: `noise_loops SECONDS CPU...`.

use quaver_clock::{CounterSupport, nominal_scale};
use quaver_probe::noise::{NoiseOptions, NoisePlan, NoiseRun};
use quaver_probe::thread::ThreadSettings;
use std::path::Path;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().ok_or("usage: noise_loops SECONDS CPU...")?.parse()?;
    let cpus = arguments.map(|cpu| cpu.parse()).collect::<Result<Vec<u16>, _>>()?;
    let support = CounterSupport::detect(Path::new("/"));
    println!("{support:?}");
    let scale = nominal_scale(support.counter);
    let tight =
        NoisePlan::Tight { threshold_ns: 1_000, duration: Duration::from_secs(seconds), records: 1 << 20 };
    let paced = NoisePlan::Paced { period_ns: 7_410, count: seconds * 1_000_000_000 / 7_410 };
    for plan in [tight, paced] {
        println!("{plan:?}");
        let directory = std::env::temp_dir().join(format!("quaver-noise-loops-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        let run = NoiseRun::prepare(&NoiseOptions {
            plan,
            threads: cpus.iter().map(|cpu| ThreadSettings::measuring(Some(*cpu), None)).collect(),
            counter: support.counter,
            directory: directory.clone(),
        })?;
        run.go();
        for result in run.wait()? {
            let counts = result.statistics;
            println!(
                "CPU {:?}: {} turns in {} ns, shortest {} ns, longest {} ns, {} gaps of {} ns together, {:?}, {} lost",
                result.cpu,
                counts.turns,
                scale.ns(counts.span_cycles()),
                scale.ns(counts.shortest_cycles),
                scale.ns(counts.longest_cycles),
                counts.gaps,
                scale.ns(counts.gap_cycles),
                result.usage,
                result.segment.lost,
            );
        }
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}
