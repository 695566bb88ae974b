//! System calls that are refused with EPERM: those by which a taken-over process would go further, and that no reader needs.

use super::{Confinement, Network};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// Other processes, mounts, namespaces, the kernel and its clock.
const ALWAYS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_personality,
    libc::SYS_vhangup,
    libc::SYS_mknodat,
];

/// Of whoever opens no socket.
const SOCKETS: &[i64] = &[libc::SYS_socket];

/// Of whoever does not trace.
const TRACING: &[i64] = &[libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_process_vm_readv];

/// Of whoever starts no program.
const PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// Of whoever starts no program and opens no socket.
const SIGNALS: &[i64] = &[libc::SYS_kill, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal];

/// Refuses them to the calling thread and those that it starts. False where the kernel or the processor has no filters.
pub(super) fn refuse(keep: &Confinement<'_>) -> bool {
    let alone = keep.network == Network::Nothing;
    let parts = [
        (ALWAYS, true),
        (SOCKETS, alone),
        (TRACING, !keep.tracing),
        (PROGRAMS, !keep.programs),
        (SIGNALS, alone && !keep.programs),
    ];
    let numbers = parts.into_iter().filter(|(_, refused)| *refused).flat_map(|(numbers, _)| numbers);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = numbers.map(|number| (*number, Vec::new())).collect();
    // New namespaces have a second way. The C library takes it again by `clone` where there is no `clone3`, whose flags no
    // filter can read.
    let Some(namespaces) = new_namespaces() else { return false };
    rules.insert(libc::SYS_clone, namespaces);
    let refusal = SeccompAction::Errno(libc::EPERM as u32);
    let absence = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let filters = [filter(clone3, absence), filter(rules, refusal)];
    filters
        .iter()
        .all(|filter| filter.as_ref().is_some_and(|filter| seccompiler::apply_filter(filter).is_ok()))
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> Option<BpfProgram> {
    let processor = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, processor).ok()?.try_into().ok()
}

/// Calls of `clone` that make a namespace of any kind.
fn new_namespaces() -> Option<Vec<SeccompRule>> {
    let flags = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let rule = |flag: i32| {
        let with = SeccompCmpOp::MaskedEq(flag as u64);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, with, flag as u64).ok()?;
        SeccompRule::new(vec![condition]).ok()
    };
    flags.into_iter().map(rule).collect()
}
