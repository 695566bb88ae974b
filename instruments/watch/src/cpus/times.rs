//! The BPF programs that count times of CPUs, and what they counted.

use super::{BUCKETS, CpuTimes, KINDS, Times};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ObjectBuilder};
use quaver_host::bpf::load::{Aligned, failed, invalid, one_at_a_time, set_constants};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::trace::TraceError;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/cpus.bpf.o")));

/// `config` of `bpf/c/cpus.bpf.c`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Config {
    steal_counted: u64,
    steal_offset: i64,
}

/// `struct state`: its first word says whether the CPU is watched.
const STATE_WORDS: usize = 8;

/// `struct times`.
#[derive(Clone, Copy, Debug, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Counts {
    sum_ns: u64,
    counts: [u64; 32],
}

/// The programs, attached until this is dropped.
pub(super) struct TimeCounter {
    // Order matters: the links go before the object.
    _links: Vec<Link>,
    object: Object,
}

impl TimeCounter {
    /// Loads the programs, and attaches those whose trace points this kernel has.
    pub(super) fn start(cpus: &[u16]) -> Result<Self, TraceError> {
        let types = quaver_host::bpf::kernel_types()?;
        // Without a host nothing can be taken.
        let is_guest = HostFacts::read(&HostRoot::system()).hypervisor.present;
        let config = match types.steal_offset.filter(|_| is_guest) {
            Some(steal_offset) => Config { steal_counted: 1, steal_offset },
            None => Config::default(),
        };
        let object = one_at_a_time(|| {
            let mut open = ObjectBuilder::default()
                .open_memory(&OBJECT.0)
                .map_err(|error| failed("opening the BPF programs of CPUs", &error))?;
            set_constants(&mut open, &config)?;
            for mut program in open.progs_mut() {
                let section = program.section().to_string_lossy().into_owned();
                let is_there =
                    section.strip_prefix("tp_btf/").is_some_and(|point| types.tracepoints.contains(point));
                program.set_autoload(is_there);
            }
            open.load().map_err(|error| failed("loading the BPF programs of CPUs", &error))
        })?;
        let mut counter = Self { _links: Vec::new(), object };
        counter.watch(cpus)?;
        let programs = counter.object.progs_mut().filter(|program| program.autoload());
        let links = programs.map(|program| program.attach());
        counter._links = links
            .collect::<Result<_, _>>()
            .map_err(|error| failed("attaching the BPF programs of CPUs", &error))?;
        Ok(counter)
    }

    fn watch(&self, cpus: &[u16]) -> Result<(), TraceError> {
        let naming = |error| failed("naming CPUs to the BPF programs", &error);
        let possible = libbpf_rs::num_possible_cpus().map_err(naming)?;
        let state = |cpu: usize| {
            let mut words = [0u64; STATE_WORDS];
            words[0] = u64::from(cpus.iter().any(|watched| usize::from(*watched) == cpu));
            words.as_bytes().to_vec()
        };
        let states: Vec<_> = (0..possible).map(state).collect();
        let states_map = map(&self.object, "states")?;
        states_map.update_percpu(&0u32.to_ne_bytes(), &states, MapFlags::ANY).map_err(naming)
    }

    /// What was counted since the start.
    pub(super) fn read(&self, cpus: &[u16]) -> Result<CpuTimes, TraceError> {
        let times = map(&self.object, "times")?;
        let mut all: CpuTimes = cpus.iter().map(|cpu| (*cpu, Vec::with_capacity(KINDS.len()))).collect();
        for kind in 0..KINDS.len() as u32 {
            let values = times.lookup_percpu(&kind.to_ne_bytes(), MapFlags::ANY);
            let values = values.map_err(|error| failed("reading times of CPUs", &error))?.unwrap_or_default();
            for (cpu, kinds) in &mut all {
                // A CPU that this machine cannot have spends nothing.
                let counts =
                    values.get(usize::from(*cpu)).and_then(|octets| Counts::read_from_prefix(octets).ok());
                kinds.push(counts.map_or_else(Times::default, |(of, _)| {
                    let mut counts = [0; BUCKETS];
                    counts.copy_from_slice(&of.counts[..BUCKETS]);
                    Times { counts, sum_ns: of.sum_ns }
                }));
            }
        }
        Ok(all)
    }
}

fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>, TraceError> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| invalid("counting times of CPUs", &format!("the object has no map {name}")))
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use super::*;
    use quaver_testbed::privileged::privileged;
    use std::collections::BTreeMap;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    /// What the kernel counts itself: softirqs by their names in `/proc/softirqs`, and interrupts of the local timer.
    fn kernels_counts() -> BTreeMap<(u16, &'static str), u64> {
        let of = |file: &str, name: &'static str, beginning: &str| {
            let text = std::fs::read_to_string(file).unwrap();
            let cpus: Vec<u16> = text
                .lines()
                .next()
                .unwrap()
                .split_whitespace()
                .map(|cpu| cpu[3..].parse().unwrap())
                .collect();
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(beginning));
            let counts = line.unwrap().split_whitespace().map_while(|word| word.parse().ok());
            cpus.into_iter().zip(counts).map(move |(cpu, count)| ((cpu, name), count)).collect::<Vec<_>>()
        };
        [
            of("/proc/softirqs", "net_rx", "NET_RX:"),
            of("/proc/softirqs", "sched", "SCHED:"),
            of("/proc/softirqs", "rcu", "RCU:"),
            of("/proc/interrupts", "local timer", "LOC:"),
        ]
        .concat()
        .into_iter()
        .collect()
    }

    fn counted(times: &CpuTimes, cpu: u16, name: &str) -> u64 {
        let kind = if name == "local timer" { (Family::Interrupt, "timer") } else { (Family::Softirq, name) };
        let kind = KINDS.iter().position(|known| *known == kind).unwrap();
        times[&cpu][kind].counts.iter().sum()
    }

    #[test]
    fn times_are_counted_as_often_as_the_kernel_counts_and_no_cpu_spends_more_than_there_is() {
        if !privileged("times_are_counted_as_often_as_the_kernel_counts_and_no_cpu_spends_more_than_there_is")
        {
            return;
        }
        let online = HostRoot::system().cpu_list("sys/devices/system/cpu/online");
        let (before, start) = (kernels_counts(), Instant::now());
        let counter = TimeCounter::start(&online).unwrap();
        let begun = kernels_counts();
        // Packets over loopback are work of NET_RX.
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        for _ in 0..1_000 {
            sockets[0].send_to(b"x", sockets[1].local_addr().unwrap()).unwrap();
            sockets[1].recv(&mut [0]).unwrap();
        }
        // Time for ticks.
        std::thread::sleep(Duration::from_millis(300));
        let end = kernels_counts();
        let least = |(cpu, name): &(u16, &str)| end[&(*cpu, *name)] - begun[&(*cpu, *name)];
        // The last of a CPU may still run.
        let times = loop {
            let times = counter.read(&online).unwrap();
            if begun.keys().all(|key| counted(&times, key.0, key.1) >= least(key)) {
                break times;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{times:?} in {begun:?} to {end:?}");
        };
        let (wall_ns, after) = (start.elapsed().as_nanos() as u64, kernels_counts());
        let all: u64 = online.iter().map(|cpu| counted(&times, *cpu, "net_rx")).sum();
        assert!(all >= 1_000, "{all}");
        for ((cpu, name), count) in &after {
            let most = count - before[&(*cpu, *name)];
            assert!(counted(&times, *cpu, name) <= most, "CPU {cpu}, {name}: {times:?}, at most {most}");
        }
        for (cpu, kinds) in &times {
            let of = |family: Family| {
                KINDS.iter().zip(kinds).filter(move |(kind, _)| kind.0 == family).map(|(_, times)| times)
            };
            let sum_ns: u64 =
                of(Family::Softirq).chain(of(Family::Interrupt)).map(|times| times.sum_ns).sum();
            assert!((1..=wall_ns).contains(&sum_ns), "CPU {cpu}: {sum_ns} ns of {wall_ns} ns");
            for times in kinds {
                let least: u64 = times
                    .counts
                    .iter()
                    .enumerate()
                    .skip(1)
                    .map(|(bucket, count)| count * Times::bound_ns(bucket - 1))
                    .sum();
                let most = times.counts[..BUCKETS - 1].iter().enumerate();
                let most: u64 = most.map(|(bucket, count)| count * Times::bound_ns(bucket)).sum();
                assert!(times.sum_ns >= least, "{times:?}: a time is not in its bucket");
                assert!(times.sum_ns <= most || times.counts[BUCKETS - 1] > 0, "{times:?}");
            }
        }
        // Those that are not watched count nothing.
        drop(counter);
        let counter = TimeCounter::start(&online[..1]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let times = counter.read(&online).unwrap();
        assert!(online[1..].iter().all(|cpu| times[cpu].iter().all(|times| *times == Times::default())));
        assert!(times[&online[0]].iter().any(|times| times.sum_ns > 0));
    }
}
