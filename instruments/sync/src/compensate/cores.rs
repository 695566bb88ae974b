//! The CPUs' frequencies: what they are set to and have been.

use crate::digest::PolicyFacts;
use quaver_dvfs::dvfs::{OperatingPoint, Table};
use quaver_host::cpufreq::{Policy, Way};
use quaver_host::root::HostRoot;
use quaver_host::settings::journal::Fate;
use quaver_host::settings::{Change, Driven, Journal, JournalPlace, Knob, Session, TuneError};
use std::collections::VecDeque;

/// What a change takes where the driver does not know: the paper's PLL, microseconds.
const UNKNOWN_CHANGE_US: f64 = 10.0;
/// A driver that says that a change takes longer means something else by it (governors' sampling), microseconds.
const LONGEST_CHANGE_US: f64 = 100.0;
/// Frequencies that were are remembered for so long.
const REMEMBERED_NS: u64 = 2_000_000_000;
/// Refused writes in a row after which nothing is set any more.
const MOST_REFUSED: u32 = 16;

/// The frequencies that the controllers choose from, of the first policy; of others the nearest are taken. Lowest is as far below
/// rest as `limit` is above. None where there is none above rest.
pub(super) fn table(policies: &[Policy], limit: f64) -> Option<Table> {
    let policy = policies.first()?;
    let rest_khz = policy.rest_khz(limit);
    let bounds = ((2.0 - limit).max(0.0) - 1e-9, limit + 1e-9);
    let within = |khz: &&u64| (bounds.0..=bounds.1).contains(&(**khz as f64 / rest_khz as f64));
    let steps: Vec<u64> = policy.steps_khz.iter().filter(within).copied().collect();
    let rest = steps.iter().position(|khz| *khz == rest_khz)?;
    // Volts as the factor: what a machine's are, nobody tells.
    let point = |khz: &u64| OperatingPoint {
        frequency_ghz: *khz as f64 / 1e6,
        supply_v: *khz as f64 / rest_khz as f64,
    };
    let change_us = policy.transition_ns.map(|ns| ns as f64 / 1e3).filter(|us| *us <= LONGEST_CHANGE_US);
    let table = Table {
        points: steps.iter().map(point).collect(),
        rest,
        pll_lock_us: change_us.unwrap_or(UNKNOWN_CHANGE_US),
        ramp_us: 0.0,
    };
    (rest < table.highest()).then_some(table)
}

/// One policy as it is set.
#[derive(Debug)]
struct Set {
    facts: PolicyFacts,
    /// By point of the table: place in the steps.
    steps: Vec<usize>,
    /// Place of rest in the steps.
    rest: usize,
    driven: Drives,
    now: usize,
    since_ns: u64,
    /// When it went where, over the last while: time, ratio.
    history: VecDeque<(u64, f64)>,
    held_ns: Vec<u64>,
}

#[derive(Debug)]
enum Drives {
    Speed(Driven),
    /// The lower limit and the upper one.
    Limits(Driven, Driven),
}

impl Set {
    fn ratio(&self, step: usize) -> f64 {
        self.facts.steps_khz[step] as f64 / self.facts.rest_khz as f64
    }

    /// Remembers that the policy is at `step` from now on.
    fn is_at(&mut self, step: usize, now_ns: u64) {
        self.held_ns[self.now] += now_ns.saturating_sub(self.since_ns);
        let moved = step != self.now || self.history.is_empty();
        (self.now, self.since_ns) = (step, now_ns);
        if moved {
            self.history.push_back((now_ns, self.ratio(step)));
        }
        while self.history.get(1).is_some_and(|(at_ns, _)| at_ns + REMEMBERED_NS < now_ns) {
            self.history.pop_front();
        }
    }

    fn write(&self, session: &Session, step: usize) -> Result<(), TuneError> {
        let khz = self.facts.steps_khz[step].to_string();
        match &self.driven {
            Drives::Speed(speed) => session.drive_to(speed, &khz),
            // The kernel takes no lower limit that is above the upper one.
            Drives::Limits(lower, upper) if step > self.now => {
                session.drive_to(upper, &khz).and_then(|()| session.drive_to(lower, &khz))
            }
            Drives::Limits(lower, upper) => {
                session.drive_to(lower, &khz).and_then(|()| session.drive_to(upper, &khz))
            }
        }
    }
}

/// What writing came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    pub(super) count: u64,
    pub(super) refused: u64,
    pub(super) total_ns: u64,
    pub(super) max_ns: u64,
}

/// All policies of the program's CPUs, driven until this is ended or dropped.
#[derive(Debug)]
pub(super) struct Cores {
    session: Option<Session>,
    sets: Vec<Set>,
    refused_in_a_row: u32,
    pub(super) writes: Writes,
    pub(super) recovered: Vec<String>,
    pub(super) broke_off: Option<String>,
    pub(super) not_put_back: Vec<String>,
}

impl Cores {
    /// Takes the policies over and sets them to rest. All is put back where one cannot be taken.
    pub(super) fn take(
        place: &JournalPlace,
        policies: &[Policy],
        table: &Table,
        limit: f64,
        now_ns: u64,
    ) -> Result<Self, TuneError> {
        let mut session = Journal::open(place).session("sync --compensate")?;
        let recovered = session.recovered().iter().map(|one| one.knob.to_string()).collect();
        let mut sets = Vec::new();
        for policy in policies {
            let mut set = begin(&mut session, policy, table, limit, now_ns)?;
            set.write(&session, set.rest)?;
            set.is_at(set.rest, now_ns);
            sets.push(set);
        }
        Ok(Self {
            session: Some(session),
            sets,
            refused_in_a_row: 0,
            writes: Writes::default(),
            recovered,
            broke_off: None,
            not_put_back: Vec::new(),
        })
    }

    /// The policies' facts.
    pub(super) fn facts(&self) -> Vec<PolicyFacts> {
        self.sets.iter().map(|set| set.facts.clone()).collect()
    }

    /// How long each policy was at each of its steps.
    pub(super) fn held_ns(&self) -> Vec<Vec<u64>> {
        self.sets.iter().map(|set| set.held_ns.clone()).collect()
    }

    /// Mean frequency of a CPU between two times over that at rest, and how often it changed.
    pub(super) fn between(&self, cpu: u16, begin_ns: u64, end_ns: u64) -> (f64, u32) {
        let Some(set) = self.sets.iter().find(|set| set.facts.cpus.contains(&cpu)) else { return (1.0, 0) };
        let (mut sum, mut changes, mut to_ns) = (0.0, 0, end_ns);
        for (at_ns, ratio) in set.history.iter().rev() {
            let from_ns = (*at_ns).max(begin_ns);
            if from_ns < to_ns {
                sum += (to_ns - from_ns) as f64 * ratio;
                changes += u32::from(*at_ns > begin_ns);
                to_ns = from_ns;
            }
        }
        // Before all that is remembered it was at rest.
        sum += to_ns.saturating_sub(begin_ns) as f64;
        let length_ns = end_ns.saturating_sub(begin_ns);
        (if length_ns == 0 { 1.0 } else { sum / length_ns as f64 }, changes)
    }

    /// Sets each policy to the highest point that a thread on one of its CPUs wants, or to rest. `wanted` gives (CPU, point).
    /// Whether anything was written.
    pub(super) fn follow(&mut self, wanted: &[(u16, usize)], clock: &dyn Fn() -> u64) -> bool {
        let Some(session) = &self.session else { return false };
        let mut wrote = false;
        for set in &mut self.sets {
            let points = wanted.iter().filter(|(cpu, _)| set.facts.cpus.contains(cpu));
            let step = points.map(|(_, point)| set.steps[*point]).max().unwrap_or(set.rest);
            if step == set.now {
                continue;
            }
            let before_ns = clock();
            let done = set.write(session, step);
            let now_ns = clock();
            let took_ns = now_ns.saturating_sub(before_ns);
            wrote = true;
            self.writes.count += 1;
            self.writes.total_ns += took_ns;
            self.writes.max_ns = self.writes.max_ns.max(took_ns);
            match done {
                Ok(()) => {
                    self.refused_in_a_row = 0;
                    set.is_at(step, now_ns);
                }
                Err(error) => {
                    self.writes.refused += 1;
                    self.refused_in_a_row += 1;
                    if self.refused_in_a_row >= MOST_REFUSED {
                        self.broke_off = Some(error.to_string());
                    }
                }
            }
        }
        if self.broke_off.is_some() {
            self.put_back(clock());
        }
        wrote
    }

    /// Puts all settings back.
    pub(super) fn put_back(&mut self, now_ns: u64) {
        let Some(session) = self.session.take() else { return };
        for set in &mut self.sets {
            set.is_at(set.rest, now_ns);
        }
        match session.revert() {
            Ok(undone) => {
                let left = undone.iter().filter(|one| !one.fate.is_final());
                self.not_put_back = left.map(|one| format!("{}: {}", one.knob, why(&one.fate))).collect();
            }
            Err(error) => self.not_put_back.push(error.to_string()),
        }
    }
}

fn why(fate: &Fate) -> String {
    match fate {
        Fate::Foreign { found, .. } => format!("somebody else set it to {found:?}"),
        Fate::Pending { reason } => reason.clone(),
        _ => String::new(),
    }
}

/// Takes one policy over.
fn begin(
    session: &mut Session,
    policy: &Policy,
    table: &Table,
    limit: f64,
    now_ns: u64,
) -> Result<Set, TuneError> {
    let rest_khz = policy.rest_khz(limit);
    let place = |khz: u64| policy.steps_khz.iter().position(|step| *step == khz).unwrap_or(0);
    let near = |point: usize| place(policy.nearest(table.factor(point) * rest_khz as f64));
    let knob = |name: &str| Knob::file(policy.file(name));
    let driven = match policy.way {
        Way::SetSpeed => {
            session.apply(&Change::new(knob("scaling_governor"), "userspace"))?;
            Drives::Speed(session.drive(&knob("scaling_setspeed"))?)
        }
        Way::Limits => Drives::Limits(
            session.drive(&knob("scaling_min_freq"))?,
            session.drive(&knob("scaling_max_freq"))?,
        ),
    };
    Ok(Set {
        facts: PolicyFacts {
            directory: policy.directory.clone(),
            cpus: policy.cpus.clone(),
            rest_khz,
            steps_khz: policy.steps_khz.clone(),
        },
        steps: (0..table.points.len()).map(near).collect(),
        rest: place(rest_khz),
        driven,
        now: place(rest_khz),
        since_ns: now_ns,
        history: VecDeque::new(),
        held_ns: vec![0; policy.steps_khz.len()],
    })
}

/// Frequencies of the CPUs that the program may run on, from the files of `root`.
pub(super) fn look(root: &HostRoot, cpus: &[u16]) -> anyhow::Result<Vec<Policy>> {
    use quaver_instrument::exit_code::{ExitCode, failure};
    quaver_host::cpufreq::policies(root, cpus).map_err(|error| {
        let message =
            format!("--compensate: {error}; --compensate=dry computes and prints, and sets nothing");
        failure(ExitCode::Unsupported, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::cpufreq::policies;
    use quaver_host::settings::class::ThreadClass;
    use quaver_host::settings::contact::{Contact, Machine};
    use std::io;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";

    /// A machine of files that remembers what was written, in order.
    #[derive(Debug)]
    struct Watched {
        machine: Machine,
        writes: Mutex<Vec<(String, String)>>,
        refuse: Mutex<bool>,
    }

    impl Contact for Watched {
        fn root(&self) -> &HostRoot {
            self.machine.root()
        }

        fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            let text = String::from_utf8_lossy(bytes).trim().to_owned();
            if *self.refuse.lock().unwrap() && text.parse::<u64>().is_ok() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.writes.lock().unwrap().push((name, text));
            self.machine.write_file(path, bytes)
        }

        fn set_directory(&self, path: &str, present: bool) -> io::Result<()> {
            self.machine.set_directory(path, present)
        }

        fn replace_file(&self, path: &str, bytes: Option<&[u8]>) -> io::Result<()> {
            self.machine.replace_file(path, bytes)
        }

        fn set_thread_cpus(&self, tid: u32, cpus: &[u16]) -> io::Result<()> {
            self.machine.set_thread_cpus(tid, cpus)
        }

        fn set_thread_class(&self, tid: u32, class: ThreadClass) -> io::Result<()> {
            self.machine.set_thread_class(tid, class)
        }

        fn ethtool(&self, interface: &str, field: &str) -> io::Result<String> {
            self.machine.ethtool(interface, field)
        }

        fn set_ethtool(&self, interface: &str, field: &str, value: &str) -> io::Result<()> {
            self.machine.set_ethtool(interface, field, value)
        }

        fn unit_active(&self, name: &str) -> io::Result<bool> {
            self.machine.unit_active(name)
        }

        fn set_unit(&self, name: &str, active: bool) -> io::Result<()> {
            self.machine.set_unit(name, active)
        }
    }

    struct Bench {
        folder: tempfile::TempDir,
        watched: Arc<Watched>,
    }

    impl Bench {
        fn new(governors: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = HostRoot::at(folder.path().join("machine"));
            let directory = root.path(POLICY);
            std::fs::create_dir_all(&directory).unwrap();
            for (name, text) in [
                ("affected_cpus", "0 1"),
                ("scaling_driver", "acpi-cpufreq"),
                ("scaling_governor", "schedutil"),
                ("scaling_available_governors", governors),
                ("scaling_available_frequencies", "2000000 2200000 2500000 2800000 3000000"),
                ("scaling_setspeed", "<unsupported>"),
                ("scaling_min_freq", "2000000"),
                ("scaling_max_freq", "3000000"),
                ("cpuinfo_min_freq", "2000000"),
                ("cpuinfo_max_freq", "3000000"),
            ] {
                std::fs::write(directory.join(name), format!("{text}\n")).unwrap();
            }
            let machine = Machine::new(root);
            let watched = Arc::new(Watched { machine, writes: Mutex::default(), refuse: Mutex::default() });
            Self { folder, watched }
        }

        fn place(&self) -> JournalPlace {
            let root = self.watched.root().clone();
            JournalPlace::at(self.folder.path().join("journal"), root).with_contact(self.watched.clone())
        }

        fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
            let listed = std::fs::read_dir(self.watched.root().path(POLICY)).unwrap();
            let path = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().path();
            let mut all: Vec<_> =
                listed.map(path).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
            all.sort();
            all
        }

        fn take(&self, now_ns: u64) -> (Cores, Table) {
            let policies = policies(self.watched.root(), &[0, 1]).unwrap();
            let table = table(&policies, 1.2).unwrap();
            (Cores::take(&self.place(), &policies, &table, 1.2, now_ns).unwrap(), table)
        }

        fn writes(&self) -> Vec<String> {
            let writes = self.watched.writes.lock().unwrap();
            writes.iter().map(|(name, text)| format!("{name}={text}")).collect()
        }
    }

    #[test]
    fn a_speed_is_set_under_its_governor_and_both_come_back_in_turn() {
        let bench = Bench::new("schedutil userspace");
        let before = bench.files();
        let (mut cores, table) = bench.take(1_000);
        let ghz: Vec<f64> = table.points.iter().map(|point| point.frequency_ghz).collect();
        assert_eq!((ghz, table.rest), (vec![2.0, 2.2, 2.5, 2.8, 3.0], 2), "0.8 to 1.2 of 2.5");
        assert!((table.pll_lock_us - 10.0).abs() < 1e-9, "nobody says what a change takes");
        // Two threads on the policy's CPUs: the one that wants more has its way; one elsewhere has no say.
        assert!(cores.follow(&[(0, 3), (1, 4), (7, 0)], &|| 2_000));
        assert!(!cores.follow(&[(0, 4)], &|| 3_000), "it is there already");
        assert!(cores.follow(&[(1, 1)], &|| 4_000));
        assert!(cores.follow(&[], &|| 5_000), "nobody runs: rest");
        let (mean, changes) = cores.between(1, 1_000, 5_000);
        assert!((mean - 1.07).abs() < 1e-12 && changes == 2, "1.0, twice 1.2 and 0.88: {mean} {changes}");
        assert_eq!(cores.between(0, 1_000, 1_500), (1.0, 0));
        assert_eq!(cores.between(9, 0, 10), (1.0, 0));
        cores.put_back(9_000);
        assert_eq!(
            bench.writes(),
            [
                "scaling_governor=userspace",
                "scaling_setspeed=2500000",
                "scaling_setspeed=3000000",
                "scaling_setspeed=2200000",
                "scaling_setspeed=2500000",
                "scaling_setspeed=<unsupported>",
                "scaling_governor=schedutil",
            ]
        );
        assert_eq!(cores.held_ns(), [[0, 1_000, 5_000, 0, 2_000]]);
        assert_eq!((cores.writes.count, cores.writes.refused), (3, 0));
        assert_eq!((bench.files(), cores.not_put_back), (before, vec![]));
    }

    #[test]
    fn limits_are_moved_so_that_the_lower_is_never_above_the_upper() {
        let bench = Bench::new("performance powersave");
        let before = bench.files();
        let (mut cores, _) = bench.take(0);
        assert!(cores.follow(&[(0, 4)], &|| 1));
        assert!(cores.follow(&[(0, 0)], &|| 2));
        drop(cores);
        assert_eq!(
            bench.writes(),
            [
                "scaling_min_freq=2500000",
                "scaling_max_freq=2500000",
                "scaling_max_freq=3000000",
                "scaling_min_freq=3000000",
                "scaling_min_freq=2000000",
                "scaling_max_freq=2000000",
                "scaling_max_freq=3000000",
            ]
        );
        assert_eq!(bench.files(), before, "whoever lets go of them puts them back");
    }

    #[test]
    fn what_the_kernel_refuses_again_and_again_is_given_up_and_put_back() {
        let bench = Bench::new("schedutil userspace");
        let before = bench.files();
        let (mut cores, _) = bench.take(0);
        *bench.watched.refuse.lock().unwrap() = true;
        for at in 0..u64::from(MOST_REFUSED) {
            assert!(cores.follow(&[(0, 4)], &|| at));
        }
        assert!(cores.broke_off.is_some());
        assert!(!cores.follow(&[(0, 4)], &|| 99), "nothing is set any more");
        assert_eq!((cores.writes.refused, cores.between(0, 0, 50)), (u64::from(MOST_REFUSED), (1.0, 0)));
        assert_eq!(bench.files(), before);
    }

    #[test]
    fn a_machine_without_room_above_rest_has_no_table() {
        let bench = Bench::new("schedutil userspace");
        let policies = policies(bench.watched.root(), &[0]).unwrap();
        assert_eq!(table(&policies, 1.0), None);
        assert_eq!(table(&[], 1.2), None);
    }
}
