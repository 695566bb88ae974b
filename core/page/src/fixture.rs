//! A small hand-made run for the tests of the pages.

use super::RunFacts;

pub fn facts() -> RunFacts {
    RunFacts {
        name: "chase-20261120T165800Z-7f3a".into(),
        verb: "chase".into(),
        directory: "runs/chase-20261120T165800Z-7f3a".into(),
        command: "quaver chase --for 10s --period 7.41us".into(),
        started: "2026-11-20T16:58:00Z".into(),
        version: "0.1.0".into(),
        host: "studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)".into(),
        stream: "made here, two network namespaces".into(),
        facts: vec![
            ("clocksource".into(), "tsc".into()),
            ("RT throttling".into(), "950 ms of each 1 s".into()),
        ],
    }
}
