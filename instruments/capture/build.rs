//! Compiles the BPF programs where the feature `bpf` asks for them.

fn main() {
    #[cfg(feature = "bpf")]
    quaver_bpf_build::compile(&[
        "capture",
        "capture_cycles",
        "capture_device",
        "capture_raw",
        "capture_cost",
    ]);
}
