#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    quaver_fuzz::traces::trace(octets);
    quaver_fuzz::traces::frames(octets);
});
