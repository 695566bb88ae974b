//! The ingress hook of kernels without tcx (before Linux 6.6): a filter at a queueing discipline `clsact`.
//!
//! A filter belongs to no process and stays when its process is killed. So each of ours takes one of sixteen *places* of
//! its interface, which its handle tells, and holds an abstract socket of that name for as long as its process lives. Such
//! a socket belongs to the network namespace, as the interface does, and the kernel closes it whatever ends the process.
//! Whoever comes next removes the filters of ours whose place nobody holds.
//!
//! ```text
//! handle:  16 bits "QV" | 8 bits: 1 if the discipline is ours too | 8 bits place
//! ```

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcHeader, TcMessage, TcOption,
};
use quaver_host::route::RouteSocket;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError};

/// What `tc filter show` calls it.
const NAME: &str = "quaver-capture";
const KIND: &str = "clsact";
/// "QV".
const MARK: u16 = 0x5156;
/// The discipline came with a filter of ours, and goes with the last.
const OURS: u16 = 0x100;
/// Captures that one interface can have at once.
const PLACES: u16 = 16;
/// Filters run by priority; another kind of filter may sit at the first ones.
const PRIORITIES: u32 = 8;
const CLSACT: TcHandle = TcHandle { major: 0xffff, minor: 0 };
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: TcHandle::MIN_INGRESS };
const EGRESS: TcHandle = TcHandle { major: 0xffff, minor: TcHandle::MIN_EGRESS };
/// Somebody who ends may take the discipline away while we come.
const TRIES: usize = 3;

/// A program at the ingress hook, until this is dropped.
#[derive(Debug)]
pub(crate) struct Filter(Arc<Mutex<Option<Hung>>>);

/// What removes a filter at once, while somebody else still holds it.
#[derive(Clone, Debug)]
pub(crate) struct Remover(Arc<Mutex<Option<Hung>>>);

impl Filter {
    /// Removes what killed processes of ours left on the interface, and hangs the program before everybody else's, which
    /// come after it as ever.
    pub(crate) fn hang(program: BorrowedFd<'_>, interface: u32) -> io::Result<Self> {
        let index = i32::try_from(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        let mut hook = Hook { socket: RouteSocket::open()?, index };
        let discipline = hook.clear()?;
        let (place, held) =
            (1..=PLACES).find_map(|place| Some((place, hold(index, place)?))).ok_or_else(|| {
                io::Error::other(format!("{PLACES} captures hold the interface's hook already"))
            })?;
        let mut tries = 0;
        let (header, ours) = loop {
            tries += 1;
            let ours = hook.discipline()? || discipline;
            let handle = TcHandle { major: MARK, minor: place | if ours { OURS } else { 0 } };
            match hook.add(program, handle) {
                Ok(header) => break (header, ours),
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => {}
            }
        };
        Ok(Self(Arc::new(Mutex::new(Some(Hung { hook, header, ours, _held: held })))))
    }

    /// What removes it at once.
    pub(crate) fn remover(&self) -> Remover {
        Remover(Arc::clone(&self.0))
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.remover().now();
    }
}

impl Remover {
    /// Removes the filter, if it is still there.
    pub(crate) fn now(&self) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = place.take().and_then(Hung::remove);
    }
}

/// A filter that is there.
struct Hung {
    hook: Hook,
    /// Where it is.
    header: TcHeader,
    ours: bool,
    /// Says that its process lives.
    _held: UnixDatagram,
}

impl std::fmt::Debug for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hung").field("header", &self.header).field("ours", &self.ours).finish_non_exhaustive()
    }
}

impl Hung {
    /// Removes it, or gives it back to a thread that may: the one that writes packets may not.
    fn remove(mut self) -> Option<Self> {
        // An interface that is gone took the filter along.
        let removed = self.hook.delete(&self.header);
        if removed.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return Some(self);
        }
        if self.ours {
            self.hook.leave();
        }
        None
    }
}

/// An interface's hook, by a socket of the namespace in which it was found.
struct Hook {
    socket: RouteSocket,
    index: i32,
}

impl Hook {
    fn message(&self, parent: TcHandle, handle: TcHandle, info: u32) -> TcMessage {
        TcMessage::from_parts(
            TcHeader { index: self.index, parent, handle, info, ..TcHeader::default() },
            Vec::new(),
        )
    }

    /// Makes the discipline; false where there is one.
    fn discipline(&mut self) -> io::Result<bool> {
        let mut message = self.message(TcHandle::CLSACT, CLSACT, 0);
        message.attributes.push(TcAttribute::Kind(KIND.to_owned()));
        match self.socket.request(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_EXCL)
        {
            Ok(()) => Ok(true),
            // Also where it is an `ingress`, whose hook is the same.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds the filter at the first priority that lets it; where it is.
    fn add(&mut self, program: BorrowedFd<'_>, handle: TcHandle) -> io::Result<TcHeader> {
        let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
        for priority in 1..=PRIORITIES {
            let all = u32::from((libc::ETH_P_ALL as u16).to_be());
            let mut message = self.message(INGRESS, handle, priority << 16 | all);
            message.attributes.push(TcAttribute::Kind(TcFilterBpf::KIND.to_owned()));
            message.attributes.push(TcAttribute::Options(vec![
                TcOption::Bpf(TcFilterBpfOption::ProgFd(program.as_raw_fd().cast_unsigned())),
                TcOption::Bpf(TcFilterBpfOption::ProgName(NAME.to_owned())),
                TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
            ]));
            let header = message.header.clone();
            let request = RouteNetlinkMessage::NewTrafficFilter(message);
            match self.socket.request(request, NLM_F_CREATE | NLM_F_EXCL) {
                Ok(()) => return Ok(header),
                // A filter of another kind, or for one protocol, has this priority.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EEXIST)) => {
                    refused = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Every filter at a side of the discipline.
    fn filters(&mut self, side: TcHandle) -> io::Result<Vec<TcMessage>> {
        let mut found = Vec::new();
        let message = self.message(side, TcHandle::UNSPEC, 0);
        self.socket.exchange(RouteNetlinkMessage::GetTrafficFilter(message), NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewTrafficFilter(filter) = answer {
                found.push(filter);
            }
        })?;
        Ok(found)
    }

    /// Removes filters of ours whose process is gone. Whether one of ours says that the discipline is ours.
    fn clear(&mut self) -> io::Result<bool> {
        let mut ours = false;
        // Without a discipline there is nothing to list.
        let there = self.filters(INGRESS).unwrap_or_default();
        for filter in there.iter().filter(|filter| is_ours(filter)) {
            let handle = filter.header.handle;
            ours |= handle.minor & OURS != 0;
            // Held until it is removed, so that nobody takes the place meanwhile.
            if let Some(_held) = hold(self.index, handle.minor & !OURS) {
                self.delete(&filter.header)?;
            }
        }
        Ok(ours)
    }

    fn delete(&mut self, header: &TcHeader) -> io::Result<()> {
        let kind = vec![TcAttribute::Kind(TcFilterBpf::KIND.to_owned())];
        let message = TcMessage::from_parts(header.clone(), kind);
        self.socket.request(RouteNetlinkMessage::DelTrafficFilter(message), 0)
    }

    /// Removes the discipline, if nobody uses it.
    fn leave(&mut self) {
        let unused = |hook: &mut Self, side| hook.filters(side).is_ok_and(|there| there.is_empty());
        if unused(self, INGRESS) && unused(self, EGRESS) {
            let mut message = self.message(TcHandle::CLSACT, CLSACT, 0);
            message.attributes.push(TcAttribute::Kind(KIND.to_owned()));
            let _ = self.socket.request(RouteNetlinkMessage::DelQueueDiscipline(message), 0);
        }
    }
}

fn is_ours(filter: &TcMessage) -> bool {
    let named = |option: &TcOption| matches!(option, TcOption::Bpf(TcFilterBpfOption::ProgName(name)) if name == NAME);
    filter.header.handle.major == MARK
        && filter
            .attributes
            .iter()
            .any(|attribute| matches!(attribute, TcAttribute::Options(options) if options.iter().any(named)))
}

/// Takes a place of an interface; none while a process holds it.
fn hold(index: i32, place: u16) -> Option<UnixDatagram> {
    let name = format!("{NAME}-{index}-{place}");
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()
}

#[cfg(test)]
mod tests;
