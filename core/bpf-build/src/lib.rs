//! Compiles BPF programs in build scripts.
#![forbid(unsafe_code)]

use std::path::PathBuf;

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
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(format!("src/bpf/c/{object}.bpf.c"))
            .obj(out.join(format!("{object}.bpf.o")))
            .clang_args(["-mcpu=v3", "-Wall", "-Werror", PLACELESS, "-I", SHARED_HEADERS])
            .build();
        if let Err(error) = built {
            eprintln!("The BPF programs of {object} do not compile: {error:#}");
            eprintln!(
                "Install clang, libelf-dev, zlib1g-dev, pkg-config and make, or build without the feature `bpf`."
            );
            std::process::exit(1);
        }
    }
}
