//! Who gets unexplained time: entry and exit, catching up, the displaced reading. Each rule against its twin, which
//! asks each nanosecond by itself.

use crate::attribution::engine::Draft;
use crate::attribution::settling::{
    lend_usual, return_lent, settle_catch_up, settle_displaced, settle_edges,
};
use crate::attribution::{EdgeCap, PacketPosition, Part};
use proptest::prelude::*;

/// What one nanosecond of a window is: its part, its cause, the event behind it, CPU and place.
type Nanosecond = (Part, Option<u32>, u32, u16, PacketPosition);

/// A piece of `length_ns`; cause none is unexplained. Only pieces with a cause have edges.
fn piece(length_ns: i64, cause: Option<u32>, edges: bool, cpu: u16, place: PacketPosition) -> Draft {
    let (part, event) = cause.map_or((Part::Unexplained, u32::MAX), |cause| (Part::Body, cause + 100));
    Draft {
        start_ns: 0,
        end_ns: length_ns,
        cause,
        part,
        place,
        cpu,
        event,
        edges: edges && cause.is_some(),
        shift_ns: 0,
        taken: false,
        inferred: false,
        lent: None,
    }
}

/// The pieces one after the other from 1,000 ns on.
fn window(pieces: impl IntoIterator<Item = Draft>) -> Vec<Draft> {
    let mut at = 1_000;
    let place = |mut draft: Draft| {
        draft.end_ns += at;
        draft.start_ns = at;
        at = draft.end_ns;
        draft
    };
    pieces.into_iter().map(place).collect()
}

/// The window nanosecond by nanosecond; the pieces must follow each other without a gap.
fn spread(drafts: &[Draft]) -> Vec<Nanosecond> {
    let mut out = Vec::new();
    for draft in drafts {
        assert_eq!(draft.start_ns, 1_000 + out.len() as i64, "pieces must follow each other");
        assert!(draft.start_ns < draft.end_ns, "an empty piece");
        let nanosecond = (draft.part, draft.cause, draft.event, draft.cpu, draft.place);
        out.extend((draft.start_ns..draft.end_ns).map(|_| nanosecond));
    }
    out
}

fn edges_twin(drafts: &[Draft], cap: EdgeCap) -> Vec<Nanosecond> {
    let mut out = spread(drafts);
    for (index, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.part == Part::Unexplained) {
        let owner = |index: usize| {
            let other = drafts.get(index)?;
            (other.edges && other.cpu == draft.cpu && other.place == draft.place).then_some((
                Part::EntryExit,
                other.cause,
                other.event,
                other.cpu,
                other.place,
            ))
        };
        for at in draft.start_ns..draft.end_ns {
            let left = index.checked_sub(1).and_then(owner).filter(|_| at - draft.start_ns < cap.exit_ns);
            let right = owner(index + 1).filter(|_| draft.end_ns - at <= cap.entry_ns);
            let nanosecond = &mut out[(at - 1_000) as usize];
            *nanosecond = left.or(right).unwrap_or(*nanosecond);
        }
    }
    out
}

fn catch_up_twin(drafts: &[Draft], cause: u32, budget_ns: i64) -> Vec<Nanosecond> {
    let mut out = spread(drafts);
    let unexplained = out.iter_mut().filter(|nanosecond| nanosecond.0 == Part::Unexplained);
    for nanosecond in unexplained.take(budget_ns as usize) {
        (nanosecond.0, nanosecond.1) = (Part::CatchUp, Some(cause));
    }
    out
}

fn displaced_twin(drafts: &[Draft], cap_ns: i64, first: bool) -> Vec<Nanosecond> {
    let mut out = spread(drafts);
    let is_reading = |n: &Nanosecond| n.0 == Part::Unexplained && n.4 == PacketPosition::Receiver;
    let entry = out.iter().take_while(|n| n.4 != PacketPosition::Receiver).count();
    let begins = entry + out[entry..].iter().take_while(|n| n.1.is_some()).count();
    let found_it_in_time = first && begins > entry;
    let (held, from): (Vec<Nanosecond>, usize) = if found_it_in_time {
        (out[entry..begins].iter().rev().copied().collect(), begins)
    } else {
        let from = out.len() - out.iter().rev().take_while(|n| is_reading(n)).count();
        (out[..from].iter().rev().take_while(|n| n.1.is_some()).copied().collect(), from)
    };
    let count = |n: &Nanosecond| held.iter().filter(|other| other.1 == n.1).count();
    let Some(most) = held.iter().map(count).max() else { return out };
    // Of two with as much time, the later one.
    let Some(&(_, cause, event, ..)) = held.iter().find(|n| count(n) == most) else { return out };
    let cap = if found_it_in_time { cap_ns as usize } else { (cap_ns as usize).min(held.len()) };
    for nanosecond in out[from..].iter_mut().filter(|n| is_reading(n)).take(cap) {
        (nanosecond.0, nanosecond.1, nanosecond.2) = (Part::CatchUp, cause, event);
    }
    out
}

fn any_window() -> impl Strategy<Value = Vec<Draft>> {
    let place = prop_oneof![1 => Just(PacketPosition::Source), 1 => Just(PacketPosition::Stack), 4 => Just(PacketPosition::Receiver)];
    let cause = prop_oneof![3 => Just(None), 2 => (0u32..3).prop_map(Some)];
    let one = (1i64..40, cause, prop::bool::weighted(0.8), prop::bool::weighted(0.2), place);
    prop::collection::vec(one, 0..8).prop_map(|pieces| {
        window(pieces.into_iter().map(|(length, cause, edges, other_cpu, place)| {
            piece(length, cause, edges, u16::from(other_cpu), place)
        }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn entry_and_exit_agree_with_their_twin(drafts in any_window(), entry_ns in 0i64..30, exit_ns in 0i64..30) {
        let cap = EdgeCap { entry_ns, exit_ns };
        let mut settled = drafts.clone();
        settle_edges(&mut settled, cap, &mut Vec::new());
        prop_assert_eq!(spread(&settled), edges_twin(&drafts, cap));
    }

    #[test]
    fn catching_up_agrees_with_its_twin(drafts in any_window(), budget_ns in 0i64..120) {
        let mut settled = drafts.clone();
        settle_catch_up(&mut settled, 9, budget_ns, &mut Vec::new());
        prop_assert_eq!(spread(&settled), catch_up_twin(&drafts, 9, budget_ns));
    }

    #[test]
    fn the_displaced_reading_agrees_with_its_twin(drafts in any_window(), cap_ns in 1i64..60, first: bool) {
        let mut settled = drafts.clone();
        settle_displaced(&mut settled, cap_ns, first);
        prop_assert_eq!(spread(&settled), displaced_twin(&drafts, cap_ns, first));
    }
}

/// Part, cause and length of each piece.
fn lengths(drafts: &[Draft]) -> Vec<(Part, Option<u32>, i64)> {
    drafts.iter().map(|draft| (draft.part, draft.cause, draft.end_ns - draft.start_ns)).collect()
}

#[test]
fn exit_comes_first_and_each_side_has_its_own_cap() {
    let irq = |cause, cpu| piece(50, Some(cause), true, cpu, PacketPosition::Receiver);
    let hole = |length| piece(length, None, false, 1, PacketPosition::Receiver);
    let settled = |pieces: [Draft; 3]| {
        let mut drafts = window(pieces);
        settle_edges(&mut drafts, EdgeCap { entry_ns: 3, exit_ns: 20 }, &mut Vec::new());
        lengths(&drafts)
    };
    let body = |cause| (Part::Body, Some(cause), 50);
    let (exit, entry) = (|ns| (Part::EntryExit, Some(0), ns), |ns| (Part::EntryExit, Some(1), ns));
    let open = |ns| (Part::Unexplained, None, ns);
    assert_eq!(settled([irq(0, 1), hole(100), irq(1, 1)]), [body(0), exit(20), open(77), entry(3), body(1)]);
    assert_eq!(settled([irq(0, 1), hole(22), irq(1, 1)]), [body(0), exit(20), entry(2), body(1)]);
    assert_eq!(settled([irq(0, 1), hole(15), irq(1, 1)]), [body(0), exit(15), body(1)]);
    // An interruption of another CPU has no edge here.
    assert_eq!(settled([irq(0, 2), hole(100), irq(1, 1)]), [body(0), open(97), entry(3), body(1)]);
    assert_eq!(settled([irq(0, 1), hole(100), irq(1, 2)]), [body(0), exit(20), open(80), body(1)]);
}

#[test]
fn the_catch_up_budget_is_used_up_once() {
    let hole = || piece(100, None, false, 1, PacketPosition::Receiver);
    let irq = || piece(50, Some(0), true, 1, PacketPosition::Receiver);
    let mut drafts = window([hole(), irq(), hole(), irq(), hole()]);
    settle_catch_up(&mut drafts, 7, 130, &mut Vec::new());
    let (body, caught, open) =
        ((Part::Body, Some(0), 50), |ns| (Part::CatchUp, Some(7), ns), |ns| (Part::Unexplained, None, ns));
    assert_eq!(lengths(&drafts), [caught(100), body, caught(30), open(70), body, open(100)]);
}

#[test]
fn the_usual_page_faults_next_to_the_reading_are_lent_and_come_back() {
    let fault = |length| piece(length, Some(2), false, 1, PacketPosition::Receiver);
    let other = |length| piece(length, Some(1), true, 1, PacketPosition::Receiver);
    let hole = |length| piece(length, None, false, 1, PacketPosition::Receiver);
    let window = window([fault(40), other(50), hole(10), fault(30), hole(5)]);
    let mut drafts = window.clone();
    lend_usual(&mut drafts, 35, |cause| cause == 2);
    let (body, open) = (|cause, ns| (Part::Body, Some(cause), ns), |ns| (Part::Unexplained, None, ns));
    assert_eq!(lengths(&drafts), [body(2, 35), open(5), body(1, 50), open(10), open(30), open(5)]);
    let mut back = drafts.clone();
    return_lent(&mut back);
    assert_eq!(spread(&back), spread(&window));
    // The reading that the other cause pushed behind itself has them; the rest comes back.
    settle_displaced(&mut drafts, 20, false);
    return_lent(&mut drafts);
    let pushed = |ns| (Part::CatchUp, Some(1), ns);
    assert_eq!(
        lengths(&drafts),
        [body(2, 35), body(2, 5), body(1, 50), pushed(10), pushed(10), body(2, 20), open(5)]
    );
}
