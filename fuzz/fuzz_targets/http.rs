#![no_main]

#[path = "../src/serving.rs"]
#[allow(dead_code, reason = "the others are for other targets")]
mod serving;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| serving::http(bytes));
