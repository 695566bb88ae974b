//! Who has the time of a window that no recorded interval has: an interruption beside it, the cause of a backlog, or the
//! cause that pushed a reading behind itself.

use super::engine::Draft;
use super::{EdgeCap, PacketPosition, Part};

/// Gives untraced time beside an interruption to it: up to the caps after its last and before its first trace
/// point, on its CPU. `scratch` is working memory.
pub(crate) fn settle_edges(drafts: &mut Vec<Draft>, cap: EdgeCap, scratch: &mut Vec<Draft>) {
    scratch.clear();
    for (index, draft) in drafts.iter().enumerate() {
        if draft.part != Part::Unexplained {
            scratch.push(*draft);
            continue;
        }
        let beside = |other: Option<&Draft>| {
            other.filter(|other| other.edges && other.cpu == draft.cpu && other.place == draft.place).copied()
        };
        let left = beside(index.checked_sub(1).and_then(|before| drafts.get(before)));
        let right = beside(drafts.get(index + 1));
        let exit_end =
            if left.is_some() { draft.end_ns.min(draft.start_ns + cap.exit_ns) } else { draft.start_ns };
        let entry_start =
            if right.is_some() { exit_end.max(draft.end_ns - cap.entry_ns) } else { draft.end_ns };
        let mut add = |start_ns: i64, end_ns: i64, owner: Option<Draft>| {
            if start_ns < end_ns {
                scratch.push(match owner {
                    Some(owner) => Draft { start_ns, end_ns, part: Part::EntryExit, ..owner },
                    None => Draft { start_ns, end_ns, ..*draft },
                });
            }
        };
        add(draft.start_ns, exit_end, left);
        add(exit_end, entry_start, None);
        add(entry_start, draft.end_ns, right);
    }
    std::mem::swap(drafts, scratch);
}

/// Gives up to `budget_ns` of the unexplained time of a window, from its start, to the cause behind which the
/// packet had queued up.
pub(crate) fn settle_catch_up(drafts: &mut Vec<Draft>, cause: u32, budget_ns: i64, scratch: &mut Vec<Draft>) {
    scratch.clear();
    let mut left = budget_ns;
    for draft in drafts.iter() {
        if draft.part != Part::Unexplained || left <= 0 {
            scratch.push(*draft);
            continue;
        }
        let end_ns = draft.end_ns.min(draft.start_ns + left);
        left -= end_ns - draft.start_ns;
        scratch.push(Draft { end_ns, cause: Some(cause), part: Part::CatchUp, ..*draft });
        if end_ns < draft.end_ns {
            scratch.push(Draft { start_ns: end_ns, ..*draft });
        }
    }
    std::mem::swap(drafts, scratch);
}

/// Gives up to `cap_ns` of the receiver's unexplained time in a window to what pushed it behind itself. The receiver's part of a
/// window begins when its reading would have ended; what held the receiver up then pushed that reading, which takes its own
/// time, behind itself. Of several causes in a row, it is the one with most time.
///
/// Without such a cause (`first` is false for a packet that queued behind others), the reading at the end of the window belongs
/// to what came right before it. That pushed no more behind itself than it lasted.
pub(crate) fn settle_displaced(drafts: &mut Vec<Draft>, cap_ns: i64, first: bool) {
    let is_reading =
        |draft: &Draft| (draft.part, draft.place) == (Part::Unexplained, PacketPosition::Receiver);
    let entry =
        drafts.iter().position(|draft| draft.place == PacketPosition::Receiver).unwrap_or(drafts.len());
    let begins = drafts[entry..].iter().position(|draft| draft.cause.is_none());
    let begins = begins.map_or(drafts.len(), |none| entry + none);
    let limited = !first || begins == entry;
    let held = if !limited {
        entry..begins
    } else {
        let end = drafts.iter().rposition(|draft| !is_reading(draft)).map_or(0, |last| last + 1);
        drafts[..end].iter().rposition(|draft| draft.cause.is_none()).map_or(0, |none| none + 1)..end
    };
    let from = held.end;
    let held = &drafts[held];
    let time_ns = |cause: Option<u32>| -> i64 {
        held.iter().filter(|draft| draft.cause == cause).map(|draft| draft.end_ns - draft.start_ns).sum()
    };
    let Some(most) = held.iter().max_by_key(|draft| time_ns(draft.cause)) else { return };
    let (cause, event) = (most.cause, most.event);
    let held_ns: i64 = held.iter().map(|draft| draft.end_ns - draft.start_ns).sum();
    let mut left = if limited { cap_ns.min(held_ns) } else { cap_ns };
    let mut index = from;
    while left > 0 && index < drafts.len() {
        let draft = drafts[index];
        if is_reading(&draft) {
            let end_ns = draft.end_ns.min(draft.start_ns.saturating_add(left));
            left -= end_ns - draft.start_ns;
            drafts[index] = Draft { end_ns, cause, part: Part::CatchUp, event, ..draft };
            if end_ns < draft.end_ns {
                drafts.insert(index + 1, Draft { start_ns: end_ns, ..draft });
            }
        }
        index += 1;
    }
}

/// Makes up to `usual_ns` of a window's page faults, the last ones first, part of the reading that follows: unexplained,
/// until [`return_lent`].
pub(crate) fn lend_usual(drafts: &mut Vec<Draft>, usual_ns: i64, is_fault: impl Fn(u32) -> bool) {
    let mut left = usual_ns;
    for index in (0..drafts.len()).rev() {
        let draft = drafts[index];
        if left <= 0 {
            return;
        }
        if !draft.cause.is_some_and(&is_fault) || draft.part != Part::Body {
            continue;
        }
        let start_ns = draft.start_ns.max(draft.end_ns - left);
        left -= draft.end_ns - start_ns;
        drafts[index] = Draft { start_ns, cause: None, part: Part::Unexplained, lent: draft.cause, ..draft };
        if start_ns > draft.start_ns {
            drafts.insert(index, Draft { end_ns: start_ns, ..draft });
        }
    }
}

/// Returns to page faults what no cause took of their time.
pub(crate) fn return_lent(drafts: &mut [Draft]) {
    for draft in drafts.iter_mut().filter(|draft| draft.part == Part::Unexplained && draft.lent.is_some()) {
        (draft.cause, draft.part) = (draft.lent, Part::Body);
    }
}

/// What the packets before have left: the cause that the next one queues behind.
pub(crate) struct Episode {
    /// The cause with most time in the episode so far; none is unexplained.
    pub(crate) lead: Option<u32>,
    /// Time of each cause in the episode, without catching up.
    times_ns: Vec<(Option<u32>, i64)>,
    /// When the last packet was expected.
    expected_ns: i64,
    /// How late it would be without that cause, by the receiver's own time for each packet.
    own_late_ns: i64,
}

impl Episode {
    /// Most catching up in the next packet's window. A receiver that takes longer for each packet than they are apart falls
    /// behind by itself: that part of its time is no catching up.
    pub(crate) fn budget_ns(&mut self, expected_ns: i64, drafts: &[Draft], cap_ns: i64) -> i64 {
        let open = drafts.iter().filter(|draft| draft.part == Part::Unexplained);
        let own_ns = open.map(|draft| draft.end_ns - draft.start_ns).sum::<i64>();
        let apart_ns = expected_ns.saturating_sub(self.expected_ns).max(0);
        self.own_late_ns = self.own_late_ns.saturating_add(own_ns).saturating_sub(apart_ns).max(0);
        cap_ns.min((own_ns - self.own_late_ns).max(0))
    }

    /// The episode with the window of one packet more, or one that begins with it.
    pub(crate) fn next(behind: Option<Self>, drafts: &[Draft], expected_ns: i64) -> Self {
        let begins = behind.is_none();
        let begun = || Self { lead: None, times_ns: Vec::new(), expected_ns, own_late_ns: 0 };
        let mut episode = behind.unwrap_or_else(begun);
        episode.expected_ns = expected_ns;
        for draft in drafts.iter().filter(|draft| begins || draft.part != Part::CatchUp) {
            let time_ns = draft.end_ns - draft.start_ns;
            match episode.times_ns.iter_mut().find(|(cause, _)| *cause == draft.cause) {
                Some((_, sum_ns)) => *sum_ns += time_ns,
                None => episode.times_ns.push((draft.cause, time_ns)),
            }
        }
        let time_of = |lead: Option<u32>| {
            episode.times_ns.iter().find(|(cause, _)| *cause == lead).map_or(0, |(_, time_ns)| *time_ns)
        };
        let mut most_ns = time_of(episode.lead);
        for &(cause, time_ns) in &episode.times_ns {
            if time_ns > most_ns {
                (episode.lead, most_ns) = (cause, time_ns);
            }
        }
        episode
    }
}
