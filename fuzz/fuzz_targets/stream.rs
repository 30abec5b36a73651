//! Answers of the provider, in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::model::fuzz::stream(bytes));
