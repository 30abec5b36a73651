//! Prompts as templates: parsed and rendered.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul::domain::fuzz::template(bytes));
