//! What can be counted of a source: since boot, and between two looks.

use super::{Item, View, fits};
use crate::catalogue::Sign;
use quaver_host::root::HostRoot;
use quaver_host::stat::Stat;

/// Counters of the kernel at one instant, as their files said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    interrupts: String,
    softirqs: String,
    stat: String,
    vmstat: String,
    softnet: String,
    /// Threads by number: name, and ticks that they have run.
    threads: Vec<(u32, String, u64)>,
    /// Files that hold one counter or list.
    files: Vec<(String, String)>,
}

impl Snapshot {
    /// Reads the counters that the signs need.
    pub fn take(view: &View<'_>, signs: &[&Sign]) -> Self {
        let root = view.root();
        let text = |path: &str| root.text(path).unwrap_or_default();
        let mut files = Vec::new();
        for sign in signs {
            if let Sign::Count { path } | Sign::Lines { path, .. } = sign {
                files.extend(view.expanded(path).into_iter().map(|(path, _)| {
                    let said = text(&path);
                    (path, said)
                }));
            }
        }
        Self {
            interrupts: text("/proc/interrupts"),
            softirqs: text("/proc/softirqs"),
            stat: text("/proc/stat"),
            vmstat: text("/proc/vmstat"),
            softnet: text("/proc/thread-self/net/softnet_stat"),
            threads: threads(root),
            files,
        }
    }

    fn file(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_str())
    }
}

fn threads(root: &HostRoot) -> Vec<(u32, String, u64)> {
    let tids = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let thread = |tid| {
        let stat = Stat::read(root, &format!("proc/{tid}"))?;
        Some((tid, stat.name, stat.ran_ticks))
    };
    tids.filter_map(thread).collect()
}

impl View<'_> {
    /// What a sign shows; none where it does not exist here. `later` is a second look, some time after `first`.
    pub(crate) fn sign(&self, sign: &Sign, first: &Snapshot, later: Option<&Snapshot>) -> Option<Item> {
        if let Sign::Process { name } = sign {
            let running = first.threads.iter().filter(|(_, thread, _)| fits(name, thread));
            let tids: Vec<String> = running.map(|(tid, ..)| tid.to_string()).collect();
            return Some(match tids.first() {
                None => Item::good(format!("no {name} runs")),
                Some(tid) => Item::hurts(format!("{name} runs as process {tid}"), Vec::new()),
            });
        }
        let what = self.counted(sign);
        let total = self.count(sign, first)?;
        if let Sign::Lines { .. } = sign {
            let evidence = format!("{total} {what}");
            return Some(if total == 0 { Item::good(evidence) } else { Item::unknown(evidence) });
        }
        let since_boot = match sign {
            Sign::Count { .. } => format!("{total} in {what}"),
            _ => format!("{total} {what} since boot"),
        };
        let Some(grown) =
            later.and_then(|later| self.count(sign, later)).map(|now| now.saturating_sub(total))
        else {
            return Some(if total == 0 { Item::good(since_boot) } else { Item::unknown(since_boot) });
        };
        Some(match (grown, total) {
            (0, 0) => Item::good(since_boot),
            (0, _) => Item::unknown(format!("{since_boot}, none while it was watched")),
            _ => Item::hurts(format!("{since_boot}, {grown} more while it was watched"), Vec::new()),
        })
    }

    fn counted(&self, sign: &Sign) -> String {
        let cpus = super::cpu_list(&self.target.cpus);
        match sign {
            Sign::Interrupts { row } => format!("interrupts {row} on CPU {cpus}"),
            Sign::DeviceInterrupts { name } => format!("interrupts of {name} on CPU {cpus}"),
            Sign::Softirqs { row } => format!("softirqs {row} on CPU {cpus}"),
            Sign::Vmstat { key } => key.clone(),
            Sign::Softnet { column: 3 } => format!("times out of budget on CPU {cpus}"),
            Sign::Softnet { column: 10 } => format!("packets handed over to CPU {cpus}"),
            Sign::Softnet { column } => format!("(column {column} of softnet_stat) on CPU {cpus}"),
            Sign::Steal {} => format!("ticks stolen from CPU {cpus}"),
            Sign::Count { path } => self.filled(path),
            Sign::Lines { path, .. } => format!("entries in {path}"),
            Sign::CpuTime { name } => {
                let cpu = self.target.cpus.first().map(u16::to_string).unwrap_or_default();
                format!("ticks run by {}", name.replace("{cpu}", &cpu))
            }
            Sign::Process { name } => name.clone(),
        }
    }

    fn count(&self, sign: &Sign, at: &Snapshot) -> Option<u64> {
        match sign {
            Sign::Interrupts { row } => {
                let label = format!("{row}:");
                let named = |words: &[&str]| words.first() == Some(&label.as_str());
                self.per_cpu(&at.interrupts, &named)
            }
            Sign::DeviceInterrupts { name } => {
                let named =
                    |words: &[&str]| words.last().is_some_and(|device| device.contains(name.as_str()));
                self.per_cpu(&at.interrupts, &named)
            }
            Sign::Softirqs { row } => {
                let label = format!("{row}:");
                self.per_cpu(&at.softirqs, &|words| words.first() == Some(&label.as_str()))
            }
            Sign::Vmstat { key } => {
                let line =
                    at.vmstat.lines().find_map(|line| line.strip_prefix(key.as_str())?.strip_prefix(' '));
                line?.trim().parse().ok()
            }
            Sign::Softnet { column } => self.softnet(&at.softnet, *column),
            Sign::Steal {} => {
                let stolen = |cpu: &u16| {
                    let label = format!("cpu{cpu} ");
                    let line = at.stat.lines().find_map(|line| line.strip_prefix(&label))?;
                    line.split_whitespace().nth(7)?.parse::<u64>().ok()
                };
                self.sum(stolen)
            }
            Sign::Count { path } => {
                let counts: Option<Vec<u64>> =
                    self.expanded(path).iter().map(|(path, _)| at.file(path)?.trim().parse().ok()).collect();
                counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
            }
            Sign::Lines { path, headings } => {
                Some((at.file(path)?.lines().count() as u64).saturating_sub(*headings))
            }
            Sign::CpuTime { name } => {
                let ticks = |cpu: &u16| {
                    let name = name.replace("{cpu}", &cpu.to_string());
                    at.threads.iter().find(|(_, thread, _)| *thread == name).map(|(_, _, ticks)| *ticks)
                };
                self.sum(ticks)
            }
            Sign::Process { .. } => None,
        }
    }

    fn sum(&self, of: impl Fn(&u16) -> Option<u64>) -> Option<u64> {
        self.target.cpus.iter().map(of).sum()
    }

    /// Sum over the receiver's CPUs of the rows that are meant, in a table headed `CPU0 CPU1 ...`.
    fn per_cpu(&self, table: &str, meant: &dyn Fn(&[&str]) -> bool) -> Option<u64> {
        let mut lines = table.lines();
        let headings: Vec<&str> = lines.next()?.split_whitespace().collect();
        let columns: Vec<usize> = self
            .target
            .cpus
            .iter()
            .filter_map(|cpu| headings.iter().position(|heading| *heading == format!("CPU{cpu}")))
            .collect();
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
        let rows: Vec<&Vec<&str>> = rows.iter().filter(|words| meant(words)).collect();
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        let cell = |row: &&Vec<&str>, column: usize| row.get(column + 1)?.parse::<u64>().ok();
        Some(rows.iter().flat_map(|row| columns.iter().filter_map(|&column| cell(row, column))).sum())
    }

    /// A column (from 1) over the rows of the receiver's CPUs. The thirteenth column, where there is one, is the CPU.
    fn softnet(&self, table: &str, column: usize) -> Option<u64> {
        let mut found = None;
        for (index, line) in table.lines().enumerate() {
            let words: Vec<u64> =
                line.split(' ').filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
            let cpu = words.get(12).copied().unwrap_or(index as u64);
            if self.target.cpus.iter().any(|&wanted| u64::from(wanted) == cpu) {
                found = Some(found.unwrap_or(0) + words.get(column - 1)?);
            }
        }
        found
    }
}
