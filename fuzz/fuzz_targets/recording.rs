#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    quaver_fuzz::recordings::recording(octets);
    quaver_fuzz::recordings::pages(octets);
});
