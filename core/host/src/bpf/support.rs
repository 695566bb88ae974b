//! What BPF can do here, for `quaver doctor`. Looks only: a program of two instructions is loaded and let go,
//! never attached.

use super::btf::KernelTypes;
use super::programs::{CAST, COUNTER, ENQUEUE, PROGRAMS};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// One thing that the tier needs or can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is, as a noun phrase.
    pub subject: String,
    /// Why it is not there; none if it is.
    pub lacking: Option<String>,
    /// What to do about it, where something can be done.
    pub remedy: Option<String>,
}

/// What BPF can do here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfSupport {
    /// This build has the programs (feature `bpf`).
    pub built: Finding,
    /// The kernel describes its types.
    pub kernel_types: Finding,
    /// This process may load tracing programs.
    pub may_load: Finding,
    /// One for each layer or class of events, in the order of the programs.
    pub sees: Vec<Finding>,
    /// The kernel lets programs read the cycle counter (`bpf_get_cpu_time_counter`): those of a capture then stamp by it.
    /// None where the kernel does not describe its functions.
    pub reads_cycle_counter: Option<bool>,
}

impl BpfSupport {
    /// Whether the tier can run at all.
    pub fn usable(&self) -> bool {
        [&self.built, &self.kernel_types, &self.may_load].iter().all(|finding| finding.lacking.is_none())
    }
}

/// Looks at this build, this kernel and this process. Changes nothing.
pub fn probe() -> BpfSupport {
    let types = super::kernel_types();
    let finding = |subject: &str, lacking: Option<String>, remedy: &str| Finding {
        subject: subject.to_owned(),
        remedy: lacking.is_some().then(|| remedy.to_owned()),
        lacking,
    };
    #[cfg_attr(not(feature = "bpf"), expect(unused_mut))]
    let mut seen = types.as_ref().map(sees).unwrap_or_default();
    #[cfg(feature = "bpf")]
    if let Err(why) = super::sampling::trial()
        && let Some(stacks) = seen.iter_mut().find(|finding| finding.subject == super::programs::SAMPLED)
    {
        (stacks.lacking, stacks.remedy) = (Some(why.to_string()), Some(super::PRIVILEGE_REMEDY.to_owned()));
    }
    BpfSupport {
        built: finding(
            "BPF programs in this build",
            (!cfg!(feature = "bpf")).then(|| "built without the feature `bpf`".to_owned()),
            super::BUILD_REMEDY,
        ),
        kernel_types: finding(
            "the kernel's type description (BTF)",
            types.as_ref().err().map(ToString::to_string),
            super::TYPES_REMEDY,
        ),
        may_load: finding(
            "leave to load tracing programs (CAP_BPF and CAP_PERFMON)",
            trial_load().err().map(|error| error.to_string()),
            super::PRIVILEGE_REMEDY,
        ),
        sees: seen,
        reads_cycle_counter: types.ok().map(|types| types.functions.contains(COUNTER)),
    }
}

/// What can be seen with the kernel's tracepoints, one entry for each thing.
fn sees(types: &KernelTypes) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for program in PROGRAMS {
        let lacking = if program.name == ENQUEUE {
            (!types.functions.contains(CAST)).then(|| format!("the kernel has no {CAST}"))
        } else if program.tracepoint.is_empty() {
            None
        } else {
            let known = types.tracepoints.contains(program.tracepoint);
            (!known).then(|| format!("the kernel has no tracepoint {}", program.tracepoint))
        };
        let remedy =
            lacking.as_ref().map(|_| "a newer kernel may have it; without it this stays unseen".to_owned());
        match findings.iter_mut().find(|finding| finding.subject == program.sees) {
            Some(finding) if finding.lacking.is_none() => {
                (finding.lacking, finding.remedy) = (lacking, remedy)
            }
            Some(_) => {}
            None => findings.push(Finding { subject: program.sees.to_owned(), lacking, remedy }),
        }
    }
    findings
}

/// Arguments of `BPF_PROG_LOAD`, as far as a trial needs them (Linux `include/uapi/linux/bpf.h`).
#[derive(Default)]
#[repr(C)]
struct LoadArguments {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Loads `r0 = 0; exit` as a raw tracepoint program and lets it go.
fn trial_load() -> io::Result<()> {
    const PROG_LOAD: libc::c_int = 5;
    const RAW_TRACEPOINT: u32 = 17;
    let instructions: [u64; 2] = [0xb7, 0x95];
    let arguments = LoadArguments {
        program_type: RAW_TRACEPOINT,
        instruction_count: 2,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..LoadArguments::default()
    };
    // SAFETY: the arguments and what they point to live through the call, which only reads them.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const arguments, size_of::<LoadArguments>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave us this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_tracepoint_that_is_missing() {
        let mut types = KernelTypes::default();
        types.tracepoints.extend(PROGRAMS.iter().map(|program| program.tracepoint.to_owned()));
        types.functions.insert(CAST.to_owned());
        assert!(sees(&types).iter().all(|finding| finding.lacking.is_none()));
        types.tracepoints.remove("softirq_exit");
        let lacking: Vec<_> = sees(&types).into_iter().filter(|finding| finding.lacking.is_some()).collect();
        assert_eq!(lacking.len(), 1);
        assert_eq!(lacking[0].subject, "softirqs");
        assert_eq!(lacking[0].lacking.as_deref(), Some("the kernel has no tracepoint softirq_exit"));
    }

    #[test]
    fn looking_gives_a_remedy_for_whatever_is_lacking() {
        let support = probe();
        let all = [&support.built, &support.kernel_types, &support.may_load];
        for finding in all.into_iter().chain(&support.sees) {
            assert_eq!(finding.lacking.is_some(), finding.remedy.is_some(), "{finding:?}");
        }
        assert_eq!(support.usable(), all.iter().all(|finding| finding.lacking.is_none()));
    }
}
