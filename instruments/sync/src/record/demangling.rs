//! Names of the source for what compilers make of them.

/// `queue::push` for what compilers of Rust and C++ make of that. Parameters are left out.
pub(super) fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let plain = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    // A C name is no C++ type: the variable `m` would be an `unsigned long`.
    let symbol = cpp_demangle::Symbol::new(name).ok().filter(|_| name.starts_with("_Z"));
    symbol.and_then(|symbol| symbol.demangle_with_options(&plain).ok()).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(demangled("_ZN5queue4pushEiPKc"), "queue::push");
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_str17h0123456789abcdefE"),
            "core::fmt::Write::write_str"
        );
        for of_c in ["pthread_mutex_lock", "m", "i", "St", "Pc"] {
            assert_eq!(demangled(of_c), of_c);
        }
        assert_eq!(demangled("_Znonsense"), "_Znonsense");
    }
}
