//! Getting a thread ready to measure: its CPU, its priority, its memory; and what the kernel did to it meanwhile.

use rustix::thread::{CapabilitySet, CpuSet};
use std::io;
use std::num::NonZeroU64;

/// What a measuring thread asks of the kernel. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSettings {
    /// CPU to stay on.
    pub cpu: Option<u16>,
    /// SCHED_FIFO priority, 1 to 99. None leaves the policy as it is.
    pub fifo: Option<u8>,
    /// Lock the memory of the whole process, present and future.
    pub lock_memory: bool,
    /// Bytes of stack to make present before the measured part. 0 for none; at most 1 MiB is taken.
    pub prefault_stack_bytes: usize,
    /// Let timers expire on time (1 ns of slack) rather than up to 50 µs late. Real-time threads have no slack.
    pub exact_timers: bool,
    /// Settings without which the thread must not run: [`ThreadSettings::prepare`] fails if one is refused.
    pub required: Vec<Setting>,
}

impl ThreadSettings {
    /// The usual settings of a measuring thread: locked memory, 64 KiB of stack, exact timers; `cpu` and `fifo`
    /// as given; nothing required.
    pub fn measuring(cpu: Option<u16>, fifo: Option<u8>) -> Self {
        Self {
            cpu,
            fifo,
            lock_memory: true,
            prefault_stack_bytes: 64 * 1024,
            exact_timers: true,
            required: Vec::new(),
        }
    }
}

/// One thing that a thread can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Staying on one CPU.
    Cpu,
    /// SCHED_FIFO.
    Fifo,
    /// Locked memory.
    LockedMemory,
    /// Timers without slack.
    ExactTimers,
}

impl Setting {
    /// Name in manifests and on the console.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Fifo => "fifo",
            Self::LockedMemory => "locked-memory",
            Self::ExactTimers => "exact-timers",
        }
    }
}

/// A setting that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {source}; {remedy}")]
pub struct SettingRefused {
    /// Which one.
    pub setting: Setting,
    /// What was tried.
    pub operation: String,
    /// What the system said.
    pub source: io::Error,
    /// What to do about it.
    pub remedy: &'static str,
}

/// What a thread got. Settings belong to the thread and end with it, but locked memory, which stays with the
/// process; a thread that lives on can give them back with [`PreparedThread::restore`].
#[derive(Debug)]
pub struct PreparedThread {
    /// Kernel's number of the thread.
    pub tid: u32,
    /// CPU that it is pinned to.
    pub cpu: Option<u16>,
    /// Settings that took.
    pub taken: Vec<Setting>,
    /// Settings that did not, and why.
    pub refused: Vec<SettingRefused>,
    before: Before,
}

/// The thread's settings as they were.
#[derive(Debug)]
struct Before {
    cpus: Option<CpuSet>,
    policy: Option<(libc::c_int, libc::sched_param)>,
    timer_slack_ns: Option<u64>,
}

impl ThreadSettings {
    /// Applies the settings to the calling thread. What is refused is reported, and does not keep the rest from
    /// being applied.
    ///
    /// # Errors
    /// The first refusal of a setting that is `required`; the thread is then as it was before.
    pub fn prepare(&self) -> Result<PreparedThread, SettingRefused> {
        let mut thread = PreparedThread {
            tid: thread_id(),
            cpu: None,
            taken: Vec::new(),
            refused: Vec::new(),
            before: Before { cpus: None, policy: None, timer_slack_ns: None },
        };
        if let Some(cpu) = self.cpu {
            let outcome = pin(cpu, &mut thread.before);
            if outcome.is_ok() {
                thread.cpu = Some(cpu);
            }
            thread.note(Setting::Cpu, outcome);
        }
        if self.lock_memory {
            thread.note(Setting::LockedMemory, lock_memory());
        }
        if self.exact_timers {
            let outcome = exact_timers(&mut thread.before);
            thread.note(Setting::ExactTimers, outcome);
        }
        prefault_stack(self.prefault_stack_bytes);
        // Last, so that no other step runs at a priority that nothing can interrupt.
        if let Some(priority) = self.fifo {
            let outcome = fifo(priority, &mut thread.before);
            thread.note(Setting::Fifo, outcome);
        }
        match thread.refused.iter().position(|refused| self.required.contains(&refused.setting)) {
            None => Ok(thread),
            Some(at) => {
                let refused = thread.refused.swap_remove(at);
                thread.restore();
                Err(refused)
            }
        }
    }
}

impl PreparedThread {
    /// Whether a setting took.
    pub fn has(&self, setting: Setting) -> bool {
        self.taken.contains(&setting)
    }

    /// Gives policy, CPUs and timer slack back as they were. To be called on the thread itself.
    pub fn restore(self) {
        if let Some((policy, param)) = self.before.policy {
            // SAFETY: 0 is the calling thread; `param` is a valid sched_param. Going back to a policy that the
            // thread had is refused only if its limits were lowered since; then there is nothing better to do.
            unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
        }
        if let Some(cpus) = &self.before.cpus {
            let _ = rustix::thread::sched_setaffinity(None, cpus);
        }
        if let Some(slack) = self.before.timer_slack_ns {
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(slack));
        }
    }

    fn note(&mut self, setting: Setting, outcome: Result<(), SettingRefused>) {
        match outcome {
            Ok(()) => self.taken.push(setting),
            Err(refused) => self.refused.push(refused),
        }
    }
}

/// Lets the calling thread run only where its CPU would idle otherwise (SCHED_IDLE, sched(7)), for good.
///
/// # Errors
/// What the system says.
pub fn run_when_idle() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread, and `param` is a valid sched_param for the call.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) } < 0;
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Kernel's number of the calling thread.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

fn pin(cpu: u16, before: &mut Before) -> Result<(), SettingRefused> {
    let refused = |source: io::Error| SettingRefused {
        setting: Setting::Cpu,
        operation: format!("pin thread to CPU {cpu}"),
        source,
        remedy: "choose a CPU that is online and in this process's cpuset (taskset -p $$; lscpu)",
    };
    if usize::from(cpu) >= CpuSet::MAX_CPU {
        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let old = rustix::thread::sched_getaffinity(None).map_err(|e| refused(e.into()))?;
    let mut cpus = CpuSet::new();
    cpus.set(usize::from(cpu));
    rustix::thread::sched_setaffinity(None, &cpus).map_err(|e| refused(e.into()))?;
    before.cpus = Some(old);
    Ok(())
}

fn fifo(priority: u8, before: &mut Before) -> Result<(), SettingRefused> {
    let refused = |source: io::Error| {
        let remedy = match source.raw_os_error() {
            Some(libc::EINVAL) => "priorities go from 1 to 99",
            _ => {
                "give CAP_SYS_NICE (setcap cap_sys_nice+ep on the program), raise the limit (ulimit -r), or run as \
                 root; in a container or a cgroup with CONFIG_RT_GROUP_SCHED, also grant cpu.rt_runtime_us"
            }
        };
        SettingRefused {
            setting: Setting::Fifo,
            operation: format!("set SCHED_FIFO priority {priority}"),
            source,
            remedy,
        }
    };
    let mut old = libc::sched_param { sched_priority: 0 };
    let new = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: 0 is the calling thread, and both parameters are valid for the calls.
    let policy = unsafe {
        let policy = libc::sched_getscheduler(0);
        if policy < 0
            || libc::sched_getparam(0, &raw mut old) < 0
            || libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const new) < 0
        {
            return Err(refused(io::Error::last_os_error()));
        }
        policy
    };
    before.policy = Some((policy, old));
    Ok(())
}

/// Locks memory, unless the limit would turn every later allocation of the process into an error.
fn lock_memory() -> Result<(), SettingRefused> {
    let refused = |source: io::Error| SettingRefused {
        setting: Setting::LockedMemory,
        operation: "lock the process's memory (mlockall)".to_owned(),
        source,
        remedy: "give CAP_IPC_LOCK (setcap cap_ipc_lock+ep on the program), set the limit to unlimited \
                 (ulimit -l unlimited), or run as root",
    };
    let capable =
        rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if !capable && !is_free_to_lock() {
        return Err(refused(io::Error::from_raw_os_error(libc::EPERM)));
    }
    use rustix::mm::MlockAllFlags;
    rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|e| refused(e.into()))
}

/// Whether the process may lock as much memory as it likes, as far as is known: a security module may forbid the question.
fn is_free_to_lock() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for the call. rustix's function takes no refusal for an answer.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    asked == 0 && limit.rlim_cur == libc::RLIM_INFINITY
}

fn exact_timers(before: &mut Before) -> Result<(), SettingRefused> {
    let refused = |source: rustix::io::Errno| SettingRefused {
        setting: Setting::ExactTimers,
        operation: "set timer slack to 1 ns".to_owned(),
        source: source.into(),
        remedy: "timers of this thread may expire up to 50 us late; SCHED_FIFO threads have no slack",
    };
    let old = rustix::thread::current_timer_slack().map_err(refused)?;
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(refused)?;
    before.timer_slack_ns = Some(old);
    Ok(())
}

/// Largest stack that is made present: half of what Rust gives a thread.
const MAX_STACK_BYTES: usize = 1 << 20;

fn prefault_stack(bytes: usize) {
    /// One frame of a known size, each a page below the one before.
    #[inline(never)]
    fn descend(pages: usize) -> u8 {
        let mut frame = [0u8; 4096];
        std::hint::black_box(&mut frame);
        let below = if pages > 1 { descend(pages - 1) } else { 0 };
        std::hint::black_box(frame[0]) | below
    }
    if bytes > 0 {
        std::hint::black_box(descend(bytes.min(MAX_STACK_BYTES).div_ceil(4096)));
    }
}

/// What the kernel counted for the calling thread (getrusage, RUSAGE_THREAD).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Times that the thread gave the CPU up itself.
    pub voluntary_switches: u64,
    /// Times that the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Time in user mode, nanoseconds.
    pub user_ns: u64,
    /// Time in the kernel, nanoseconds.
    pub system_ns: u64,
}

impl ThreadUsage {
    /// Counts of the calling thread from its birth.
    pub fn now() -> Self {
        // SAFETY: all-zero bytes are a valid rusage, which is plain numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid out-pointer; RUSAGE_THREAD exists on every Linux, so it cannot fail.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        let ns = |time: libc::timeval| (time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000).unsigned_abs();
        Self {
            voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
            involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
            minor_faults: usage.ru_minflt.unsigned_abs(),
            major_faults: usage.ru_majflt.unsigned_abs(),
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
        }
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_testbed::privileged::privileged;

    /// Each test works on its own thread, as settings belong to threads.
    fn on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().expect("the test's thread ran through"))
    }

    fn first_cpu() -> u16 {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).unwrap() as u16
    }

    #[test]
    fn pins_and_restores() {
        on_new_thread(|| {
            let before = rustix::thread::sched_getaffinity(None).unwrap();
            let slack = rustix::thread::current_timer_slack().unwrap();
            let cpu = first_cpu();
            let settings = ThreadSettings {
                cpu: Some(cpu),
                exact_timers: true,
                required: vec![Setting::Cpu],
                ..Default::default()
            };
            let thread = settings.prepare().unwrap();
            assert_eq!((thread.cpu, thread.tid), (Some(cpu), thread_id()));
            assert_eq!(rustix::thread::sched_getcpu(), usize::from(cpu));
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
            assert!(
                thread.has(Setting::Cpu) && thread.has(Setting::ExactTimers) && thread.refused.is_empty()
            );
            thread.restore();
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), slack);
        });
    }

    #[test]
    fn reports_an_impossible_cpu_and_fails_only_if_required() {
        on_new_thread(|| {
            let settings = ThreadSettings { cpu: Some(1_023), ..Default::default() };
            let thread = settings.prepare().unwrap();
            assert_eq!((thread.cpu, thread.refused.len()), (None, 1));
            assert_eq!(thread.refused[0].setting, Setting::Cpu);
            assert!(thread.refused[0].to_string().contains("CPU 1023"));
            let settings = ThreadSettings { cpu: Some(u16::MAX), required: vec![Setting::Cpu], ..settings };
            assert_eq!(settings.prepare().unwrap_err().setting, Setting::Cpu);
        });
    }

    #[test]
    fn impossible_priority_is_refused_with_its_range() {
        on_new_thread(|| {
            let thread = ThreadSettings { fifo: Some(100), ..Default::default() }.prepare().unwrap();
            assert!(thread.refused[0].to_string().contains("from 1 to 99"), "{}", thread.refused[0]);
        });
    }

    #[test]
    fn real_time_priority_takes_where_permitted() {
        on_new_thread(|| {
            let thread = ThreadSettings { fifo: Some(1), ..Default::default() }.prepare().unwrap();
            if privileged("real_time_priority_takes_where_permitted") {
                assert!(thread.has(Setting::Fifo), "{:?}", thread.refused);
                // SAFETY: asks for the calling thread's policy; no memory involved.
                assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_FIFO);
            }
            thread.restore();
            // SAFETY: as above.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
        });
    }

    #[test]
    fn usage_counts_page_faults() {
        on_new_thread(|| {
            let before = ThreadUsage::now();
            let mut memory = vec![0u8; 64 << 20];
            memory.iter_mut().step_by(4096).for_each(|octet| *octet = 1);
            std::hint::black_box(&memory);
            let used = ThreadUsage::now().since(&before);
            assert!(used.minor_faults > 0, "{used:?}");
        });
    }

    #[test]
    fn stack_is_present_after_the_descent() {
        on_new_thread(|| {
            ThreadSettings { prefault_stack_bytes: 256 * 1024, ..Default::default() }.prepare().unwrap();
            let before = ThreadUsage::now();
            prefault_stack(128 * 1024);
            assert_eq!(ThreadUsage::now().since(&before).minor_faults, 0);
        });
    }
}
