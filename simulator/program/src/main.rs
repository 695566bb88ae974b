//! Entry point of `quaver-sim`, which `quaver sim` runs.

fn main() -> std::process::ExitCode {
    quaver_sim_program::main().into()
}
