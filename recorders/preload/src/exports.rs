//! The symbols that take the place of the thread library's. Each passes on, as its last argument, where it was called from
//! ([`crate::stack::Caller`]), and jumps: no frame of ours lies between the program and the hook.

#[cfg(target_env = "gnu")]
use crate::hooks::c11;
use crate::hooks::{barrier, condition, futex, init, mutex, process, read_write, semaphore, spin, thread};
use std::arch::naked_asm;

/// Puts the caller into the registers of the next two arguments and goes on to the hook: where the return address lies, and the frame
/// pointer.
#[cfg(target_arch = "x86_64")]
macro_rules! pass_on {
    (1, $hook:path) => { naked_asm!("mov rsi, rsp", "mov rdx, rbp", "jmp {}", sym $hook) };
    (2, $hook:path) => { naked_asm!("mov rdx, rsp", "mov rcx, rbp", "jmp {}", sym $hook) };
    (3, $hook:path) => { naked_asm!("mov rcx, rsp", "mov r8, rbp", "jmp {}", sym $hook) };
    (4, $hook:path) => { naked_asm!("mov r8, rsp", "mov r9, rbp", "jmp {}", sym $hook) };
    (5, $hook:path) => { naked_asm!("jmp {}", sym $hook) };
}

/// Puts the caller into the registers of the next two arguments and goes on to the hook: the return address and the frame pointer.
#[cfg(target_arch = "aarch64")]
macro_rules! pass_on {
    (1, $hook:path) => { naked_asm!("mov x1, x30", "mov x2, x29", "b {}", sym $hook) };
    (2, $hook:path) => { naked_asm!("mov x2, x30", "mov x3, x29", "b {}", sym $hook) };
    (3, $hook:path) => { naked_asm!("mov x3, x30", "mov x4, x29", "b {}", sym $hook) };
    (4, $hook:path) => { naked_asm!("mov x4, x30", "mov x5, x29", "b {}", sym $hook) };
    (5, $hook:path) => { naked_asm!("b {}", sym $hook) };
}

/// Symbol, number of its arguments, hook. Of five arguments nothing is passed on beside them.
macro_rules! export {
    ($($name:ident $arguments:tt => $hook:path;)*) => { $(
        /// Takes the place of the C library's function of this name.
        ///
        /// # Safety
        /// As of that function.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            pass_on!($arguments, $hook)
        }
    )* };
}

export! {
    pthread_mutex_lock 1 => mutex::lock;
    pthread_mutex_trylock 1 => mutex::trylock;
    pthread_mutex_timedlock 2 => mutex::timedlock;
    pthread_mutex_clocklock 3 => mutex::clocklock;
    pthread_mutex_unlock 1 => mutex::unlock;
    pthread_mutex_init 2 => init::mutex;
    pthread_cond_init 2 => init::condition;
    pthread_rwlock_init 2 => init::read_write;
    pthread_spin_init 2 => init::spin;
    pthread_cond_wait 2 => condition::wait;
    pthread_cond_timedwait 3 => condition::timedwait;
    pthread_cond_clockwait 4 => condition::clockwait;
    pthread_cond_signal 1 => condition::signal;
    pthread_cond_broadcast 1 => condition::broadcast;
    pthread_rwlock_rdlock 1 => read_write::rdlock;
    pthread_rwlock_tryrdlock 1 => read_write::tryrdlock;
    pthread_rwlock_timedrdlock 2 => read_write::timedrdlock;
    pthread_rwlock_clockrdlock 3 => read_write::clockrdlock;
    pthread_rwlock_wrlock 1 => read_write::wrlock;
    pthread_rwlock_trywrlock 1 => read_write::trywrlock;
    pthread_rwlock_timedwrlock 2 => read_write::timedwrlock;
    pthread_rwlock_clockwrlock 3 => read_write::clockwrlock;
    pthread_rwlock_unlock 1 => read_write::unlock;
    pthread_barrier_wait 1 => barrier::wait;
    pthread_barrier_init 3 => barrier::init;
    pthread_spin_lock 1 => spin::lock;
    pthread_spin_trylock 1 => spin::trylock;
    pthread_spin_unlock 1 => spin::unlock;
    sem_wait 1 => semaphore::wait;
    sem_trywait 1 => semaphore::trywait;
    sem_timedwait 2 => semaphore::timedwait;
    sem_clockwait 3 => semaphore::clockwait;
    sem_post 1 => semaphore::post;
    sem_init 3 => semaphore::init;
    pthread_create 4 => thread::create;
    pthread_exit 1 => thread::exit;
    pthread_join 2 => thread::join;
    pthread_tryjoin_np 2 => thread::tryjoin;
    pthread_timedjoin_np 3 => thread::timedjoin;
    pthread_clockjoin_np 4 => thread::clockjoin;
    _exit 1 => process::immediate_exit;
    _Exit 1 => process::immediate_exit;
    prctl 5 => process::prctl;
    setrlimit 2 => process::setrlimit;
    prlimit 4 => process::prlimit;
}

// Of musl's, `thrd_create` and `cnd_wait` are no thin covers.
#[cfg(target_env = "gnu")]
export! {
    mtx_init 2 => init::mtx;
    cnd_init 1 => init::cnd;
    mtx_lock 1 => c11::mtx_lock;
    mtx_trylock 1 => c11::mtx_trylock;
    mtx_timedlock 2 => c11::mtx_timedlock;
    mtx_unlock 1 => c11::mtx_unlock;
    cnd_wait 2 => c11::cnd_wait;
    cnd_timedwait 3 => c11::cnd_timedwait;
    cnd_signal 1 => c11::cnd_signal;
    cnd_broadcast 1 => c11::cnd_broadcast;
    thrd_create 3 => c11::thrd_create;
    thrd_join 2 => c11::thrd_join;
    // By these names where files of 2 GiB are spoken of; on machines of 64 bits the same.
    setrlimit64 2 => process::setrlimit;
    prlimit64 4 => process::prlimit;
}

/// Takes the place of the C library's `syscall` for futexes, and passes all else on as it came: a call that
/// returns twice, or on another stack (`vfork`, `clone`), must find no frame of ours.
///
/// # Safety
/// As of that function.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn syscall() {
    naked_asm!(
        "cmp edi, {futex_number}",
        "jne 2f",
        // The seventh argument lies above the return address; the caller, two words, goes above a copy of it.
        "mov rax, rsp",
        "push rbp",
        "push rax",
        "push qword ptr [rax + 8]",
        "call {futex}",
        "add rsp, 24",
        "ret",
        "2:",
        "cmp edi, {seccomp_number}",
        "jne 4f",
        // Its three arguments and the number; with the return address the stack stays aligned.
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "sub rsp, 8",
        "mov edi, esi",
        "call {restricts_itself}",
        "add rsp, 8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "4:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "mov rdi, rax",
        "jmp {failed}",
        futex_number = const libc::SYS_futex,
        seccomp_number = const libc::SYS_seccomp,
        restricts_itself = sym process::restricts_itself,
        futex = sym futex::futex,
        failed = sym futex::failed,
    )
}

/// The same for arm64, where all seven arguments are in registers and the caller is on the stack.
///
/// # Safety
/// As of that function.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn syscall() {
    naked_asm!(
        "cmp x0, #{futex_number}",
        "b.ne 2f",
        "sub sp, sp, #32",
        "stp x30, x29, [sp]",
        "str x30, [sp, #16]",
        "bl {futex}",
        "ldr x30, [sp, #16]",
        "add sp, sp, #32",
        "ret",
        "2:",
        "cmp x0, #{seccomp_number}",
        "b.ne 4f",
        "stp x29, x30, [sp, #-48]!",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "mov x0, x1",
        "bl {restricts_itself}",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #48",
        "4:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.hs 3f",
        "ret",
        "3:",
        "b {failed}",
        futex_number = const libc::SYS_futex,
        seccomp_number = const libc::SYS_seccomp,
        restricts_itself = sym process::restricts_itself,
        futex = sym futex::futex,
        failed = sym futex::failed,
    )
}
