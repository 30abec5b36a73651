//! Messages of every call: decoded, converted, checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::rpc::fuzz::message(bytes));
