//! Compiles the BPF programs into the build directory where the feature `bpf` asks for them.

fn main() {
    println!("cargo:rerun-if-changed=src/bpf/c");
    #[cfg(feature = "bpf")]
    programs::build();
}

#[cfg(feature = "bpf")]
mod programs {
    use std::path::PathBuf;

    /// Compiles each object; libbpf's headers come with its crate. The programs are found by name in tables of ours, so no
    /// skeleton is generated.
    pub(crate) fn build() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        for object in ["quaver", "capture", "capture_cycles", "capture_device", "sync"] {
            let built = libbpf_cargo::SkeletonBuilder::new()
                .source(format!("src/bpf/c/{object}.bpf.c"))
                .obj(out.join(format!("{object}.bpf.o")))
                .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
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
}
