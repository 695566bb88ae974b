//! The threads that test packets go through: pace, CPU, priority, and what they will lose.

use crate::args::{PaceName, ThreadArgs};
use quaver_host::facts::{FairServer, SchedulingFacts};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_probe::source::Pace;
use quaver_probe::thread::ThreadSettings;
use quaver_view::Cell;

/// The pace and the settings.
pub(crate) fn thread(args: &ThreadArgs) -> anyhow::Result<(Pace, ThreadSettings)> {
    if let Some(cpu) = args.cpu {
        let allowed = quaver_instrument::host_state::allowed_cpus()?;
        if !allowed.contains(&cpu) {
            let message =
                format!("--cpu {cpu}: this process may use CPUs {allowed:?} only (see taskset, cpuset)");
            return Err(failure(ExitCode::Usage, message));
        }
    }
    let pace = match args.pace {
        PaceName::Spin => Pace::Spin,
        PaceName::Sleep => Pace::Sleep,
        PaceName::Hybrid => Pace::Hybrid,
    };
    Ok((pace, ThreadSettings { cpu: args.cpu, fifo: args.fifo, ..ThreadSettings::default() }))
}

/// What a sender that never sleeps loses under SCHED_FIFO, by this kernel's settings; none where it loses nothing.
pub(crate) fn spinners_loss(args: &ThreadArgs, scheduling: &SchedulingFacts) -> Option<String> {
    if args.pace != PaceName::Spin || args.fifo.is_none() {
        return None;
    }
    let remedy = "use --pace hybrid, which sleeps";
    if scheduling.rt_throttling() {
        let (runtime_us, period_us) = scheduling.rt_runtime_us.zip(scheduling.rt_period_us)?;
        return Some(format!(
            "--pace spin --fifo: real-time throttling stops the sender for {} of each {}; {remedy}",
            Cell::Duration((period_us - runtime_us) * 1_000),
            Cell::Duration(period_us * 1_000)
        ));
    }
    match scheduling.fair_server {
        FairServer::Absent | FairServer::Share { runtime_ns: 0, .. } => None,
        FairServer::Share { runtime_ns, period_ns } => Some(format!(
            "--pace spin --fifo: the fair server stops the sender for up to {} of each {} while other threads wait for its \
             CPU; {remedy}",
            Cell::Duration(i64::try_from(runtime_ns).unwrap_or(i64::MAX)),
            Cell::Duration(i64::try_from(period_ns).unwrap_or(i64::MAX))
        )),
        FairServer::Present => Some(format!(
            "--pace spin --fifo: the fair server stops the sender while other threads wait for its CPU; for how long, \
             debugfs tells, which is not mounted here (mount -t debugfs none /sys/kernel/debug); {remedy}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinner_is_told_what_this_kernel_takes_from_it() {
        let spinner = ThreadArgs { pace: PaceName::Spin, cpu: None, fifo: Some(50) };
        let with = |fair_server| SchedulingFacts { fair_server, ..SchedulingFacts::default() };
        let share = with(FairServer::Share { runtime_ns: 30_000_000, period_ns: 500_000_000 });
        let told = spinners_loss(&spinner, &share).unwrap();
        assert!(told.contains("30.0 ms of each 500") && told.contains("hybrid"), "{told}");
        let unknown = spinners_loss(&spinner, &with(FairServer::Present)).unwrap();
        assert!(
            unknown.contains("debugfs") && !unknown.contains(" ms"),
            "no number that nobody read: {unknown}"
        );
        assert_eq!(spinners_loss(&spinner, &with(FairServer::Share { runtime_ns: 0, period_ns: 1 })), None);
        assert_eq!(spinners_loss(&spinner, &with(FairServer::Absent)), None);
        for other in [
            ThreadArgs { pace: PaceName::Hybrid, ..spinner },
            ThreadArgs { pace: PaceName::Sleep, ..spinner },
            ThreadArgs { fifo: None, ..spinner },
        ] {
            assert_eq!(spinners_loss(&other, &share), None);
        }
        let throttled = SchedulingFacts {
            rt_runtime_us: Some(900_000),
            rt_period_us: Some(1_000_000),
            ..with(FairServer::Absent)
        };
        let told = spinners_loss(&spinner, &throttled).unwrap();
        assert!(told.contains("100 ms of each 1.00 s"), "{told}");
    }
}
