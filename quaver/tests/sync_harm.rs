//! A program under `quaver sync` does what it does without: its output and its status are its own, whatever it is built with, and
//! whoever else stands before the thread library.

mod sync_run;

use quaver_testbed::privileged::{Lack, privileged, skip};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use sync_run::Bench;

/// Two threads take turns; the status is 7.
const TURNS: &str = r#"
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, sum;
static void *play(void *own)
{
	int me = own != 0;
	for (int i = 0; i < 500; i++) {
		pthread_mutex_lock(&lock);
		while (turn != me)
			pthread_cond_wait(&changed, &lock);
		sum++;
		turn = !me;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}
int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, play, &sum);
	play(0);
	pthread_join(other, 0);
	printf("%d\n", sum);
	return 7;
}
"#;

/// Counts calls on their way to the thread library, and says at the end whether there were any. A lock comes from the recorder as a
/// try, and only where that fails as the lock.
const COUNTER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static int waits, locks;
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	int (*real)(pthread_cond_t *, pthread_mutex_t *) = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_cond_wait");
	__atomic_fetch_add(&waits, 1, __ATOMIC_RELAXED);
	return real(condition, mutex);
}
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int (*real)(pthread_mutex_t *) = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	__atomic_fetch_add(&locks, 1, __ATOMIC_RELAXED);
	return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	int (*real)(pthread_mutex_t *) = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	__atomic_fetch_add(&locks, 1, __ATOMIC_RELAXED);
	return real(mutex);
}
__attribute__((destructor)) static void say(void)
{
	if (waits)
		printf("%s\n", locks ? "waits and locks were counted" : "waits were counted");
}
"#;

fn assert_same(what: &str, bare: &Output, recorded: &Output) {
    let told = String::from_utf8_lossy(&recorded.stderr);
    assert_eq!(recorded.status.code(), bare.status.code(), "{what}: {told}");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(recorded), text(bare), "{what}: {told}");
}

/// Runs a program bare and recorded, with these variables, and hands over what both said.
fn both(bench: &Bench, variables: &[(&str, &str)]) -> (Output, Output) {
    let mut bare = Command::new(bench.program());
    let mut recorded = bench.sync(&["-q"]);
    for command in [&mut bare, &mut recorded] {
        command.envs(variables.iter().copied()).current_dir(bench.place());
    }
    (bare.output().expect("it runs"), recorded.output().expect("it runs"))
}

fn assert_unharmed(what: &str, bench: &Bench, variables: &[(&str, &str)], status: i32) -> Output {
    let (bare, recorded) = both(bench, variables);
    assert_eq!(bare.status.code(), Some(status), "{what}: {}", String::from_utf8_lossy(&bare.stderr));
    assert_same(what, &bare, &recorded);
    recorded
}

/// Whether a compiler builds a program with this sanitizer; what is not installed is a skip that is listed.
fn builds(compiler: &str, flag: &str) -> bool {
    let place = tempfile::tempdir().expect("a directory");
    let source = place.path().join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("it can be written");
    let built =
        Command::new(compiler).args([flag, "-o"]).arg(place.path().join("empty")).arg(&source).output();
    built.is_ok_and(|built| built.status.success())
}

#[test]
fn sanitizers_of_gcc_and_clang_find_what_they_find_without_us() {
    for compiler in ["gcc", "clang"] {
        for sanitizer in ["address", "thread", "undefined"] {
            let flag = format!("-fsanitize={sanitizer}");
            let what = format!("{compiler} {flag}");
            if !builds(compiler, &flag) {
                skip(&what, Lack::Installed("libclang-rt-dev"));
                continue;
            }
            let bench = Bench::by(compiler, "turns.c", TURNS, &["-O1", "-g", "-pthread", &flag]);
            let recorded = assert_unharmed(&what, &bench, &[], 7);
            let told = String::from_utf8_lossy(&recorded.stderr).into_owned();
            assert!(!told.contains("Sanitizer"), "{what}: {told}");
            let summary = bench.summary();
            let calls = sync_run::number(&summary, "/results/counts/events");
            assert!(calls > 1000, "{what}: waits and signals are recorded: {calls}");
            // With a fault of its own.
            let faulty = match sanitizer {
                "address" => TURNS.replace("return 7;", "return ((volatile char *)__builtin_malloc(8))[8];"),
                "thread" => TURNS.replace(
                    "pthread_mutex_lock(&lock);\n\t\twhile",
                    "sum++;\n\t\tpthread_mutex_lock(&lock);\n\t\twhile",
                ),
                _ => TURNS.replace("return 7;", "return 7 + ((sum << 30) == 1);"),
            };
            let bench = Bench::by(compiler, "faulty.c", &faulty, &["-O1", "-g", "-pthread", "-w", &flag]);
            let (bare, recorded) = both(&bench, &[]);
            assert_eq!(bare.status.code(), recorded.status.code(), "{what}");
            let found = |output: &Output| {
                let told = String::from_utf8_lossy(&output.stderr);
                ["AddressSanitizer: ", "ThreadSanitizer: data race", "runtime error: "]
                    .map(|part| told.contains(part))
            };
            assert_eq!(found(&bare), found(&recorded), "{what}");
            assert!(found(&bare).contains(&true), "{what}: {}", String::from_utf8_lossy(&bare.stderr));
        }
    }
}

/// What a recorded program starts is under the recorder as well.
#[test]
fn a_shell_starts_programs_with_a_sanitizer() {
    for flag in ["-fsanitize=address", "-fsanitize=thread"] {
        let built = Bench::by("gcc", "turns.c", TURNS, &["-O1", "-g", "-pthread", flag]);
        let words =
            ["sync", "-q", "--", "sh", "-c", "\"$0\"; echo $?", &built.program().display().to_string()];
        let recorded = built.quaver(&words).output().expect("it runs");
        let told = String::from_utf8_lossy(&recorded.stderr);
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), "1000\n7\n", "{flag}: {told}");
    }
}

fn library(place: &Path, name: &str, text: &str) -> PathBuf {
    let (source, library) = (place.join(format!("{name}.c")), place.join(format!("{name}.so")));
    std::fs::write(&source, text).expect("it can be written");
    let built =
        Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
    let built = built.expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

#[test]
fn whoever_else_stands_before_the_thread_library_is_asked() {
    // Behind ours: what the user preloads.
    let bench = Bench::of_text(TURNS, &[]);
    let behind = library(bench.place(), "behind", COUNTER);
    let path = behind.display().to_string();
    let said = assert_unharmed("an interposer behind", &bench, &[("LD_PRELOAD", &path)], 7);
    assert!(String::from_utf8_lossy(&said.stdout).contains("waits and locks were counted"));
    // Before ours: the program itself.
    let whole = format!("{}{}", COUNTER, TURNS.replace("#include <pthread.h>", ""));
    let bench = Bench::of_text(&whole, &["-rdynamic"]);
    let said = assert_unharmed("an interposer before", &bench, &[], 7);
    assert!(String::from_utf8_lossy(&said.stdout).contains("waits and locks were counted"));
    assert!(sync_run::number(&bench.summary(), "/results/counts/events") > 1000);
}

#[test]
fn other_allocators_stay() {
    let bench = Bench::of_text(TURNS, &[]);
    for (file, package) in
        [("libjemalloc.so.2", "libjemalloc2"), ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")]
    {
        let found = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
            .map(|directory| Path::new(directory).join(file))
            .into_iter()
            .find(|path| path.is_file());
        match found {
            None => skip(file, Lack::Installed(package)),
            Some(path) => {
                assert_unharmed(file, &bench, &[("LD_PRELOAD", &path.display().to_string())], 7);
            }
        }
    }
}

/// The filter lets a program compute, wait and write; anything else gets this action.
fn jailed(action: &str) -> String {
    let filter = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static void jail(void)
{
	#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_futex), ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_madvise),
		ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_newfstatat), ALLOW(SYS_fstat), ALLOW(SYS_munmap),
		BPF_STMT(BPF_RET | BPF_K, ACTION),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };
	setvbuf(stdout, 0, _IONBF, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
"#;
    let text = TURNS
        .replace("static pthread_mutex_t", &format!("{filter}static pthread_mutex_t"))
        .replace("\tplay(0);", "\tjail();\n\tplay(0);")
        .replace("i < 500", "i < 50000");
    text.replace("ACTION", action)
}

#[test]
fn a_program_that_jails_itself_stays_alive() {
    for action in ["SECCOMP_RET_ERRNO | 1", "SECCOMP_RET_KILL_PROCESS"] {
        let bench = Bench::of_text(&jailed(action), &[]);
        assert_unharmed(action, &bench, &[], 7);
    }
}

#[test]
fn a_program_with_another_users_rights_runs_as_that_user() {
    if !privileged("a program with another user's rights") {
        return;
    }
    let text = TURNS
        .replace("#include <stdio.h>", "#include <stdio.h>\n#include <unistd.h>")
        .replace("printf(\"%d\\n\", sum)", "printf(\"%d %d\\n\", sum, geteuid())");
    let bench = Bench::of_text(&text, &[]);
    std::os::unix::fs::chown(bench.program(), Some(65534), Some(65534)).expect("root may");
    let rights = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(bench.program(), rights).expect("root may");
    let ended = assert_unharmed("setuid", &bench, &[], 7);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "1000 65534\n");
}

#[test]
fn static_programs_children_and_late_libraries_are_unharmed() {
    assert_unharmed("static", &Bench::of_text(TURNS, &["-static"]), &[], 7);
    let vfork = TURNS
        .replace("#include <stdio.h>", "#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>")
        .replace(
            "\tplay(0);",
            "\tfor (int i = 0; i < 50; i++) {\n\t\tpid_t child = vfork();\n\t\tif (!child)\n\
             \t\t\texecl(\"/bin/true\", \"true\", (char *)0), _exit(1);\n\
             \t\tint status;\n\t\twaitpid(child, &status, 0);\n\t\tif (status)\n\t\t\treturn 1;\n\t}\n\tplay(0);",
        );
    assert_unharmed("vfork", &Bench::of_text(&vfork, &["-w"]), &[], 7);
    let late = "#include <dlfcn.h>\nint main(void)\n{\n\tvoid *library = dlopen(\"./late.so\", RTLD_NOW);\n\
                \tint (*play)(void) = library ? (int (*)(void))dlsym(library, \"all\") : 0;\n\treturn play ? play() : 1;\n}\n";
    let bench = Bench::of_text(late, &["-ldl"]);
    library(bench.place(), "late", &TURNS.replace("int main(void)", "int all(void)"));
    assert_unharmed("dlopen", &bench, &[], 7);
    let many = TURNS
        .replace("pthread_t other;", "pthread_t other, more[200];\n\tfor (int i = 0; i < 200; i++)\n\t\tpthread_create(&more[i], 0, one, 0);")
        .replace("\tplay(0);", "\tplay(0);\n\tfor (int i = 0; i < 200; i++)\n\t\tpthread_join(more[i], 0);")
        .replace("int main", "static int ones;\nstatic void *one(void *unused)\n{\n\tpthread_mutex_lock(&lock);\n\tones++;\n\
                  \tpthread_mutex_unlock(&lock);\n\treturn unused;\n}\nint main")
        .replace("\"%d\\n\", sum", "\"%d %d\\n\", sum, ones");
    let ended = assert_unharmed("200 threads", &Bench::of_text(&many, &[]), &[], 7);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "1000 200\n");
}

/// The recorder's room is addresses that the program does not miss, whether it limits itself or is limited at its start.
#[test]
fn a_limit_on_address_space_leaves_room_for_threads() {
    let text = TURNS
        .replace("#include <stdio.h>", "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/resource.h>\n#include <unistd.h>")
        .replace(
            "\tpthread_t other;",
            "\tpthread_t other;\n\tstruct rlimit limit = { 256 << 20, 256 << 20 };\n\tif (getenv(\"AGAIN\"))\n\t\tunsetenv(\"AGAIN\"), \
             setrlimit(RLIMIT_AS, &limit), execl(\"/proc/self/exe\", \"turns\", (char *)0);\n\
             \tif (setrlimit(RLIMIT_AS, &limit))\n\t\treturn 1;\n",
        )
        .replace("\"%d\\n\", sum", "\"%d %d\\n\", sum, !!malloc(190 << 20)");
    let bench = Bench::of_text(&text, &["-w"]);
    for again in ["", "AGAIN"] {
        let variables: &[(&str, &str)] = if again.is_empty() { &[] } else { &[(again, "1")] };
        let ended = assert_unharmed("a limit on address space", &bench, variables, 7);
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "1000 1\n", "{again}");
        let calls = sync_run::number(&bench.summary(), "/results/counts/events");
        assert!(calls > 1000, "{again}: it is recorded: {calls}");
    }
}

#[test]
fn make_with_many_jobs_builds_what_it_builds() {
    let bench = Bench::of_text(TURNS, &[]);
    let name = bench.program().display().to_string();
    let targets: Vec<String> = (0..24).map(|number| format!("t{number}")).collect();
    let all = targets.join(" ");
    let text =
        format!("all: {all}\n{all}:\n\t@{name} > $@ || test $$? = 7\nfail: all\n\t@cat {all}; exit 3\n");
    std::fs::write(bench.place().join("Makefile"), text).expect("it can be written");
    let place = bench.place().display().to_string();
    let words = ["-s", "-j", "4", "-C", &place, "fail"];
    let bare = Command::new("make").args(words).output().expect("make, as libbpf needs it");
    for target in &targets {
        std::fs::remove_file(bench.place().join(target)).expect("it was made");
    }
    let recorded = bench.quaver(&[&["sync", "-q", "--", "make"], &words[..]].concat()).output();
    let recorded = recorded.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&bare.stdout), "1000\n".repeat(24));
    assert_same("make -j", &bare, &recorded);
}
