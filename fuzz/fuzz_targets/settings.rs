#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| streampool_fuzz::settings(bytes));
