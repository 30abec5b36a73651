//! Tokens of links, keys, numbers and amounts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::domain::fuzz::text(bytes));
