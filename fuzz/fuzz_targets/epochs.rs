#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    quaver_fuzz::epochs::library(octets);
    quaver_fuzz::epochs::library_frames(octets);
});
