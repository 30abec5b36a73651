//! The client before it makes a call: which settings it takes, and what it shows of them.

use std::net::SocketAddr;

use super::super::*;
use super::{call, model};

#[test]
fn settings_that_cannot_work_are_refused_at_once() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for base_url in ["", "api.anthropic.com", "ftp://host", "mailto:x", "unix:/run/x"] {
        let settings = ModelSettings { base_url: base_url.to_owned(), ..ModelSettings::default() };
        assert!(matches!(Model::new(settings), Err(ModelSetupError::BaseUrl)), "{base_url}");
    }
    let settings = ModelSettings { api_key: Some("a\nb".into()), ..ModelSettings::default() };
    assert!(matches!(Model::new(settings), Err(ModelSetupError::ApiKey(_))));
}

#[test]
fn only_addresses_of_this_machine_are_reached_without_a_proxy() {
    for (base_url, expected) in [
        ("http://localhost:1", true),
        ("http://127.0.0.2:1", true),
        ("http://[::1]:1", true),
        ("https://api.anthropic.com", false),
        ("http://10.0.0.1", false),
    ] {
        let url = messages_url(base_url).expect("an address");
        assert_eq!(is_loopback(&url), expected, "{base_url}");
    }
}

#[test]
fn debug_forms_hold_no_key_and_no_prompt() {
    let model = model(SocketAddr::from(([127, 0, 0, 1], 1)));
    let printed = format!("{model:?} {:?}", call());
    assert!(!printed.contains("key") && !printed.contains("Hi") && !printed.contains("brief"));
}
