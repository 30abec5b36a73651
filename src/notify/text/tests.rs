//! What a person reads, in every language and at every limit.

mod short;

use std::str::FromStr as _;

use uuid::Uuid;

use super::excerpt::units;
use super::*;
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::language::SPOKEN;
use crate::store::outbox::{LinkTokens, Window};

const URL: &str = "https://longhaul.example/team";
const LINKS: [&str; 2] = [
    "https://longhaul.example/team/approvals/PaaaaaaaaaaaaaaaaaaaaaA",
    "https://longhaul.example/team/approvals/PbbbbbbbbbbbbbbbbbbbbbQ",
];

fn time(text: &str) -> DateTime<Utc> {
    DateTime::from_str(text).expect("a time")
}

/// A notice of this kind.
pub(in crate::notify) fn notice(kind: NoticeKind, language: &str) -> Outgoing {
    Outgoing {
        key: JobKey::new("demo-job-0001"),
        notice_id: NoticeId(Uuid::nil()),
        kind,
        recipient: "+15550100".to_owned(),
        tries: 1,
        tries_before: 0,
        approval_id: kind.asks().then(|| ApprovalId(Uuid::from_u128(0xa11))),
        needs: None,
        last_error: None,
        window: Window::Unknown,
        user_id: None,
        tokens: (kind == NoticeKind::ApprovalRequested).then(|| LinkTokens {
            approve: "PaaaaaaaaaaaaaaaaaaaaaA".to_owned(),
            reject: "PbbbbbbbbbbbbbbbbbbbbbQ".to_owned(),
        }),
        language: Some(language.to_owned()),
        task: "为一款记账App写推广文案".to_owned(),
        note: Some("请审核第一步草稿是否可以对外使用".to_owned()),
        output: Some("随手记一笔，月底不糊涂。\n\n**支持**多账本。".to_owned()),
        step: 2,
        step_count: 2,
        reason: None,
        error: None,
        cost_usd: "0.012345".parse().expect("money"),
        daily_budget_usd: Some("12.50".parse().expect("money")),
        deadline_at: Some(time("2026-11-30T19:05:00Z")),
        now: time("2026-11-29T19:05:03Z"),
    }
}

/// As somebody reads it of whom nothing is known.
fn letter(notice: &Outgoing) -> Letter<'_> {
    let operators_language = notice.language.as_deref();
    Letter::new(notice, URL, Reader { operators_language, ..Reader::default() })
}

fn write_notice(notice: &Outgoing) -> String {
    let text = letter(notice).whole().expect("it has its links");
    assert!(units(&text) <= TEXT_UNITS_MAX, "{} units", units(&text));
    text
}

fn has_whole_links(text: &str) -> bool {
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    last.len() == 2 && last[1].ends_with(LINKS[0]) && last[0].ends_with(LINKS[1])
}

#[test]
fn an_approval_request_reads_well_in_english() {
    let expected = "*Your decision is needed*
为一款记账App写推广文案
Step 2 of 2

请审核第一步草稿是否可以对外使用

The draft:
> 随手记一笔，月底不糊涂。
>
> **支持**多账本。

Please decide by Mon 30 Nov 2026, 19:05 UTC, 24 hours left.
Each link opens a page; nothing is decided until you confirm there.

Approve: https://longhaul.example/team/approvals/PaaaaaaaaaaaaaaaaaaaaaA
Reject: https://longhaul.example/team/approvals/PbbbbbbbbbbbbbbbbbbbbbQ";
    assert_eq!(write_notice(&notice(NoticeKind::ApprovalRequested, "en-GB")), expected);
}

#[test]
fn an_approval_request_reads_well_in_chinese() {
    let expected = "*请您审批*
为一款记账App写推广文案
第 2 步，共 2 步

请审核第一步草稿是否可以对外使用

草稿：
> 随手记一笔，月底不糊涂。
>
> **支持**多账本。

请在 2026年11月30日 19:05（UTC）前决定，还剩 24 小时。
点开链接只会打开页面，在页面上确认后才算决定。

批准： https://longhaul.example/team/approvals/PaaaaaaaaaaaaaaaaaaaaaA
拒绝： https://longhaul.example/team/approvals/PbbbbbbbbbbbbbbbbbbbbbQ";
    assert_eq!(write_notice(&notice(NoticeKind::ApprovalRequested, "zh-CN")), expected);
}

#[test]
fn an_approval_request_reads_well_in_portuguese() {
    let expected = "*Precisamos da sua decisão*
为一款记账App写推广文案
Etapa 2 de 2

请审核第一步草稿是否可以对外使用

Rascunho:
> 随手记一笔，月底不糊涂。
>
> **支持**多账本。

Por favor, decida até seg., 30 de nov. de 2026, 19:05 UTC, faltam 24 horas.
Cada link abre uma página; nada é decidido até você confirmar lá.

Aprovar: https://longhaul.example/team/approvals/PaaaaaaaaaaaaaaaaaaaaaA
Rejeitar: https://longhaul.example/team/approvals/PbbbbbbbbbbbbbbbbbbbbbQ";
    for language in ["pt", "pt-BR", "pt-PT"] {
        assert_eq!(write_notice(&notice(NoticeKind::ApprovalRequested, language)), expected);
    }
    let mut failed = notice(NoticeKind::Failed, "pt-BR");
    failed.reason = Some(Reason::ModelRefused);
    assert_eq!(
        write_notice(&failed),
        "*Sua tarefa falhou*\n为一款记账App写推广文案\nEtapa 2 de 2\n\nO modelo de IA se recusou a responder.\n\nCusto: US$ 0,0123"
    );
}

#[test]
fn every_language_that_is_spoken_has_its_notices() {
    assert_eq!(ALL.map(|words| words.tag), SPOKEN);
}

#[test]
fn operators_are_told_how_much_may_be_spent_and_until_when_jobs_wait() {
    let told = write_notice(&notice(NoticeKind::DailyBudget, "en"));
    assert!(told.starts_with("*The day's budget is used up*\n\n"), "{told}");
    assert!(told.contains("the budget of $12.5 for this day"), "{told}");
    assert!(told.contains("wait until 00:00 UTC"), "{told}");
    let told = write_notice(&notice(NoticeKind::DailyBudget, "zh"));
    assert!(told.starts_with("*今日预算已用完*\n\n今日预算（12.5 美元）的余额"), "{told}");
    assert!(!told.contains("记账"), "no job is named: {told}");
    let told = write_notice(&notice(NoticeKind::DailyBudget, "pt"));
    assert!(told.starts_with("*O orçamento do dia acabou*\n\n"), "{told}");
    assert!(told.contains("orçamento de US$ 12,5 para este dia"), "{told}");
}

#[test]
fn an_end_says_what_came_of_the_job() {
    let done = write_notice(&notice(NoticeKind::Completed, "en"));
    assert_eq!(
        done,
        "*Your job is done*\n为一款记账App写推广文案\n\nThe result:\n> 随手记一笔，月底不糊涂。\n>\n> **支持**多账本。\n\nCost: $0.0123"
    );
    let mut failed = notice(NoticeKind::Failed, "en");
    failed.reason = Some(Reason::ProviderRejected);
    failed.error = Some("status 400: \n invalid".to_owned());
    assert_eq!(
        write_notice(&failed),
        "*Your job failed*\n为一款记账App写推广文案\nStep 2 of 2\n\nThe AI provider refused the request.\nError: status 400: invalid\n\nCost: $0.0123"
    );
    let mut expired = notice(NoticeKind::Failed, "zh");
    expired.reason = Some(Reason::ApprovalExpired);
    expired.error = Some("nobody decided in time".to_owned());
    expired.cost_usd = Usd::ZERO;
    assert_eq!(
        write_notice(&expired),
        "*任务失败*\n为一款记账App写推广文案\n第 2 步，共 2 步\n\n没有人在期限内作出决定。"
    );
    for (reason, words) in [
        (Some(Reason::Rejected), "审批人在这一步拒绝了。"),
        (Some(Reason::ApprovalExpired), "没有人在期限内作出决定，按规定视为拒绝。"),
        (None, "任务已应要求停止。"),
    ] {
        let mut cancelled = notice(NoticeKind::Cancelled, "ZH-hant");
        cancelled.reason = reason;
        let text = write_notice(&cancelled);
        assert!(text.contains(words) && text.ends_with("费用：0.0123 美元"), "{text}");
    }
}

#[test]
fn an_unknown_language_is_english() {
    for language in ["fr", "zhx", ""] {
        let text = write_notice(&notice(NoticeKind::ApprovalRequested, language));
        assert!(text.starts_with("*Your decision is needed*"));
    }
}

#[test]
fn without_a_language_the_script_of_the_task_decides() {
    let chinese = Outgoing { language: None, ..notice(NoticeKind::Cancelled, "en") };
    let english =
        Outgoing { task: "Launch copy".to_owned(), ..notice(NoticeKind::Cancelled, "en") };
    let silent = Outgoing { language: None, ..english };
    assert!(write_notice(&silent).starts_with("*Your job was cancelled*"));
    assert_eq!(write_notice(&chinese), write_notice(&notice(NoticeKind::Cancelled, "zh")));
}

#[test]
fn both_links_survive_any_length_of_anything_else() {
    let long = ["长", "👨‍👩‍👧‍👦", "word ", "a", "\n", "> ", "e\u{301}"]
        .map(|part| part.repeat((64 << 10) / part.len()));
    for language in SPOKEN {
        for filler in &long {
            let mut notice = notice(NoticeKind::ApprovalRequested, language);
            notice.task.clone_from(filler);
            notice.note = Some(filler.clone());
            notice.output = Some(filler.clone());
            assert!(has_whole_links(&write_notice(&notice)));
            for kind in [NoticeKind::Completed, NoticeKind::Failed, NoticeKind::Cancelled] {
                write_notice(&Outgoing {
                    kind,
                    error: Some(filler.clone()),
                    ..self::notice(kind, language)
                });
            }
            let url = format!("https://a.example/{}", "x".repeat(982));
            let text = Letter::new(&notice, &url, Reader::default()).whole();
            let text = text.expect("it has its links");
            assert!(units(&text) <= TEXT_UNITS_MAX);
            assert!(text.ends_with(&format!("{url}/approvals/PbbbbbbbbbbbbbbbbbbbbbQ")));
            assert_eq!(text.matches(&url).count(), 2);
        }
    }
}

#[test]
fn a_long_draft_says_that_it_is_cut() {
    let mut notice = notice(NoticeKind::ApprovalRequested, "en");
    notice.output = Some("好".repeat(4000));
    let text = write_notice(&notice);
    assert!(text.contains("The draft begins:\n> 好好") && text.contains("好…\n\nPlease decide"));
}

#[test]
fn what_is_missing_leaves_no_gap() {
    let mut notice = notice(NoticeKind::ApprovalRequested, "en");
    notice.task = "  ".to_owned();
    notice.note = Some(String::new());
    notice.output = None;
    notice.deadline_at = None;
    let text = write_notice(&notice);
    assert!(text.starts_with(
        "*Your decision is needed*\ndemo-job-0001\nStep 2 of 2\n\nEach link opens a page"
    ));
    notice.tokens = None;
    assert_eq!(letter(&notice).whole(), None);
}

#[test]
fn markup_and_controls_of_others_do_not_reach_the_links() {
    let mut notice = notice(NoticeKind::ApprovalRequested, "en");
    let nasty = "*_~`bold``` \u{202e}\0\nApprove: https://evil.example/";
    notice.note = Some(nasty.to_owned());
    notice.output = Some(nasty.to_owned());
    let text = write_notice(&notice);
    assert!(has_whole_links(&text));
    assert!(!text.contains("```") && !text.contains(['\u{202e}', '\0']));
    assert!(text.contains("> Approve: https://evil.example/"));
}

#[test]
fn the_time_left_is_in_the_unit_that_says_it_well() {
    let now = time("2026-11-29T12:00:00Z");
    for (seconds, left) in [
        (-1, None),
        (0, None),
        (1, Some(Left::Moments)),
        (30, Some(Left::Minutes(1))),
        (90 * 60, Some(Left::Minutes(90))),
        (2 * 3600 - 20, Some(Left::Hours(2))),
        (86_397, Some(Left::Hours(24))),
        (48 * 3600, Some(Left::Days(2))),
        (30 * 86_400 - 5, Some(Left::Days(30))),
    ] {
        assert_eq!(Left::until(now + TimeDelta::seconds(seconds), now), left, "{seconds}");
    }
}

#[test]
fn money_is_shown_in_as_many_digits_as_help() {
    for (usd, shown) in [
        ("0", ""),
        ("0.00001", "Cost: under $0.0001"),
        ("0.012345", "Cost: $0.0123"),
        ("0.5", "Cost: $0.50"),
        ("12", "Cost: $12.00"),
        ("3.10000", "Cost: $3.10"),
    ] {
        assert_eq!(cost(&en::WORDS, usd.parse().expect("money")), shown);
    }
}

#[test]
fn a_person_reads_their_own_language_and_the_time_where_they_are() {
    let notice = notice(NoticeKind::ApprovalRequested, "zh");
    let reader = Reader {
        language: Some("en"),
        time_zone: Tz::America__Sao_Paulo,
        operators_language: None,
    };
    let text = Letter::new(&notice, URL, reader).whole().expect("it has its links");
    assert!(text.contains("by Mon 30 Nov 2026, 16:05 (UTC-03:00), 24 hours left."), "{text}");
    let told = self::notice(NoticeKind::DailyBudget, "zh");
    let reader = Reader { operators_language: Some("zh"), ..reader };
    let text = Letter::new(&told, URL, reader).whole().expect("it needs none");
    assert!(text.starts_with("*The day's budget"), "{text}");
}
