//! Serves one session: how the peer begins tells whether it speaks the extension or Jitlat as its document has it.

use super::break_off::Break;
use super::door::party;
use super::session::Session;
use super::turns::Entry;
use super::{Shared, extended, legacy};
use crate::control::{Control, Incoming};
use crate::event::ServerEvent;
use crate::owamp::{self, Dialect, Host, Place, Refused};
use quaver_abi::wire::extension::{Kind, Refusal};
use quaver_abi::wire::jitlat::{Command, Workorder};
use quaver_abi::wire::owamp::accept;
use quaver_clock::realtime_ns;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;

/// Runs a session to its end.
pub(super) fn run(shared: &Shared, control: Control, test_port: u16, events: &Sender<ServerEvent>) {
    let mut session = Session::new(shared, control, test_port, events);
    let outcome = serve(&mut session);
    session.end(outcome);
}

fn serve(session: &mut Session<'_>) -> Result<(), Break> {
    loop {
        match session.hear()? {
            // With a key nothing is answered to who cannot show it, not even the time.
            Incoming::Workorder(_) if session.shared.options.key.is_some() => {
                let sentence = "speaks Jitlat as its document has it, which cannot bear the key";
                return Err(Break::No((Refusal::Unsupported, sentence.into())));
            }
            Incoming::Workorder(workorder) => match workorder.command {
                Command::RttProbe => answer_probe(session, workorder)?,
                Command::SendMe | Command::Sending => return legacy::serve(session, workorder),
                other => return Err(Break::Hostile(format!("began with {}", other.name()))),
            },
            Incoming::Message(message) if message.kind() == Kind::Hello && session.probes == 0 => {
                session.extended = true;
                return extended::serve(session, &message);
            }
            Incoming::Message(message) => {
                return Err(Break::Hostile(format!("began with {}", message.kind().name())));
            }
        }
    }
}

/// Answers a round-trip probe (Jitlat, annex A.2).
fn answer_probe(session: &mut Session<'_>, mut workorder: Workorder) -> Result<(), Break> {
    workorder.set_t2_ns(realtime_ns());
    session.count_probe()?;
    Ok(session.control.say_workorder(&workorder, session.silence())?)
}

/// Serves a connection of OWAMP-Control or TWAMP-Control to its end, under the same budget.
pub(super) fn run_other(
    shared: &Shared,
    socket: TcpStream,
    peer: SocketAddr,
    dialect: Dialect,
    events: &Sender<ServerEvent>,
) {
    let refuse = |accept, sentence: &str| Err(Refused { accept, sentence: sentence.to_owned() });
    let admit = |demand| match shared.turns.enter(party(peer.ip()), demand, false) {
        Entry::Now(turn) => Ok(Box::new(turn) as Place),
        Entry::TooMuch => refuse(accept::PERMANENT_LIMIT, "needs more than one peer's share of the budget"),
        Entry::Enough => refuse(accept::TEMPORARY_LIMIT, "its host has as many tests as it may"),
        Entry::Wait(_) | Entry::Full => refuse(accept::TEMPORARY_LIMIT, "other tests are under way"),
    };
    let tell = |event| {
        // The log lives as long as the server.
        let _ = events.send(event);
        shared.wake();
    };
    let host = Host { options: &shared.options, stop: &shared.stop, admit: &admit, tell: &tell };
    owamp::run(&host, socket, peer, dialect);
}
