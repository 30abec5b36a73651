//! Every class of refusal, every way to ask for a wait, and what is left of the words.

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    pairs.iter().map(pair).collect()
}

fn class_of(status: u16, body: &Value) -> Class {
    let status = StatusCode::from_u16(status).unwrap();
    Refusal::read(status, &HeaderMap::new(), body.to_string().as_bytes(), "").class
}

/// Every code that Meta has a name for, as the table of its documentation lists them.
const KNOWN: &[(i64, Class)] = &[
    (0, Configuration),
    (1, Ambiguous),
    (2, Ambiguous),
    (3, Configuration),
    (4, Rate),
    (10, Configuration),
    (33, Configuration),
    (100, Permanent),
    (190, Configuration),
    (200, Configuration),
    (299, Configuration),
    (368, Configuration),
    (80_007, Rate),
    (130_403, Undeliverable),
    (130_429, Rate),
    (130_472, Undeliverable),
    (130_497, Undeliverable),
    (131_000, Ambiguous),
    (131_005, Configuration),
    (131_008, Permanent),
    (131_009, Permanent),
    (131_016, Ambiguous),
    (131_021, Undeliverable),
    (131_026, Undeliverable),
    (131_030, Undeliverable),
    (131_031, Configuration),
    (131_037, Configuration),
    (131_042, Configuration),
    (131_045, Configuration),
    (131_047, Window),
    (131_048, Configuration),
    (131_049, Undeliverable),
    (131_050, Undeliverable),
    (131_051, Permanent),
    (131_052, Permanent),
    (131_053, Permanent),
    (131_056, Pair),
    (131_057, Rate),
    (131_062, Undeliverable),
    (131_063, Configuration),
    (131_064, Rate),
    (132_000, Permanent),
    (132_001, Template),
    (132_005, Permanent),
    (132_007, Permanent),
    (132_012, Permanent),
    (132_015, Template),
    (132_016, Template),
    (132_018, Permanent),
    (132_068, Configuration),
    (132_069, Rate),
    (133_000, Configuration),
    (133_004, Ambiguous),
    (133_005, Configuration),
    (133_006, Configuration),
    (133_008, Configuration),
    (133_009, Configuration),
    (133_010, Configuration),
    (133_015, Configuration),
    (133_016, Configuration),
    (134_011, Configuration),
    (135_000, Permanent),
    (139_200, Configuration),
];

#[test]
fn the_code_decides_and_the_status_does_not() {
    for &(code, class) in KNOWN {
        for status in [200, 400, 403, 429, 500] {
            let body = json!({"error": {"code": code}});
            assert_eq!(class_of(status, &body), class, "{code} with {status}");
        }
    }
}

#[test]
fn without_a_known_code_the_status_decides() {
    for (status, class) in [
        (200, Ambiguous),
        (302, Configuration),
        (400, Permanent),
        (401, Configuration),
        (404, Configuration),
        (408, Ambiguous),
        (413, Permanent),
        (429, Rate),
        (500, Ambiguous),
        (502, Ambiguous),
        (504, Ambiguous),
    ] {
        assert_eq!(class_of(status, &Value::Null), class, "{status}");
        assert_eq!(class_of(status, &json!({"error": {"code": 999_999}})), class, "{status}");
    }
}

#[test]
fn a_wrong_sending_number_is_a_fault_of_the_configuration() {
    let body = json!({"error": {"code": 100, "error_subcode": 33}});
    assert_eq!(class_of(400, &body), Configuration);
}

#[test]
fn some_codes_are_not_to_be_tried_again_soon() {
    let wait = |code: i64, pairs| {
        let body = json!({"error": {"code": code}}).to_string();
        Refusal::read(StatusCode::BAD_REQUEST, &headers(pairs), body.as_bytes(), "").wait
    };
    assert_eq!(wait(131_048, &[]), Some(Duration::from_hours(1)));
    assert_eq!(wait(131_048, &[("retry-after", "7200")]), Some(Duration::from_hours(2)));
    assert_eq!(wait(133_015, &[("retry-after", "1")]), Some(Duration::from_mins(5)));
    assert_eq!(wait(190, &[]), None);
}

#[test]
fn no_two_ranges_of_codes_overlap() {
    assert!(CODES.iter().all(|(first, last, _)| first <= last));
    assert!(CODES.windows(2).all(|pair| pair[0].1 < pair[1].0));
}

#[test]
fn the_back_off_grows_to_an_hour_and_no_further() {
    let seconds = [1, 2, 3, 6, 7, 50, i32::MAX].map(|tries| back_off(tries).as_secs());
    assert_eq!(seconds, [1, 4, 16, 1024, 3600, 3600, 3600]);
    assert_eq!(back_off(0).as_secs(), 1);
}

#[test]
fn the_wait_is_read_in_every_form_and_bounded() {
    const NOW: (&str, &str) = ("date", "Sun, 29 Nov 2026 18:00:00 GMT");
    let usage = |text| ("x-business-use-case-usage", text);
    for (pairs, seconds) in [
        (vec![("retry-after", "30")], Some(30)),
        (vec![NOW, ("retry-after", "Sun, 29 Nov 2026 18:01:30 GMT")], Some(90)),
        (vec![("retry-after", "1e300")], None),
        (vec![("retry-after", "99999999")], Some(86_400)),
        (vec![("retry-after", "soon")], None),
        (vec![usage(r#"{"1":[{"estimated_time_to_regain_access":0}]}"#)], None),
        (
            vec![
                ("retry-after", "30"),
                usage(
                    r#"{"1":[{"type":"whatsapp","estimated_time_to_regain_access":2}],"2":[{"estimated_time_to_regain_access":1}]}"#,
                ),
            ],
            Some(120),
        ),
        (vec![usage("[]")], None),
        (vec![], None),
    ] {
        let wait = find_wait(&headers(&pairs)).map(|wait| wait.as_secs());
        assert_eq!(wait, seconds, "{pairs:?}");
    }
}

#[test]
fn the_words_hold_no_token_and_no_phone_number() {
    let message = "(#190) Malformed access token EAAsecret for +1 (650) 555-1234\n, 16505551234";
    let body = json!({"error": {
        "code": 190, "message": message, "error_data": {"details": "limit 131056 of +442071838750."}}});
    let body = body.to_string();
    let refusal =
        Refusal::read(StatusCode::UNAUTHORIZED, &HeaderMap::new(), body.as_bytes(), "EAAsecret");
    let expected = "error 190: Malformed access token … for … , …: limit 131056 of ….";
    assert_eq!(refusal.words, expected);
}

#[test]
fn long_words_are_cut_and_missing_ones_leave_the_status() {
    let body = json!({"error": {"code": 100, "message": "长".repeat(5000)}}).to_string();
    let read =
        |body: &[u8]| Refusal::read(StatusCode::BAD_GATEWAY, &HeaderMap::new(), body, "").words;
    assert_eq!(read(body.as_bytes()).chars().count(), WORDS_CHARS_MAX);
    assert_eq!(read(b"<html>"), "status 502");
}
