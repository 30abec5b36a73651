//! Tokens of pages.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::rpc::fuzz::page_token(bytes));
