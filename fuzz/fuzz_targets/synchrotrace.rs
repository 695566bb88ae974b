#![no_main]

use quaver_trace::import::Format;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    quaver_fuzz::imports::imported(Format::Synchrotrace, octets);
});
