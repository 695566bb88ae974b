//! The kernel's own tracer of what keeps threads from running (osnoise, Documentation/trace/osnoise-tracer.rst), beside a loop of
//! ours: its own workload is left out, so that it tells what befalls whatever runs on the CPU. Needs a kernel with
//! CONFIG_OSNOISE_TRACER, such as Debian's real-time one.

use quaver_host::trace::TraceError;
use quaver_host::tracefs::instance::Instance;
use quaver_host::tracefs::open_tracefs;
use quaver_host::tracefs::root::refused;

/// Kilobytes of memory for what is recorded of each CPU: some fifty thousand events.
const MEMORY_KB: &str = "4096";

/// What took the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseClass {
    /// A non-maskable interrupt.
    Nmi,
    /// An interrupt, of a device or the processor's own.
    Irq,
    /// A softirq. Kernels with real-time preemption run them in threads.
    Softirq,
    /// A thread.
    Thread,
}

/// Events and their classes (include/trace/events/osnoise.h).
const EVENTS: [(&str, NoiseClass); 4] = [
    ("nmi_noise", NoiseClass::Nmi),
    ("irq_noise", NoiseClass::Irq),
    ("softirq_noise", NoiseClass::Softirq),
    ("thread_noise", NoiseClass::Thread),
];

/// One thing that took the CPU, as the kernel's tracer tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    /// What it was.
    pub class: NoiseClass,
    /// Its name, such as `local_timer`.
    pub name: String,
    /// Vector, or number of the thread; none of a non-maskable interrupt.
    pub number: Option<u32>,
    /// Where.
    pub cpu: u16,
    /// When it had ended, CLOCK_MONOTONIC, to the microsecond.
    pub end_ns: u64,
    /// How long it took, without what interrupted it.
    pub net_ns: u64,
}

/// The tracer at work.
#[derive(Debug)]
pub struct Osnoise {
    instance: Instance,
}

impl Osnoise {
    /// Starts it on one CPU. Which CPUs and that its own workload is left out are settings of the whole machine, which stay.
    ///
    /// # Errors
    /// [`TraceError::NotSupported`] where the kernel has no such tracer.
    pub fn start(cpu: u16) -> Result<Self, TraceError> {
        let (root, _) = open_tracefs()?;
        let tracers = root.read("available_tracers").unwrap_or_default();
        if !tracers.split_whitespace().any(|name| name == "osnoise") {
            return Err(TraceError::NotSupported {
                operation: "starting the kernel's osnoise tracer".to_owned(),
                remedy: "use a kernel with CONFIG_OSNOISE_TRACER, such as Debian's linux-image-rt-amd64"
                    .to_owned(),
            });
        }
        for (file, value) in
            [("osnoise/cpus", cpu.to_string()), ("osnoise/options", "NO_OSNOISE_WORKLOAD".into())]
        {
            root.write(file, &value)
                .map_err(|error| refused(&format!("writing {value} to tracefs {file}"), error))?;
        }
        let instance = Instance::create(&root)?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", MEMORY_KB)?;
        for (event, _) in EVENTS {
            instance.set(&format!("events/osnoise/{event}/enable"), "1")?;
        }
        instance.set("current_tracer", "osnoise")?;
        Ok(Self { instance })
    }

    /// Ends it; all that it saw, on any CPU.
    ///
    /// # Errors
    /// Where what it recorded cannot be read.
    pub fn finish(self) -> Result<Vec<Noise>, TraceError> {
        self.instance.set("tracing_on", "0")?;
        let text = self.instance.dir().read("trace");
        let text = text.map_err(|error| refused("reading what the osnoise tracer recorded", error))?;
        self.instance.set("current_tracer", "nop")?;
        Ok(text.lines().filter_map(parse).collect())
    }
}

/// A line of the trace; none of a comment or another event.
///
/// ```text
///     quaver-noise-87  [002] d.h1.  12.345678: irq_noise: local_timer:236 start 12.345670000 duration 5432 ns
/// ```
fn parse(line: &str) -> Option<Noise> {
    let known = |(event, class): &(&str, NoiseClass)| {
        let (head, rest) = line.split_once(&format!(": {event}: "))?;
        Some((head, rest, *class))
    };
    let (head, rest, class) = EVENTS.iter().find_map(known)?;
    let mut words = head.split_whitespace().rev();
    let (seconds, micros) = words.next()?.split_once('.')?;
    let end_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000;
    let cpu = words.nth(1)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
    let (before, duration) = rest.rsplit_once(" duration ")?;
    let net_ns = duration.strip_suffix(" ns")?.trim().parse().ok()?;
    // What comes before the start is name and number; a non-maskable interrupt has neither.
    let named = before.rsplit_once(" start ").map(|(named, _)| named.trim());
    let (name, number) = named.and_then(|named| named.rsplit_once(':')).unwrap_or_default();
    Some(Noise { class, name: name.to_owned(), number: number.trim().parse().ok(), cpu, end_ns, net_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_noise_is_read_and_nothing_else() {
        let text = "# tracer: osnoise\n\
            #\n\
            \x20    quaver-noise-87  [002] d.h1.    12.345678: irq_noise: local_timer:236 start 12.345670000 duration 5432 ns\n\
            \x20         <idle>-0    [001] ..s..    12.345700: softirq_noise:    TIMER:1 start 12.345690000 duration 900 ns\n\
            \x20quav: a [1] b-88    [002] d....    13.000001: thread_noise: kworker/2:1:61 start 12.999000000 duration 50001 ns\n\
            \x20    quaver-noise-87  [002] d.Z..    13.100000: nmi_noise: start 13.099000000 duration 77 ns\n\
            \x20    quaver-noise-87  [002] .....    13.100000: sched_switch: prev_comm=a start 1 duration 2 ns\n";
        let found: Vec<Noise> = text.lines().filter_map(parse).collect();
        let of = |class, name: &str, number, cpu, end_ns, net_ns| Noise {
            class,
            name: name.to_owned(),
            number,
            cpu,
            end_ns,
            net_ns,
        };
        assert_eq!(
            found,
            [
                of(NoiseClass::Irq, "local_timer", Some(236), 2, 12_345_678_000, 5_432),
                of(NoiseClass::Softirq, "TIMER", Some(1), 1, 12_345_700_000, 900),
                of(NoiseClass::Thread, "kworker/2:1", Some(61), 2, 13_000_001_000, 50_001),
                of(NoiseClass::Nmi, "", None, 2, 13_100_000_000, 77),
            ]
        );
    }
}
