//! Compiles BPF programs in build scripts.
#![forbid(unsafe_code)]

use libbpf_rs::{Linker, libbpf_sys};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers that the programs of several crates share.
const SHARED_HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/src/bpf/c");

/// Line information would name the folder that this was built in: programs built elsewhere would differ.
const PLACELESS: &str =
    concat!("-ffile-prefix-map=", env!("CARGO_MANIFEST_DIR"), "/../host=/usr/src/quaver/core/host");

/// Compiles `src/bpf/c/<object>.bpf.c` of the calling crate to `<object>.bpf.o` in its `OUT_DIR`. libbpf's headers come
/// with its crate. The loaders find programs by name in tables, so no skeleton is generated.
///
/// Ends the build script with a remedy where a program does not compile.
pub fn compile(objects: &[&str]) {
    println!("cargo:rerun-if-changed=src/bpf/c");
    println!("cargo:rerun-if-changed={SHARED_HEADERS}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for object in objects {
        if let Err(error) = compile_one(&out, object) {
            eprintln!("The BPF programs of {object} do not compile: {error}");
            eprintln!(
                "Install clang, libelf-dev, zlib1g-dev, pkg-config and make, or build without the feature `bpf`."
            );
            std::process::exit(1);
        }
    }
}

fn compile_one(out: &Path, object: &str) -> Result<(), Box<dyn Error>> {
    let headers = out.join("include/bpf");
    std::fs::create_dir_all(&headers)?;
    for (name, text) in libbpf_sys::API_HEADERS {
        std::fs::write(headers.join(name), text)?;
    }
    let architecture = match std::env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "-D__TARGET_ARCH_x86",
        "aarch64" => "-D__TARGET_ARCH_arm64",
        other => return Err(format!("no BPF program is written for {other}").into()),
    };
    let compiled = out.join(format!("{object}.o"));
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-fno-stack-protector", "-Wall", "-Werror"]);
    clang.args([architecture, PLACELESS, "-I", SHARED_HEADERS, "-I"]).arg(out.join("include"));
    let status = clang.arg("-c").arg(format!("src/bpf/c/{object}.bpf.c")).arg("-o").arg(&compiled).status();
    let status = status.map_err(|error| format!("starting clang: {error}"))?;
    if !status.success() {
        return Err(format!("clang ended with {status}").into());
    }
    // Linking leaves the debug information out, which names the folder of the build.
    let mut linker = Linker::new(out.join(format!("{object}.bpf.o")))?;
    linker.add_file(&compiled)?;
    Ok(linker.link()?)
}
