//! What stands beside buttons, and what fills templates.

use super::*;
use crate::notify::message::BODY_UNITS_MAX;

#[test]
fn beside_a_button_stands_all_that_fits_of_the_same() {
    let notice = notice(NoticeKind::ApprovalRequested, "en");
    let (body, opener) = letter(&notice).beside_link().expect("it has its links");
    assert_eq!((opener.title, opener.url.as_str()), ("Open the request", LINKS[0]));
    let expected = "*Your decision is needed*
为一款记账App写推广文案
Step 2 of 2

请审核第一步草稿是否可以对外使用

The draft:
> 随手记一笔，月底不糊涂。
>
> **支持**多账本。

Please decide by Mon 30 Nov 2026, 19:05 UTC, 24 hours left.
The button opens a page; nothing is decided until you confirm there.";
    assert_eq!(body, expected);
    let (body, titles) = letter(&notice).beside_buttons().expect("it has its links");
    assert_eq!(titles, ["Approve", "Reject"]);
    assert!(body.ends_with(&format!("To see everything first:\n{}", LINKS[0])), "{body}");
}

#[test]
fn what_stands_beside_a_button_keeps_its_limits() {
    for words in ALL {
        for title in [words.open_title, words.approve_title, words.reject_title] {
            assert!((1..=20).contains(&units(title)), "{title}");
        }
    }
    for filler in ["长", "👨‍👩‍👧‍👦", "word "] {
        let mut notice = notice(NoticeKind::ApprovalRequested, "pt");
        notice.task = filler.repeat(5000);
        notice.note = Some(filler.repeat(5000));
        notice.output = Some(filler.repeat(5000));
        let (body, _) = letter(&notice).beside_link().expect("it fits");
        assert!(units(&body) <= BODY_UNITS_MAX && body.ends_with("lá."), "{body}");
        let (body, _) = letter(&notice).beside_buttons().expect("it fits");
        assert!(units(&body) <= BODY_UNITS_MAX && body.ends_with(LINKS[0]), "{body}");
    }
    let url = format!("https://a.example/{}", "x".repeat(900));
    let notice = notice(NoticeKind::ApprovalRequested, "en");
    let letter = Letter::new(&notice, &url, Reader::default());
    assert!(letter.beside_buttons().is_none() && letter.beside_link().is_some());
}

#[test]
fn a_template_is_filled_with_what_a_person_has_to_know() {
    let asked = notice(NoticeKind::ApprovalRequested, "en");
    assert_eq!(
        letter(&asked).parameters(),
        [
            "为一款记账App写推广文案",
            "请审核第一步草稿是否可以对外使用",
            "Mon 30 Nov 2026, 19:05 UTC, 24 hours left"
        ]
    );
    let bare = Outgoing { note: Some(" \n".to_owned()), deadline_at: None, ..asked };
    assert_eq!(letter(&bare).parameters()[1..], ["Step 2 of 2", "none"]);
    let done = notice(NoticeKind::Completed, "en");
    assert_eq!(
        letter(&done).parameters(),
        ["Your job is done: 为一款记账App写推广文案", "随手记一笔，月底不糊涂。 **支持**多账本。"]
    );
    let silent = Outgoing { output: None, ..notice(NoticeKind::Completed, "en") };
    assert_eq!(letter(&silent).parameters()[1], "Cost: $0.0123");
    let silent = Outgoing { cost_usd: Usd::ZERO, ..silent };
    assert_eq!(letter(&silent).parameters()[1], "–");
    let told = notice(NoticeKind::DailyBudget, "pt");
    assert_eq!(letter(&told).parameters()[0], "O orçamento do dia acabou");
}

#[test]
fn what_fills_a_template_is_one_clean_line_each_and_leaves_room() {
    const KINDS: [NoticeKind; 6] = [
        NoticeKind::ApprovalRequested,
        NoticeKind::Completed,
        NoticeKind::Failed,
        NoticeKind::Cancelled,
        NoticeKind::OutOfBudget,
        NoticeKind::DailyBudget,
    ];
    let nasty = "a\tb\n\nc      d\u{200b}\u{202e}\u{200f}\u{2066}e\u{2028}f 👨‍👩‍👧‍👦";
    for filler in [nasty, "长", "🇧🇷", "\u{200b}", "     ", "\n"] {
        for kind in KINDS {
            for language in SPOKEN {
                let long = filler.repeat(2000);
                let mut notice = notice(kind, language);
                notice.task.clone_from(&long);
                notice.note = Some(long.clone());
                notice.output = Some(long.clone());
                notice.error = Some(long);
                let parameters = letter(&notice).parameters();
                for text in &parameters {
                    assert!(!text.is_empty() && !text.contains("    "), "{text:?}");
                    assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
                    assert!(!text.contains(['\u{200b}', '\u{202e}', '\u{200f}', '\u{2066}']));
                }
                assert!(parameters.iter().map(|text| units(text)).sum::<usize>() <= 700);
            }
        }
    }
}
