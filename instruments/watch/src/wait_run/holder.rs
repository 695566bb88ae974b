//! What the engine leaves of a wait for a lock while the holder ran: its own work. Since when the holder had the lock is not known, so
//! all of such a wait is inferred.

use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{Certainty, Part, Piece};
use quaver_analysis::summary::{CauseSummary, Remedy, SourceClass, Unexplained};

/// Gives the holder's own work a cause, and puts the causes in order again.
pub(super) fn add_own_work(
    (holder, name): (u32, &str),
    events: &[EventRecord],
    pieces: &mut Vec<Piece>,
    causes: &mut Vec<CauseSummary>,
    unexplained: &mut Unexplained,
) {
    let whole_ns: i64 = pieces.iter().map(|piece| piece.end_ns - piece.start_ns).sum();
    let mut runs: Vec<(i64, i64)> = events
        .iter()
        .filter(|event| event.kind == EventKind::Thread as u8 && event.id == holder)
        .map(|event| (event.start_ns as i64, event.end_ns as i64))
        .collect();
    runs.sort_unstable();
    let own = causes.len() as u32;
    let divided: Vec<Piece> = pieces.iter().flat_map(|piece| divide(piece, &runs, own)).collect();
    let lengths = divided.iter().filter(|piece| piece.cause == Some(own));
    let lengths: Vec<i64> = lengths.map(|piece| piece.end_ns - piece.start_ns).collect();
    let time_ns: i64 = lengths.iter().sum();
    if time_ns == 0 {
        return;
    }
    let share = |ns: i64| ns as f64 / whole_ns as f64;
    causes.push(CauseSummary {
        source: "own-code".to_owned(),
        name: format!("thread {name} ran, and then let go of the lock"),
        class: SourceClass::NetworkIndependent,
        time_ns,
        entry_exit_ns: 0,
        catch_up_ns: 0,
        share: share(time_ns),
        packets: 1,
        intervals: lengths.len() as u64,
        worst_ns: time_ns,
        example_seq: 0,
        remedy: Remedy {
            setting: Some(
                "hold the lock for less time: move work out of it, or divide what it guards".to_owned(),
            ),
            ..Remedy::default()
        },
        threads: Vec::new(),
        functions: Vec::new(),
        inferred_ns: 0,
        stable_name: None,
    });
    unexplained.time_ns -= time_ns;
    unexplained.worst_ns = unexplained.worst_ns.min(unexplained.time_ns);
    unexplained.share = share(unexplained.time_ns);
    let mut order: Vec<usize> = (0..causes.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(causes[*place].time_ns));
    let place = |cause: u32| order.iter().position(|old| *old == cause as usize).map(|place| place as u32);
    *pieces =
        divided.into_iter().map(|piece| Piece { cause: piece.cause.and_then(place), ..piece }).collect();
    *causes = order.iter().map(|old| causes[*old].clone()).collect();
}

/// Nothing that has a cause is certain: it holds as far as the holder had the lock by then.
pub(super) fn infer_all(pieces: &mut [Piece], causes: &mut [CauseSummary]) {
    for piece in pieces.iter_mut().filter(|piece| piece.certainty == Certainty::Certain) {
        piece.certainty = Certainty::Inferred;
    }
    causes.iter_mut().for_each(|cause| {
        cause.inferred_ns = cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns;
    });
}

/// A piece cut along the holder's runs, where it has no cause yet.
fn divide(piece: &Piece, runs: &[(i64, i64)], own: u32) -> Vec<Piece> {
    let mut parts = Vec::new();
    let mut at_ns = piece.start_ns;
    for &(start_ns, end_ns) in runs.iter().filter(|_| piece.cause.is_none()) {
        let (start_ns, end_ns) = (start_ns.max(at_ns), end_ns.min(piece.end_ns));
        if start_ns >= end_ns {
            continue;
        }
        if start_ns > at_ns {
            parts.push(Piece { start_ns: at_ns, end_ns: start_ns, ..*piece });
        }
        let (cause, part, certainty) = (Some(own), Part::Body, Certainty::Inferred);
        parts.push(Piece { start_ns, end_ns, cause, part, certainty, ..*piece });
        at_ns = end_ns;
    }
    if at_ns < piece.end_ns {
        parts.push(Piece { start_ns: at_ns, ..*piece });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::attribution::PacketPosition;

    #[test]
    fn only_what_has_no_cause_and_was_the_holders_becomes_its_work_and_all_time_is_kept() {
        let run = |id, start_ns, end_ns| EventRecord {
            kind: EventKind::Thread as u8,
            id,
            start_ns,
            end_ns,
            ..EventRecord::default()
        };
        let events = [run(7, 40, 100), run(8, 0, 100), run(7, 5, 30)];
        let piece = |start_ns, end_ns, cause: Option<u32>| Piece {
            start_ns,
            end_ns,
            cause,
            part: Part::Unexplained,
            place: PacketPosition::Receiver,
            cpu: 0,
            certainty: if cause.is_some() { Certainty::Certain } else { Certainty::Unknown },
        };
        let mut pieces = vec![piece(0, 50, None), piece(50, 60, Some(0)), piece(60, 90, None)];
        let mut unexplained = Unexplained { time_ns: 80, ..Unexplained::default() };
        let mut causes = Vec::new();
        // The cause of ten nanoseconds in the middle.
        add_own_work(
            (8, "x"),
            &[run(8, 50, 60)],
            &mut vec![piece(50, 60, None)],
            &mut causes,
            &mut Unexplained { time_ns: 10, ..Unexplained::default() },
        );
        causes[0].source = "tick".to_owned();
        add_own_work((7, "holder"), &events, &mut pieces, &mut causes, &mut unexplained);
        let told: Vec<_> = pieces.iter().map(|piece| (piece.start_ns, piece.end_ns, piece.cause)).collect();
        let (own, tick) = (Some(0), Some(1));
        assert_eq!(
            told,
            [(0, 5, None), (5, 30, own), (30, 40, None), (40, 50, own), (50, 60, tick), (60, 90, own)]
        );
        infer_all(&mut pieces, &mut causes);
        assert!(pieces.iter().all(|piece| piece.certainty != Certainty::Certain));
        assert!(causes.iter().all(|cause| cause.inferred_ns == cause.time_ns));
        let told: Vec<_> = causes.iter().map(|cause| (cause.source.as_str(), cause.time_ns)).collect();
        assert_eq!((told, unexplained.time_ns), (vec![("own-code", 65), ("tick", 10)], 15));
    }
}
