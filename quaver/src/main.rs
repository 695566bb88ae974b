//! Entry point of `quaver`.

fn main() -> std::process::ExitCode {
    quaver::main().into()
}
