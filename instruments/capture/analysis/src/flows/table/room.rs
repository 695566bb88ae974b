//! Who makes way in a full table while a capture goes on: what was not seen for the longest time.
//!
//! Many leave at once, so that looking for them costs little for each packet even where every packet is of another flow.

use super::super::figures::Departed;
use super::super::flow::Flow;
use super::super::{FlowKey, FlowKind};
use super::{Conversation, Ends, FlowTable};

/// Of a full table this part leaves at once.
const LEAVING: usize = 8;
/// A stream with numbers that was seen within this time keeps its place before flows without.
const RECENT_NS: i64 = 10_000_000_000;

impl FlowTable {
    /// Conversations, flows, places of flows, and flows in detail that it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> [usize; 4] {
        [self.conversations.len(), self.flows.len(), self.places.len(), self.detailed.len()]
    }

    /// Whether anything makes way.
    pub(super) fn makes_way(&self) -> bool {
        self.settings.make_way && self.settings.flows > 0
    }

    /// Lets conversations go: first those of which it is not decided what they are, for scans make many of these. Flows
    /// that were found in them stay, and go on when one comes again.
    pub(super) fn dismiss_conversations(&mut self) {
        let rank = |conversation: &Conversation| (conversation.decided, conversation.seen);
        let Some(last) = last_leaving(self.conversations.values().map(rank).collect()) else { return };
        let departed = &mut self.departed;
        self.conversations.retain(|_, conversation| {
            let stays = rank(conversation) > last;
            if !stays && !conversation.first.is_empty() {
                let octets = conversation.first.iter().map(|taken| u64::from(taken.octets)).sum();
                depart(departed, conversation.first.len() as u64, octets);
            }
            stays
        });
    }

    /// Lets flows go; their packets are kept in sum.
    pub(super) fn dismiss_flows(&mut self) {
        let now_ns = self.now_ns;
        let rank = |flow: &Flow| (holds(flow, now_ns), flow.seen());
        let Some(last) = last_leaving(self.flows.iter().map(rank).collect()) else { return };
        let (stay, leave): (Vec<Flow>, Vec<Flow>) =
            std::mem::take(&mut self.flows).into_iter().partition(|flow| rank(flow) > last);
        for flow in &leave {
            depart(&mut self.departed, flow.packets(), flow.octets());
            self.room.packets += flow.kept();
            self.forget_source(flow.key());
        }
        self.flows = stay;
        self.places = self.flows.iter().enumerate().map(|(place, flow)| (*flow.key(), place)).collect();
        self.detailed.retain(|key| self.places.contains_key(key));
        let places = &self.places;
        self.numberings.retain(|key| places.contains_key(key));
    }

    /// A source that comes again is not one more.
    fn forget_source(&mut self, key: &FlowKey) {
        let ends = Ends {
            source: key.source,
            destination: key.destination,
            ports: (key.source_port, key.destination_port),
            protocol: key.protocol,
            tunnel: key.tunnel,
        };
        if key.kind == FlowKind::Rtp
            && (key.restart, key.clock_step) == (0, 0)
            && let Some(conversation) = self.conversations.get_mut(&ends)
        {
            conversation.sources = conversation.sources.saturating_sub(1);
        }
    }

    /// Whether a new flow is seen in detail. Where there is no room for it, that which was not seen for the longest time
    /// keeps its figures as they stand, and is counted only from then on.
    pub(super) fn has_room_for_detail(&mut self, key: &FlowKey) -> bool {
        if self.detailed.len() < self.settings.detailed {
            self.detailed.push(*key);
            return true;
        }
        if !self.makes_way() {
            return false;
        }
        let now_ns = self.now_ns;
        let ranked = self.detailed.iter().enumerate().filter_map(|(at, key)| {
            let place = *self.places.get(key)?;
            let flow = &self.flows[place];
            Some(((holds(flow, now_ns), flow.seen()), at, place))
        });
        let Some(((held, _), at, place)) = ranked.min() else { return false };
        if held && key.kind == FlowKind::Other {
            return false;
        }
        self.flows[place].end_detail(&self.settings, &mut self.room);
        self.detailed[at] = *key;
        true
    }
}

/// Whether a flow keeps its place before those without numbers.
fn holds(flow: &Flow, now_ns: i64) -> bool {
    flow.key().kind != FlowKind::Other && now_ns.saturating_sub(flow.seen_ns()) < RECENT_NS
}

/// Rank of the last that leaves; none if there is nothing.
fn last_leaving<R: Ord + Copy>(mut ranks: Vec<R>) -> Option<R> {
    let leaving = (ranks.len() / LEAVING).max(1);
    if ranks.is_empty() {
        return None;
    }
    Some(*ranks.select_nth_unstable(leaving - 1).1)
}

fn depart(departed: &mut Departed, packets: u64, octets: u64) {
    departed.flows += 1;
    departed.packets += packets;
    departed.octets += octets;
}
