//! Bodies of the webhooks, of any type.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::web::fuzz::webhook_body(bytes));
