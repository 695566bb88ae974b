//! `quaver sim trace --system`: what the kernel of a guest does, traced in QEMU; and what is in such a library.

mod simulator;
#[allow(dead_code, reason = "of programs to trace only what finds the plugin is needed")]
mod tracing;

use quaver_testbed::privileged::{Lack, skip};
use quaver_trace::block::Block;
use quaver_trace::epochs::{Activity, EpochReader, KernelEpoch};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn quaver(args: &[&str]) -> Output {
    simulator::build_simulator();
    Command::new(env!("CARGO_BIN_EXE_quaver")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Whether there is no QEMU lab, which is told. Continuous integration, which has it, must not skip.
fn is_skipped(name: &str) -> bool {
    let looked = quaver(&["lab", "doctor", "qemu"]);
    if looked.status.success() {
        return false;
    }
    println!("{}", String::from_utf8_lossy(&looked.stdout));
    skip(name, Lack::Installed("the QEMU lab"));
    true
}

fn traced(path: &Path, more: &[&str]) -> Output {
    simulator::build_simulator();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["sim", "trace", "--system", "-o"]).arg(path).args(more);
    command.env("QUAVER_LIBDIR", tracing::libraries()).stdin(Stdio::null()).output().unwrap()
}

type Library = (Vec<Block>, Vec<KernelEpoch>);

fn read(path: &Path) -> Library {
    let library = EpochReader::open(std::fs::read(path).unwrap()).unwrap();
    assert!(!library.cut_short);
    let epochs: Vec<KernelEpoch> = library.epochs().map(Result::unwrap).collect();
    assert_eq!(epochs.len() as u64, library.count());
    (library.dictionary.blocks.clone(), epochs)
}

#[test]
fn the_kernel_of_a_guest_is_traced_epoch_by_epoch() {
    if is_skipped("the_kernel_of_a_guest_is_traced_epoch_by_epoch") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("kernel.qepochs");
    let output = traced(&path, &["--entries", "50M", "--for", "120s", "--cpus", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("million entries a minute"), "{said}");
    let library = read(&path);
    let (blocks, epochs) = &library;
    assert!(epochs.iter().map(|epoch| epoch.instructions).sum::<u64>() >= 50_000_000);
    assert!(blocks.iter().all(Block::in_kernel), "nothing of a program's");
    holds(blocks, epochs, 1);
    its_classes(epochs);
    // Its size is told, and it becomes a smaller one that has the same classes.
    let path = path.to_str().unwrap();
    let info = quaver(&["sim", "trace", "--info", path, "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!((&info["schema"], &info["processors"]), (&"quaver.sim.epochs/1".into(), &1.into()));
    assert_eq!(info["epochs"], epochs.len());
    let small = place.path().join("small.qepochs");
    let thinned =
        quaver(&["sim", "trace", "--thin", path, "--octets", "200k", "-o", small.to_str().unwrap()]);
    assert!(thinned.status.success(), "{}", String::from_utf8_lossy(&thinned.stderr));
    assert!(small.metadata().unwrap().len() <= 200_000);
    let classes = |epochs: &[KernelEpoch]| -> BTreeSet<u8> {
        epochs.iter().map(|epoch| epoch.about.activity.numbers().0).collect()
    };
    assert_eq!(classes(&read(&small).1), classes(epochs));
}

/// What is true of every epoch.
fn holds(blocks: &[Block], epochs: &[KernelEpoch], processors: u32) {
    let mut changed = BTreeSet::new();
    for epoch in epochs {
        assert!(!epoch.blocks.is_empty() && epoch.about.processor < processors, "{:?}", epoch.about);
        // Nobody told the name of the task that a processor ran when recording began.
        if changed.contains(&epoch.about.processor) {
            assert!(!epoch.about.task.is_empty(), "every task has a name: {:?}", epoch.about);
        } else if epoch.about.switched {
            changed.insert(epoch.about.processor);
        }
        let instructions =
            epoch.blocks.iter().map(|(block, _)| blocks[*block as usize].instructions.len() as u64);
        assert_eq!(instructions.sum::<u64>(), epoch.instructions);
        // Only instructions that say so access memory. QEMU translates an access to a device anew and alone without telling that it
        // runs, so that it is told as one of instruction 0 of the block before.
        for (block, accesses) in epoch.steps() {
            for access in accesses.iter().filter(|access| access.instruction > 0) {
                let instruction = &blocks[block as usize].instructions[usize::from(access.instruction)];
                assert!(if access.write { instruction.stores } else { instruction.loads }, "{access:?}");
            }
        }
    }
    // One entry is one block: what begins with it is of one class, but interrupts of devices, which have a vector each.
    let mut first: BTreeMap<u32, BTreeSet<u8>> = BTreeMap::new();
    for epoch in epochs {
        first.entry(epoch.blocks[0].0).or_default().insert(epoch.about.activity.numbers().0);
    }
    let tasks = [Activity::KernelThread, Activity::Resumed].map(|activity| activity.numbers().0);
    for (block, classes) in first {
        let changes = classes.iter().all(|class| tasks.contains(class));
        assert!(classes.len() == 1 || changes, "block {block}: {classes:?}");
    }
}

/// What the guest made its kernel do is there.
fn its_classes(epochs: &[KernelEpoch]) {
    let count = |is: &dyn Fn(&KernelEpoch) -> bool| epochs.iter().filter(|epoch| is(epoch)).count();
    let calls = |number: u32| count(&|epoch| epoch.about.activity == Activity::SystemCall(number));
    // futex, write, sendto, recvfrom, clock_nanosleep of x86-64.
    for number in [202, 1, 44, 45, 230] {
        assert!(calls(number) > 5, "system call {number}: {}", calls(number));
    }
    for activity in [Activity::Timer, Activity::PageFault, Activity::Resumed, Activity::KernelThread] {
        let found = count(&|epoch| epoch.about.activity == activity);
        assert!(found > 5, "{activity:?}: {found}");
    }
    let devices = count(&|epoch| matches!(epoch.about.activity, Activity::Interrupt(_)));
    assert!(devices > 5, "{devices} interrupts of devices");
    assert!(count(&|epoch| epoch.about.bottom_half) > 10, "softirqs");
    let threads: BTreeSet<&str> = epochs
        .iter()
        .filter(|epoch| epoch.about.activity == Activity::KernelThread)
        .map(|epoch| &*epoch.about.task)
        .collect();
    // When kswapd has something to do is the kernel's matter: it is in some libraries of this length and not in others.
    assert!(threads.contains("rcu_preempt") && threads.contains("ksoftirqd/0"), "{threads:?}");
    assert!(threads.iter().all(|thread| !thread.starts_with("qv-") && !thread.starts_with("swapper/")));
    let others = count(&|epoch| epoch.about.activity == Activity::Other);
    assert!(others * 100 < epochs.len(), "{others} of {} epochs are of no known kind", epochs.len());
}

#[test]
fn several_processors_are_told_apart() {
    if is_skipped("several_processors_are_told_apart") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("kernel.qepochs");
    let output = traced(&path, &["--entries", "30M", "--for", "120s", "--cpus", "2", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let (blocks, epochs) = read(&path);
    holds(&blocks, &epochs, 2);
    let by: BTreeSet<u32> = epochs.iter().map(|epoch| epoch.about.processor).collect();
    assert_eq!(by, BTreeSet::from([0, 1]));
    let calls = epochs.iter().filter(|epoch| epoch.about.activity == Activity::Call).count();
    assert!(calls > 0, "one processor wakes the other");
    let others = epochs.iter().filter(|epoch| epoch.about.activity == Activity::Other).count();
    assert!(others * 100 < epochs.len(), "{others} of {} epochs are of no known kind", epochs.len());
}

#[test]
fn what_cannot_be_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("no"), "QEPOCH\r\n\x02\0\0\0\0\0\0\0").unwrap();
    for (args, status, said) in [
        (vec!["--info", &path("no")], 5, "of version 2, and 1 is understood"),
        (vec!["--thin", &path("no"), "-o", &path("small")], 5, "of version 2, and 1 is understood"),
        (vec!["--thin", &path("no")], 2, "--output"),
        (vec!["--entries", "5M"], 2, "--system"),
        (vec!["--system", "--", "/bin/true"], 2, "cannot be used with"),
        (vec!["--system", "--cpus", "17"], 2, "17"),
    ] {
        let output = quaver(&[&["sim", "trace"], &args[..]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {told}");
        assert!(told.contains(said), "{args:?}: {told}");
    }
}
