//! Which CPU does what: the choice checked.

use crate::args::{CaptureArgs, CoreChoice};
use crate::pipeline::PipelineKind;
use crate::record::{ANY, TapInterface};
use anyhow::Context;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::allowed_cpus;

/// Threads that run at the same time need CPUs of their own, and CPUs that there are. What else should be known.
pub(super) fn check(cores: &CoreChoice, args: &CaptureArgs) -> anyhow::Result<Vec<String>> {
    let allowed = allowed_cpus().context("reading the CPUs that this process may use")?;
    let idle = check_threads(cores, args.pipeline, &allowed)?;
    let any = args.interface.iter().any(|name| name == ANY);
    let shared = check_softirq(cores, any, &online_cpus())?;
    Ok(idle.into_iter().chain(shared).collect())
}

/// CPUs that are online, whoever may use them.
pub fn online_cpus() -> Vec<u16> {
    HostRoot::system().cpu_list("/sys/devices/system/cpu/online")
}

/// That this process may run a thread there.
pub fn check_allowed(role: &str, cpu: u16, allowed: &[u16]) -> anyhow::Result<()> {
    if allowed.contains(&cpu) {
        return Ok(());
    }
    Err(failure(
        ExitCode::Usage,
        format!("--cores {role}={cpu}: only CPUs {allowed:?} are allowed (see taskset, cpuset)"),
    ))
}

/// That the kernel can process packets there.
pub fn check_online(softirq: u16, online: &[u16]) -> anyhow::Result<()> {
    if online.contains(&softirq) {
        return Ok(());
    }
    Err(failure(ExitCode::Usage, format!("--cores softirq={softirq}: the CPUs {online:?} are online")))
}

/// Threads of this process; what was asked for in vain.
pub fn check_threads(
    cores: &CoreChoice,
    pipeline: PipelineKind,
    allowed: &[u16],
) -> anyhow::Result<Option<String>> {
    let mut taken: Vec<(u16, &str)> = Vec::new();
    let roles = cores.capture.map(|cpu| (cpu, "capture")).into_iter();
    let roles = roles.chain(cores.write.map(|cpu| (cpu, "write")));
    for (cpu, role) in roles.chain(cores.convert.iter().map(|cpu| (*cpu, "convert"))) {
        check_allowed(role, cpu, allowed)?;
        if let Some((_, other)) = taken.iter().find(|(taken, _)| *taken == cpu) {
            return Err(failure(
                ExitCode::Usage,
                format!("--cores {other}={cpu},{role}={cpu}: give each role a CPU of its own"),
            ));
        }
        taken.push((cpu, role));
    }
    match pipeline {
        PipelineKind::Threaded { converters } if cores.convert.len() > usize::from(converters) => {
            Err(failure(
                ExitCode::Usage,
                format!(
                    "--cores names {} CPUs for converters, and --pipeline {pipeline} has {converters}",
                    cores.convert.len()
                ),
            ))
        }
        PipelineKind::Threaded { .. } => Ok(None),
        _ if cores.convert.is_empty() => Ok(None),
        _ => Ok(Some(format!(
            "--pipeline {pipeline} has no converter threads, so CPU {} would be unused (threaded has one)",
            words(&cores.convert)
        ))),
    }
}

fn words(cpus: &[u16]) -> String {
    cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Softirqs may share the capture thread's CPU, as the paper has it for its case of overload; a converter's never, since
/// converting elsewhere is all that it is for.
fn check_softirq(cores: &CoreChoice, any: bool, online: &[u16]) -> anyhow::Result<Vec<String>> {
    let Some(cpu) = cores.softirq else { return Ok(Vec::new()) };
    if any {
        return Err(failure(
            ExitCode::Usage,
            format!(
                "--cores softirq={cpu} sets where packets of interfaces are processed: name them with -i in place of `any`"
            ),
        ));
    }
    check_online(cpu, online)?;
    if cores.convert.contains(&cpu) {
        return Err(failure(
            ExitCode::Usage,
            format!("--cores softirq={cpu},convert={cpu}: give a converter a CPU without softirqs"),
        ));
    }
    let roles = [(cores.capture, "capture"), (cores.write, "write")];
    let shared = roles.iter().filter(|(other, _)| *other == Some(cpu));
    Ok(shared
        .map(|(_, role)| {
            format!(
                "CPU {cpu} runs softirqs and the {role} thread: under load they compete and packets are dropped"
            )
        })
        .collect())
}

/// The files of an interface are those of the namespace that `/sys` was mounted in, which may not be this one.
pub(super) fn shown_here(interface: &TapInterface) -> anyhow::Result<()> {
    let name = &interface.name;
    let index = HostRoot::system().value::<u32>(&format!("/sys/class/net/{name}/ifindex"));
    if index == Some(interface.index) {
        return Ok(());
    }
    Err(failure(
        ExitCode::Unsupported,
        format!(
            "--cores softirq: /sys does not show interface {name} of this network namespace; enter it with ip netns \
             exec, or mount sysfs anew"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn softirq(cores: &CoreChoice, any: bool) -> Result<Vec<String>, String> {
        check_softirq(cores, any, &[0, 1, 2]).map_err(|error| error.to_string())
    }

    #[test]
    fn softirqs_may_share_with_a_reader_and_never_with_a_converter() {
        let cores = |softirq, capture, convert: &[u16]| CoreChoice {
            softirq,
            capture,
            convert: convert.to_vec(),
            ..CoreChoice::default()
        };
        assert_eq!(softirq(&cores(None, Some(0), &[1]), true), Ok(Vec::new()));
        assert_eq!(softirq(&cores(Some(2), Some(0), &[1]), false), Ok(Vec::new()));
        let shared = softirq(&cores(Some(0), Some(0), &[1]), false).unwrap();
        assert!(
            shared.len() == 1 && shared[0].contains("runs softirqs and the capture thread"),
            "{shared:?}"
        );
        assert!(softirq(&cores(Some(1), Some(0), &[1]), false).unwrap_err().contains("without softirqs"));
        assert!(softirq(&cores(Some(7), None, &[]), false).unwrap_err().contains("[0, 1, 2] are online"));
        assert!(softirq(&cores(Some(0), None, &[]), true).unwrap_err().contains("in place of `any`"));
    }

    #[test]
    fn threads_have_cpus_of_their_own() {
        let threads = |capture, write, pipeline| {
            let cores = CoreChoice { capture, write, convert: vec![2], ..CoreChoice::default() };
            check_threads(&cores, pipeline, &[0, 1, 2]).map_err(|error| error.to_string())
        };
        let threaded = PipelineKind::Threaded { converters: 1 };
        assert_eq!(threads(Some(0), Some(1), threaded), Ok(None));
        assert!(threads(Some(0), Some(2), threaded).unwrap_err().contains("a CPU of its own"));
        assert!(threads(Some(3), None, threaded).unwrap_err().contains("only CPUs [0, 1, 2] are allowed"));
        assert!(threads(Some(2), None, threaded).unwrap_err().contains("a CPU of its own"));
    }

    #[test]
    fn a_converters_cpu_is_in_vain_where_no_thread_converts() {
        let idle = |convert: &[u16], pipeline| {
            let cores = CoreChoice { capture: Some(0), convert: convert.to_vec(), ..CoreChoice::default() };
            check_threads(&cores, pipeline, &[0, 1, 2]).map_err(|error| error.to_string())
        };
        let said = idle(&[1, 2], PipelineKind::Batch).unwrap().unwrap();
        assert!(said.contains("batch has no converter threads") && said.contains("CPU 1, 2 "), "{said}");
        assert_eq!(idle(&[], PipelineKind::Batch), Ok(None));
        // It would have to be another CPU all the same, and one that there is.
        assert!(idle(&[0], PipelineKind::Batch).unwrap_err().contains("a CPU of its own"));
        assert!(
            idle(&[3], PipelineKind::InlineClock).unwrap_err().contains("only CPUs [0, 1, 2] are allowed")
        );
        let many = idle(&[1, 2], PipelineKind::Threaded { converters: 1 }).unwrap_err();
        assert!(many.contains("2 CPUs for converters") && many.contains("has 1"), "{many}");
    }

    #[test]
    fn the_papers_case_of_overload_is_allowed_and_said() {
        let cores =
            CoreChoice { softirq: Some(0), capture: Some(0), convert: vec![1], ..CoreChoice::default() };
        let threaded = PipelineKind::Threaded { converters: 1 };
        assert!(matches!(check_threads(&cores, threaded, &[0, 1]), Ok(None)));
        assert!(matches!(check_threads(&cores, PipelineKind::Batch, &[0, 1]), Ok(Some(_))));
        assert_eq!(softirq(&cores, false).unwrap().len(), 1);
    }
}
