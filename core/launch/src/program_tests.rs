use super::*;
use std::process::Command;

/// Compiles a program with the system's C compiler.
fn compiled(place: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = place.join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let target = place.join(name);
    let ended = Command::new("cc").arg("-o").arg(&target).arg(&source).args(flags).status();
    assert!(ended.expect("a C compiler, as the BPF programs need one too").success());
    target
}

#[test]
fn a_plain_program_has_no_obstacle_and_a_static_one_has() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(inspect(&compiled(place.path(), "plain", &[]), None).obstacles, []);
    let fixed = compiled(place.path(), "fixed", &["-static"]);
    assert_eq!(inspect(&fixed, None).obstacles, [Obstacle::Static]);
}

#[test]
fn a_program_for_musl_is_known_by_its_loader() {
    let place = tempfile::tempdir().unwrap();
    let musl = compiled(place.path(), "musl", &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]);
    let found = inspect(&musl, None).obstacles;
    assert_eq!(found, [Obstacle::Musl]);
    assert!(found[0].forbids_preload() && found[0].keeps_out());
}

#[test]
fn a_test_of_ours_is_known_as_rust() {
    let own = std::env::current_exe().unwrap();
    let found = inspect(&own, None).obstacles;
    assert!(found.contains(&Obstacle::RustStd), "{found:?}");
    assert!(!Obstacle::RustStd.keeps_out());
}

#[test]
fn a_program_in_go_is_known_by_its_section() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("go.c");
    let section =
        "__attribute__((section(\".go.buildinfo\"))) int mark = 1;\nint main(void) { return mark; }\n";
    std::fs::write(&source, section).unwrap();
    let target = place.path().join("go");
    assert!(Command::new("cc").arg("-o").arg(&target).arg(&source).status().unwrap().success());
    assert_eq!(inspect(&target, None).obstacles, [Obstacle::Go]);
}

#[test]
fn a_script_is_what_its_interpreter_is() {
    let place = tempfile::tempdir().unwrap();
    let fixed = compiled(place.path(), "fixed", &["-static"]);
    let script = place.path().join("script");
    std::fs::write(&script, format!("#!{} -x\nwords\n", fixed.display())).unwrap();
    let found = inspect(&script, None);
    assert_eq!((found.interpreter, found.obstacles), (Some(fixed.clone()), vec![Obstacle::Static]));
    let through = place.path().join("through");
    std::fs::write(&through, "#!/usr/bin/env -S A=1 fixed\n").unwrap();
    assert_eq!(inspect(&through, Some(place.path().as_os_str())).interpreter, Some(fixed));
}

#[test]
fn a_program_is_found_as_the_shell_finds_it() {
    let place = tempfile::tempdir().unwrap();
    let search = Some(place.path().as_os_str());
    assert_eq!(find(OsStr::new("prog"), search), None);
    std::fs::write(place.path().join("prog"), "").unwrap();
    assert_eq!(find(OsStr::new("prog"), search), None, "it may not be run");
    compiled(place.path(), "prog", &[]);
    assert_eq!(find(OsStr::new("prog"), search), Some(place.path().join("prog")));
    assert_eq!(find(OsStr::new("./prog"), search), Some(PathBuf::from("./prog")));
}

#[test]
fn what_is_no_program_has_no_obstacle() {
    let place = tempfile::tempdir().unwrap();
    let text = place.path().join("text");
    std::fs::write(&text, "words").unwrap();
    assert_eq!(inspect(&text, None).obstacles, []);
    assert_eq!(inspect(Path::new("/nowhere"), None).obstacles, []);
}
