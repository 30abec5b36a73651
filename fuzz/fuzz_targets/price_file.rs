//! Price lists of others.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::model::fuzz::price_file(bytes));
