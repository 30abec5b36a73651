//! Lines, looked at as if time had passed.

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const GOES_ON: (bool, bool) = (false, false);
const IS_CUT: (bool, bool) = (false, true);
const IS_ASKED_TO_END: (bool, bool) = (true, false);

fn line() -> Arc<Line> {
    Arc::new(Line::new(CancellationToken::new(), CancellationToken::new()))
}

/// Whether it is asked to end, and whether it is cut, if it is looked at in so many seconds.
fn in_seconds(line: &Line, seconds: u64) -> (bool, bool) {
    line.judge(&LineSettings::default(), Instant::now() + Duration::from_secs(seconds));
    (line.end.is_cancelled(), line.cut.is_cancelled())
}

#[test]
fn who_never_agrees_on_tls_or_never_begins_is_cut() {
    for opens in [false, true] {
        let line = line();
        if opens {
            line.open();
        }
        assert_eq!(in_seconds(&line, 9), GOES_ON);
        assert_eq!(in_seconds(&line, 11), IS_CUT);
    }
}

#[test]
fn a_head_that_trickles_is_cut_and_one_that_comes_in_time_is_not() {
    let line = line();
    line.open();
    for byte in b"PUT / HTTP" {
        line.hear(&[*byte]);
    }
    assert_eq!(in_seconds(&line, 9), GOES_ON);
    assert_eq!(in_seconds(&line, 11), IS_CUT);

    let line = self::line();
    line.open();
    line.hear(b"P");
    line.hear(b"OST / HTTP/1.1\r\n\r\n");
    drop(line.begin());
    assert_eq!(in_seconds(&line, 299), GOES_ON, "it is kept for the next request");
    line.hear(b"PO");
    assert_eq!(in_seconds(&line, 11), IS_CUT, "the next head takes too long");
}

#[test]
fn http2_has_to_begin_and_may_then_be_quiet_for_longer() {
    let line = line();
    line.open();
    line.hear(&PREFACE[..2]);
    line.hear(&PREFACE[2..20]);
    assert_eq!(in_seconds(&line, 9), GOES_ON);
    line.hear(&PREFACE[20..]);
    line.hear(b"a pong");
    assert_eq!(in_seconds(&line, 299), GOES_ON);
    assert_eq!(in_seconds(&line, 301), IS_ASKED_TO_END);
    assert_eq!(in_seconds(&line, 304), (true, true), "it did not end when it was asked to");

    let line = self::line();
    line.open();
    line.hear(&PREFACE[..20]);
    assert_eq!(in_seconds(&line, 11), IS_CUT);
}

#[test]
fn a_call_that_takes_too_long_is_ended_and_gives_back_what_it_had() {
    let line = line();
    line.open();
    let (call, watch) = (line.begin(), line.begin());
    let room = Arc::new(());
    call.leash.keep(Arc::clone(&room));
    watch.leash.set_free();
    assert_eq!(in_seconds(&line, 119), GOES_ON);
    assert!(call.leash.ended_at().is_none());
    assert_eq!(in_seconds(&line, 121), GOES_ON);
    assert!(call.leash.ended_at().is_some());
    assert!(watch.leash.ended_at().is_none());
    assert_eq!(Arc::strong_count(&room), 2);
    drop(call);
    assert_eq!(Arc::strong_count(&room), 1);
    call_keeps_nothing_once_it_is_over(&line);
    watch.leash.end();
    assert_eq!(in_seconds(&line, 3), IS_CUT, "nobody ended it");
}

fn call_keeps_nothing_once_it_is_over(line: &Arc<Line>) {
    let (room, call) = (Arc::new(()), line.begin());
    let leash = call.leash.clone();
    drop(call);
    leash.keep(Arc::clone(&room));
    assert_eq!(Arc::strong_count(&room), 1);
}

#[test]
fn where_there_is_no_room_the_quietest_goes_and_who_is_served_stays() {
    let lines = Lines::default();
    let new = || Line::new(CancellationToken::new(), CancellationToken::new());
    let mut entries: Vec<Entry> = (0..3).map(|_| lines.admit(3, new()).unwrap()).collect();
    let cut = |entries: &[Entry]| -> Vec<bool> {
        entries.iter().map(|entry| entry.line.cut.is_cancelled()).collect()
    };
    let served = |entry: &Entry| {
        let call = entry.line.begin();
        call.leash.set_let_in();
        call
    };
    let busy = served(&entries[0]);
    drop(served(&entries[1]));
    entries.push(lines.admit(3, new()).unwrap());
    assert_eq!(cut(&entries), [false, false, true, false], "the one that never called");
    let busy_too = served(&entries[3]);
    entries.push(lines.admit(3, new()).unwrap());
    assert_eq!(cut(&entries), [false, true, true, false, false], "the one that has called");
    let busy_three = served(&entries[4]);
    assert!(lines.admit(3, new()).is_none(), "all others are served");
    drop((busy, busy_too, busy_three));
    entries.clear();
    assert!(lines.known().lines.is_empty());
}

#[test]
fn calls_that_nobody_was_let_in_for_keep_no_line() {
    let lines = Lines::default();
    let new = || Line::new(CancellationToken::new(), CancellationToken::new());
    let admit = || lines.admit(3, new()).unwrap();
    let watching: Vec<(Entry, InHand)> = (0..3)
        .map(|_| {
            let entry = admit();
            let watch = entry.line.begin();
            watch.leash.set_free();
            (entry, watch)
        })
        .collect();
    let newcomers = [admit(), admit(), admit()];
    assert!(watching.iter().all(|(entry, _)| entry.line.cut.is_cancelled()));
    assert!(newcomers.iter().all(|entry| !entry.line.cut.is_cancelled()));
}

#[test]
fn a_line_has_few_places_for_calls_without_a_key() {
    let line = line();
    let mut calls: Vec<InHand> = (0..STRANGERS_MAX).map(|_| line.begin()).collect();
    assert!(calls.iter().all(|call| call.leash.take_strangers_place()));
    let more = line.begin();
    assert!(!more.leash.take_strangers_place());
    calls.pop();
    assert!(more.leash.take_strangers_place(), "a place was given back");
    assert!(self::line().begin().leash.take_strangers_place(), "another line has its own");
}
