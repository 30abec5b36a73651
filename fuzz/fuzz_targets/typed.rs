//! Answers that people type.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::notify::fuzz::typed(bytes));
