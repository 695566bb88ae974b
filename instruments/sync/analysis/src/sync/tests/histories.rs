//! What holds of any history, however torn.

use super::scene::{at_ns, conserves};
use crate::sync::{AnyEvent, KernelEvent, KernelKind, KernelReason, Protocol, Settings, SyncEvent, ThreadId};
use proptest::prelude::*;
use quaver_abi::record::OffCpu;
use quaver_abi::sync::{SyncKind, SyncOutcome};

pub(in crate::sync) fn sync_events() -> impl Strategy<Value = AnyEvent> {
    (0u64..2_000, 0u32..6, 0usize..29, 0u64..3, 0u16..3, 0u8..9, 0u32..4, 0u8..8).prop_map(
        |(at, thread, kind, object, cpu, outcome, detail, flags)| {
            AnyEvent::Sync(SyncEvent {
                at_ns: at * 1_000,
                object: 0x1000 + object,
                call_site: object,
                thread: ThreadId(thread + 1),
                detail,
                cpu,
                process: u16::from(thread == 5),
                kind: SyncKind::ALL[kind % SyncKind::ALL.len()],
                outcome: SyncOutcome::from_raw(if outcome < 6 { 0 } else { outcome - 5 }),
                flags: flags << 5,
            })
        },
    )
}

pub(in crate::sync) fn kernel_events() -> impl Strategy<Value = AnyEvent> {
    (0u64..2_000, 0u16..3, 0usize..18, 0u32..8, 0u32..8, 0u16..3).prop_map(
        |(at, cpu, kind, one, other, third)| {
            let (thread, next) = (ThreadId(one), ThreadId(other));
            let reasons =
                [KernelReason::Futex, KernelReason::Timer, KernelReason::Interrupt, KernelReason::SystemCall];
            let kind = match kind {
                0 => KernelKind::Enter { thread, reason: reasons[other as usize % 4] },
                1 => KernelKind::Exit { thread },
                2..=4 => KernelKind::Switch {
                    prev: thread,
                    next,
                    prev_state: if one == 5 { OffCpu::Throttled } else { OffCpu::from_raw(third as u8) },
                    priorities: (one % 2 == 0).then_some((one as i16, other as i16)),
                },
                5 => {
                    KernelKind::Waking { thread, by_current: other % 2 == 0, by: (other > 4).then_some(next) }
                }
                6 | 7 => KernelKind::Wakeup { thread, target_cpu: third },
                8 => KernelKind::Migrate { thread, from: cpu, to: third },
                9 => KernelKind::IrqEnter { timer: other % 2 == 0 },
                10 => KernelKind::IrqExit,
                11 => KernelKind::IdleExit,
                14 | 15 => KernelKind::SoftirqEnter { timer: other % 2 == 0 },
                16 => KernelKind::SoftirqExit,
                17 => KernelKind::SystemCall {
                    thread,
                    blocked_ns: u64::from(other) * 20_000,
                    inside_ns: u64::from(other) * 30_000,
                    number: third,
                    only_waits: one % 4 == 3,
                },
                12 => KernelKind::Slow { duration_ns: u64::from(other) * 30_000, lost_permille: 700 },
                _ => KernelKind::BusDelay { thread, lost_ns: u64::from(other) * 5_000 },
            };
            AnyEvent::Kernel(KernelEvent { at_ns: at * 1_000, cpu, kind })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn pieces_paths_and_books_add_up(
        mut events in prop::collection::vec(prop_oneof![3 => sync_events(), 2 => kernel_events()], 0..160),
        count_all in any::<bool>(),
        entries in prop_oneof![Just(None), (1u32..4).prop_map(Some)],
        sorted in any::<bool>(),
    ) {
        if sorted {
            events.sort_by_key(at_ns);
        }
        let settings = Settings {
            count_all,
            buffer_entries: entries,
            cpus: Some(2),
            shown_waits: usize::MAX,
            listed: usize::MAX / 4,
            ..Settings::default()
        };
        let mut protocol = Protocol::new(settings);
        events.iter().for_each(|event| protocol.any(event));
        let results = protocol.finish();
        conserves(&results);
        let waits: u64 = [0, 2, 4].iter().map(|class| results.classes[*class].late.count).sum();
        prop_assert_eq!(results.longest.len() as u64, waits);
        let of_cores: u64 = results.cores.iter().map(|core| core.late.total_ns).sum();
        prop_assert_eq!(of_cores, results.late.total_ns);
        let other: u64 = results.others.iter().map(|one| one.lost.total_ns).sum();
        let of_cores: u64 = results.cores.iter().map(|core| core.other.total_ns).sum();
        prop_assert_eq!(of_cores, other);
        let by_cause: u64 = results.causes.iter().map(|cause| cause.waits.total_ns).sum();
        let took: u64 = results.longest.iter().map(crate::sync::Wait::took_ns).sum();
        prop_assert_eq!(by_cause, took);
    }

    #[test]
    fn no_time_of_a_thread_is_both_lost_and_waited(
        mut events in prop::collection::vec(prop_oneof![2 => sync_events(), 3 => kernel_events()], 0..160),
        sorted in any::<bool>(),
    ) {
        use KernelKind::{BusDelay, Enter, Slow, SystemCall};
        use SyncKind::{Create, CreateExit, JoinEntry, JoinExit, ThreadStart};
        if sorted {
            events.sort_by_key(at_ns);
        }
        // These say themselves how much was lost, or count from another thread's event on.
        events.retain(|event| match event {
            AnyEvent::Kernel(event) => {
                !matches!(event.kind, BusDelay { .. } | Enter { .. } | Slow { .. } | SystemCall { .. })
            }
            AnyEvent::Sync(event) => {
                !matches!(event.kind, Create | CreateExit | JoinEntry | JoinExit | ThreadStart)
            }
        });
        let mut protocol = Protocol::new(Settings { listed: usize::MAX / 4, ..Settings::default() });
        events.iter().for_each(|event| protocol.any(event));
        for thread in protocol.finish().threads {
            let lived_ns = thread.last_ns - thread.first_ns;
            prop_assert!(thread.other.total_ns + thread.waited_ns <= lived_ns, "{:?}", thread);
        }
    }

    #[test]
    fn the_same_events_give_the_same_results(
        events in prop::collection::vec(prop_oneof![3 => sync_events(), 1 => kernel_events()], 0..100),
    ) {
        let run = || {
            let mut protocol = Protocol::new(Settings::default());
            events.iter().for_each(|event| protocol.any(event));
            protocol.finish()
        };
        prop_assert_eq!(run(), run());
    }
}
