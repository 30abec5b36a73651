//! What the page shows: links, marks, chats and ticks.

use super::*;
use crate::dev::sandbox::whatsapp::envelope::Reading;

fn message(seq: u64, to: &str, body: &str, status: Status) -> Entry<WhatsappMessage> {
    let reading = Reading { body: body.to_owned(), ..Reading::default() };
    let what = WhatsappMessage {
        id: Some(format!("wamid.{seq}")),
        to: to.to_owned(),
        text: body.to_owned(),
        reading,
        status: Some(status),
        ..WhatsappMessage::default()
    };
    entry(seq, what)
}

fn own(seq: u64, from: &str, text: &str) -> Entry<Inbound> {
    let what = Inbound {
        id: format!("wamid.{seq}"),
        from: from.to_owned(),
        kind: "text".to_owned(),
        text: text.to_owned(),
        answers: None,
        answered: Vec::new(),
    };
    entry(seq, what)
}

/// An entry of the second that its number names.
fn entry<T>(seq: u64, what: T) -> Entry<T> {
    let received_at = DateTime::from_timestamp_secs(seq as i64).unwrap();
    Entry { seq, received_at, outcome: Outcome::Answered, what }
}

#[test]
fn links_end_where_a_reader_would_say_they_end() {
    let found = links(
        "批准：http://127.0.0.1:8080/approvals/a_b-C，或 (see https://x.org/y?a=1&b=2). http:// no",
    );
    assert_eq!(found, ["http://127.0.0.1:8080/approvals/a_b-C", "https://x.org/y?a=1&b=2"]);
}

#[test]
fn bold_words_and_quoted_lines_lose_their_marks() {
    let looks: Vec<(String, Look)> = pieces("*Done*\n> a * b\n*no\n2*3*4 **\n任务：*夜间 报告*。")
        .into_iter()
        .map(|piece| (piece.text, piece.look))
        .collect();
    let expected = [
        ("Done", Look::Bold),
        ("\n", Look::Plain),
        ("a * b", Look::Quote),
        ("*no\n", Look::Plain),
        ("2*3*4 **\n", Look::Plain),
        ("任务：", Look::Plain),
        ("夜间 报告", Look::Bold),
        ("。", Look::Plain),
    ];
    assert_eq!(looks, expected.map(|(text, look)| (text.to_owned(), look)));
    assert_eq!(preview("*Job 7*\n> waits"), "Job 7\nwaits");
}

#[test]
fn what_a_message_says_is_escaped() {
    let text = "<script>x</script> http://a.b/?q=<i>";
    let mut sent = message(1, "+15550001", text, Status::Delivered);
    let does = Does::Id("\"><q>".to_owned());
    sent.what.buttons = vec![Button { label: "<u>".to_owned(), does }];
    let html =
        phone(0, &[sent], &[own(2, "+15550001", "<s>")], Some(" 15550001")).render().unwrap();
    for tag in ["<script>x", "<i>", "<u>", "<s>", "\"><q>"] {
        assert!(!html.contains(tag), "{tag} in {html}");
    }
    assert!(html.contains("href=\"http://a.b/?q=\""), "{html}");
}

#[test]
fn a_single_chat_is_open_and_of_several_one_chooses() {
    let one = [message(1, "+1555", "a", Status::Delivered)];
    assert_eq!(phone(0, &one, &[], None).open, "+1555");
    assert_eq!(phone(0, &one, &[], Some("")).open, "");
    let two = [message(1, "+1555", "a", Status::Delivered), message(2, "+1556", "b", Status::Read)];
    let both = phone(0, &two, &[own(3, "+1555", "c")], None);
    assert_eq!((both.open.as_str(), both.bubbles.len()), ("", 0));
    let shown: Vec<_> = both.chats.iter().map(|chat| (&chat.to[..], chat.unread)).collect();
    assert_eq!(shown, [("+1555", 1), ("+1556", 0)]);
    assert_eq!(both.chats[0].preview, "c");
    let chosen = phone(0, &two, &[], Some("1556"));
    assert_eq!((chosen.open.as_str(), chosen.bubbles.len()), ("+1556", 1));
    assert_eq!(phone(0, &two, &[], Some("US.7")).open, "US.7");
}

#[test]
fn ticks_follow_the_statuses() {
    for (status, tick) in [
        (Status::Accepted, Tick::Waits),
        (Status::Sent, Tick::Sent),
        (Status::Delivered, Tick::Delivered),
        (Status::Read, Tick::Read),
        (Status::Failed, Tick::Failed),
    ] {
        let mut entry = message(1, "+1555", "a", status);
        entry.what.error_code = Some(131_026);
        let bubble = received_bubble(&entry);
        assert_eq!(bubble.tick, tick);
        assert_eq!(bubble.failure.starts_with("131026 "), tick == Tick::Failed);
    }
}

#[test]
fn what_was_sent_and_written_stands_in_the_order_of_time() {
    let sent = [message(1, "+1", "a", Status::Read), message(3, "+1", "c", Status::Read)];
    let shown = phone(0, &sent, &[own(2, "+1", "b"), own(90_000, "+1", "d")], Some("1"));
    let texts: Vec<_> = shown.bubbles.iter().map(|bubble| &bubble.text[0].text[..]).collect();
    assert_eq!(texts, ["a", "b", "c", "d"]);
    let days: Vec<_> = shown.bubbles.iter().map(|bubble| bubble.is_first_of_day).collect();
    assert_eq!(days, [true, false, false, true]);
}
