//! Compiles the BPF programs where the feature `bpf` asks for them.

fn main() {
    #[cfg(feature = "bpf")]
    quaver_bpf_build::compile(&["cpus", "waits"]);
}
