//! Epochs of made-up streams of blocks.

use super::*;

/// One thing that a processor does.
enum Does {
    Program,
    /// A block of this number, at 16 times it.
    Block(u32),
    /// One that ends with a return from an interrupt.
    Return(u32),
    Enter(u32, Activity),
    /// The same, and what was to come at this address is held up.
    Interrupt(u32, Activity, u64),
    Change(u32, &'static str),
    Softirqs(u32),
    Reads(u64),
}
use Does::*;

type Seen = (Activity, String, Vec<u32>, Vec<u64>, [bool; 3]);

/// What epochs a stream has.
fn epochs(does: Vec<Does>) -> Vec<Seen> {
    let mut cutter = Cutter::new(1);
    let mut seen = Vec::new();
    for one in does {
        let entry = |activity, interrupted| Some(At::Entry { activity, interrupted });
        let (number, returns, at) = match one {
            Program => {
                seen.extend(cutter.program());
                continue;
            }
            Reads(address) => {
                cutter.access(address, 8, false, Accessing { instruction: 0, changes_memory: false });
                continue;
            }
            Block(number) => (number, false, None),
            Return(number) => (number, true, None),
            Enter(number, activity) => (number, false, entry(activity, 0)),
            Interrupt(number, activity, held_up) => (number, false, entry(activity, held_up)),
            Change(number, task) => (number, false, Some(At::Change { task: task.into() })),
            Softirqs(number) => (number, false, Some(At::Softirqs)),
        };
        seen.extend(cutter.kernel((number, u64::from(number) * 16, 2, returns), at));
    }
    let told = |epoch: KernelEpoch| {
        let blocks: Vec<u32> = epoch.blocks.iter().map(|(number, _)| *number).collect();
        assert_eq!(epoch.instructions, 2 * blocks.len() as u64);
        assert_eq!(epoch.blocks.last().map(|(_, end)| *end as usize), Some(epoch.accesses.len()));
        let addresses = epoch.accesses.iter().map(|access| access.address).collect();
        let about = epoch.about;
        let flags = [about.bottom_half, about.from_idle, about.switched];
        (about.activity, about.task.into(), blocks, addresses, flags)
    };
    seen.into_iter().map(told).collect()
}

const CALL: Activity = Activity::SystemCall(202);

#[test]
fn from_entry_to_exit() {
    let seen = epochs(vec![
        // Nobody knows where the processor was: not taken.
        Block(1),
        Reads(8),
        Program,
        Enter(2, CALL),
        Reads(64),
        Block(3),
        // An interrupt within is part of it.
        Interrupt(4, Activity::Timer, 99),
        Softirqs(5),
        Return(6),
        Block(7),
        Reads(72),
        Reads(800),
        Program,
        Reads(5),
        Program,
        Enter(8, Activity::PageFault),
        Program,
        // An entry that is none of those that are known.
        Block(9),
        Program,
    ]);
    let wanted = [
        (CALL, "", vec![2, 3, 4, 5, 6, 7], vec![64, 72, 800], [true, false, false]),
        (Activity::PageFault, "", vec![8], vec![], [false; 3]),
        (Activity::Other, "", vec![9], vec![], [false; 3]),
    ];
    assert_eq!(seen, wanted.map(|(activity, task, a, b, flags)| (activity, task.to_owned(), a, b, flags)));
}

#[test]
fn changes_of_tasks_cut() {
    let seen = epochs(vec![
        Program,
        Enter(1, CALL),
        Block(2),
        Change(3, "kswapd0"),
        Reads(16),
        Block(4),
        Change(5, "qv-futex"),
        Block(6),
        Change(7, "swapper/1"),
        Block(8),
        Reads(8),
        Change(9, "init"),
        Block(10),
        Program,
    ]);
    let wanted = [
        (CALL, "", vec![1, 2], vec![], [false, false, true]),
        (Activity::KernelThread, "kswapd0", vec![3, 4], vec![16], [false, false, true]),
        (Activity::Resumed, "qv-futex", vec![5, 6], vec![], [false, false, true]),
        (Activity::Resumed, "init", vec![9, 10], vec![], [false; 3]),
    ];
    assert_eq!(seen, wanted.map(|(activity, task, a, b, flags)| (activity, task.to_owned(), a, b, flags)));
}

#[test]
fn interrupts_of_an_idle_processor_end_where_it_goes_on() {
    let idle = 11 * 16;
    let seen = epochs(vec![
        Change(1, "swapper/0"),
        Block(2),
        Interrupt(3, Activity::Timer, idle),
        Softirqs(4),
        // One within it, whose return is not the end; neither is a return to elsewhere.
        Interrupt(5, Activity::Interrupt(34), 7 * 16),
        Return(6),
        Block(7),
        Return(8),
        Block(9),
        Return(10),
        Block(11),
        Block(12),
        // One that ends by a change.
        Interrupt(13, Activity::Call, 14 * 16),
        Change(15, "qv-a"),
        Program,
        Block(16),
        Program,
    ]);
    let wanted = [
        (Activity::Timer, "swapper/0", vec![3, 4, 5, 6, 7, 8, 9, 10], vec![], [true, true, false]),
        (Activity::Call, "swapper/0", vec![13], vec![], [false, true, true]),
        (Activity::Resumed, "qv-a", vec![15], vec![], [false; 3]),
        (Activity::Other, "qv-a", vec![16], vec![], [false; 3]),
    ];
    assert_eq!(seen, wanted.map(|(activity, task, a, b, flags)| (activity, task.to_owned(), a, b, flags)));
}

#[test]
fn what_goes_on_for_too_long_is_cut() {
    let mut cutter = Cutter::new(0);
    assert!(cutter.program().is_none());
    let timer = At::Entry { activity: Activity::Timer, interrupted: 0 };
    assert!(cutter.kernel((0, 0, 1, false), Some(timer)).is_none());
    (0..MOST_BLOCKS).for_each(|_| assert!(cutter.kernel((1, 16, 1, false), None).is_none()));
    cutter.access(8, 8, true, Accessing { instruction: 0, changes_memory: false });
    let epoch = cutter.program().unwrap();
    assert!(epoch.about.cut && epoch.accesses.is_empty());
    assert_eq!((epoch.blocks.len(), epoch.instructions), (MOST_BLOCKS, MOST_BLOCKS as u64));
    // Its memory is used again, and nothing else of it.
    cutter.spare(epoch);
    assert!(cutter.kernel((5, 80, 3, false), None).is_none());
    let next = cutter.program().unwrap();
    assert_eq!((next.blocks, next.instructions, next.about.cut), (vec![(5, 0)], 3, false));
}
