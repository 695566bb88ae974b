//! What a thread gives up before it reads what others wrote: files, programs, the network, capabilities.
//!
//! Everything is given up as far as the kernel knows how (Landlock since 5.13, seccomp since 3.17): an older one runs the same
//! program with less around it. Threads that are started later are confined in the same way; those that run already are not.

mod calls;
mod rights;
#[cfg(test)]
mod tests;

pub use rights::{
    ANSWERS, CAPTURE_WRITER, CONCLUSION, MEASURING, NOTIFIER, OBSERVER, QUERY, READER, Right, S3_QUERY,
    SENDER, SERVER, SYMBOLS, Sockets, WATCH, table,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fmt;
use std::path::Path;

/// What a thread keeps. All else goes.
#[derive(Clone, Copy, Debug)]
pub struct Confinement<'a> {
    /// Files and directories; none where it keeps all of them, as whoever looks into other processes must: Landlock forbids that.
    pub files: Option<Files<'a>>,
    /// What it does with sockets.
    pub network: Network<'a>,
    /// Whether it may use BPF, performance counters and the memory of other processes.
    pub tracing: bool,
    /// Whether it may start programs and end them. They inherit its restrictions.
    pub programs: bool,
    /// Whether a filter refuses the system calls that it has no use for. It costs each call some time.
    pub filter: bool,
    /// Capabilities that it keeps, of those that it has.
    pub capabilities: CapabilitySet,
}

/// Files and directories with all below them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// It reads these.
    pub read: &'a [&'a Path],
    /// It reads, makes, replaces and removes what is here.
    pub write: &'a [&'a Path],
    /// It removes empty directories below these.
    pub emptied: &'a [&'a Path],
}

/// Use of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network<'a> {
    /// It opens none.
    Nothing,
    /// It listens at these TCP ports (0: any) and connects to nobody by TCP. UDP is free.
    Serves(&'a [u16]),
    /// As it likes.
    Free,
}

/// What the kernel enforces from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Files and TCP are those that were named.
    pub landlock: Enforced,
    /// System calls that it has no use for are refused, where that was asked for.
    pub seccomp: bool,
    /// The other capabilities are gone.
    pub capabilities: bool,
}

/// How much of what Landlock was asked for holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// It was not asked for.
    NotAsked,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    Nothing,
    /// What this kernel's version of it can.
    InPart,
    /// All of it.
    Whole,
}

impl Confined {
    /// Whether all that was asked for holds.
    pub fn is_whole(&self) -> bool {
        matches!(self.landlock, Enforced::Whole | Enforced::NotAsked) && self.seccomp && self.capabilities
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = match self.landlock {
            Enforced::NotAsked => "",
            Enforced::Nothing => "Landlock is not in this kernel; ",
            Enforced::InPart => "Landlock holds as far as this kernel has it; ",
            Enforced::Whole => "Landlock holds; ",
        };
        let seccomp = if self.seccomp { "seccomp holds" } else { "seccomp is not to be had here" };
        let capabilities = if self.capabilities {
            "other capabilities are gone"
        } else {
            "capabilities could not be dropped"
        };
        write!(f, "{landlock}{seccomp}; {capabilities}")
    }
}

/// Confines the calling thread and those that it starts later, for good.
pub fn confine(keep: &Confinement<'_>) -> Confined {
    // The order matters: the calls that drop rights are among those that are refused afterwards.
    let capabilities = drop_capabilities(keep.capabilities).is_ok();
    let landlock = match keep.files {
        None => Enforced::NotAsked,
        Some(files) => restrict(&files, keep.network).unwrap_or(Enforced::Nothing),
    };
    Confined { landlock, seccomp: !keep.filter || calls::refuse(keep), capabilities }
}

fn drop_capabilities(keep: CapabilitySet) -> rustix::io::Result<()> {
    let had = rustix::thread::capabilities(None)?;
    rustix::thread::set_no_new_privs(true)?;
    let kept = had.permitted & keep;
    let sets = CapabilitySets {
        effective: had.effective & keep,
        permitted: kept,
        inheritable: kept & had.inheritable,
    };
    rustix::thread::set_capabilities(None, sets)
}

/// The version whose rights are asked for; a kernel with an older one has fewer of them.
const VERSION: ABI = ABI::V6;

fn restrict(files: &Files<'_>, network: Network<'_>) -> Result<Enforced, RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?;
    if network != Network::Free {
        ruleset = ruleset.handle_access(AccessNet::from_all(VERSION))?;
    }
    let mut created = ruleset.scope(Scope::from_all(VERSION))?.create()?;
    if let Network::Serves(ports) = network {
        let allowed =
            ports.iter().map(|port| Ok::<_, RulesetError>(landlock::NetPort::new(*port, AccessNet::BindTcp)));
        created = created.add_rules(allowed)?;
    }
    // Neither reads nor writes are programs to start.
    let read = AccessFs::from_read(VERSION) & !AccessFs::Execute;
    let write = AccessFs::from_all(VERSION) & !AccessFs::Execute;
    let status = created
        .add_rules(path_beneath_rules(files.read, read))?
        .add_rules(path_beneath_rules(files.write, write))?
        .add_rules(path_beneath_rules(files.emptied, AccessFs::RemoveDir))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Whole,
        RulesetStatus::PartiallyEnforced => Enforced::InPart,
        RulesetStatus::NotEnforced => Enforced::Nothing,
    })
}
