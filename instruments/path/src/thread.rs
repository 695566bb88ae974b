//! The threads that test packets go through: pace, CPU, priority, and what they will lose.

use crate::args::{PaceName, ThreadArgs};
use quaver_host::facts::SchedulingFacts;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::{allowed_cpus, taken_from_spinner};
use quaver_probe::source::Pace;
use quaver_probe::thread::ThreadSettings;

/// The pace and the settings.
pub(crate) fn thread(args: &ThreadArgs) -> anyhow::Result<(Pace, ThreadSettings)> {
    if let Some(cpu) = args.cpu {
        let allowed = allowed_cpus()?;
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
    let spins = args.pace == PaceName::Spin && args.fifo.is_some();
    let taken = taken_from_spinner(scheduling).filter(|_| spins)?;
    Some(format!("--pace spin --fifo never lets go of its CPU: {taken}; use --pace hybrid, which sleeps"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::facts::FairServer;

    #[test]
    fn only_a_spinner_under_fifo_is_told_of_its_loss() {
        let spinner = ThreadArgs { pace: PaceName::Spin, cpu: None, fifo: Some(50) };
        let fair_server = FairServer::Share { runtime_ns: 30_000_000, period_ns: 500_000_000 };
        let share = SchedulingFacts { fair_server, ..SchedulingFacts::default() };
        let told = spinners_loss(&spinner, &share).unwrap();
        assert!(told.contains("30.0 ms") && told.contains("--pace hybrid"), "{told}");
        for other in [
            ThreadArgs { pace: PaceName::Hybrid, ..spinner },
            ThreadArgs { pace: PaceName::Sleep, ..spinner },
            ThreadArgs { fifo: None, ..spinner },
        ] {
            assert_eq!(spinners_loss(&other, &share), None);
        }
    }
}
