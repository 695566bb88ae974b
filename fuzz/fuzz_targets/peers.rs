#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| quaver_fuzz::inputs::peers(octets));
