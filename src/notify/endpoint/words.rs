//! What a chat shows of a notice: a title, and a short text with the links in it, in the language of the job.
//!
//! Some chats take no more than 2,048 bytes of text, so what users and models wrote is cut to a few lines.

use super::payload::Payload;
use crate::domain::event::NoticeKind;
use crate::domain::language::is_same;
use crate::domain::word::Word as _;

const TASK_BYTES_MAX: usize = 300;
const NOTE_BYTES_MAX: usize = 500;
const OUTPUT_BYTES_MAX: usize = 500;
const ERROR_BYTES_MAX: usize = 300;

/// The words of one language.
struct Words {
    tag: &'static str,
    title: fn(NoticeKind) -> &'static str,
    step: fn(i32, i32) -> String,
    approve: &'static str,
    reject: &'static str,
}

const EN: Words = Words {
    tag: "en",
    title: |kind| match kind {
        NoticeKind::ApprovalRequested => "A decision is needed",
        NoticeKind::ApprovalReminder => "A decision is still needed",
        NoticeKind::ApprovalEscalated => "A decision is needed: others have not decided",
        NoticeKind::ApprovalDecided => "A decision was made",
        NoticeKind::ApprovalExpired => "Nobody decided in time",
        NoticeKind::Completed => "A job is done",
        NoticeKind::Failed => "A job failed",
        NoticeKind::Cancelled => "A job was cancelled",
        NoticeKind::OutOfBudget => "A job is paused: its budget is used up",
        NoticeKind::DailyBudget => "The day's budget is used up",
        NoticeKind::Paused => "A job is paused",
        NoticeKind::NoticeFailed => "Somebody could not be told",
    },
    step: |step, count| format!("Step {step} of {count}"),
    approve: "Approve",
    reject: "Reject",
};

const ZH: Words = Words {
    tag: "zh",
    title: |kind| match kind {
        NoticeKind::ApprovalRequested => "有任务等待您的决定",
        NoticeKind::ApprovalReminder => "仍有任务等待您的决定",
        NoticeKind::ApprovalEscalated => "有任务等待您的决定：其他人尚未决定",
        NoticeKind::ApprovalDecided => "审批已有决定",
        NoticeKind::ApprovalExpired => "审批已超时，无人决定",
        NoticeKind::Completed => "任务已完成",
        NoticeKind::Failed => "任务失败",
        NoticeKind::Cancelled => "任务已取消",
        NoticeKind::OutOfBudget => "任务已暂停：预算已用完",
        NoticeKind::DailyBudget => "今日预算已用完",
        NoticeKind::Paused => "任务已暂停",
        NoticeKind::NoticeFailed => "有一条通知未能送达",
    },
    step: |step, count| format!("第 {step} 步，共 {count} 步"),
    approve: "批准",
    reject: "拒绝",
};

const PT_BR: Words = Words {
    tag: "pt-BR",
    title: |kind| match kind {
        NoticeKind::ApprovalRequested => "Uma decisão é necessária",
        NoticeKind::ApprovalReminder => "Ainda falta uma decisão",
        NoticeKind::ApprovalEscalated => "Uma decisão é necessária: outras pessoas não decidiram",
        NoticeKind::ApprovalDecided => "Uma decisão foi tomada",
        NoticeKind::ApprovalExpired => "Ninguém decidiu a tempo",
        NoticeKind::Completed => "Uma tarefa foi concluída",
        NoticeKind::Failed => "Uma tarefa falhou",
        NoticeKind::Cancelled => "Uma tarefa foi cancelada",
        NoticeKind::OutOfBudget => "Uma tarefa está pausada: o orçamento acabou",
        NoticeKind::DailyBudget => "O orçamento do dia acabou",
        NoticeKind::Paused => "Uma tarefa está pausada",
        NoticeKind::NoticeFailed => "Uma pessoa não pôde ser avisada",
    },
    step: |step, count| format!("Etapa {step} de {count}"),
    approve: "Aprovar",
    reject: "Rejeitar",
};

/// The language that was chosen, else that of the script the task is written in.
fn words(language: Option<&str>, task: &str) -> &'static Words {
    let Some(language) = language else {
        let is_han = |letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter);
        return if task.contains(is_han) { &ZH } else { &EN };
    };
    [&EN, &ZH, &PT_BR].into_iter().find(|words| is_same(words.tag, language)).unwrap_or(&EN)
}

/// What happened, in a few words.
pub(super) fn title(payload: &Payload<'_>) -> &'static str {
    (words(payload.language, &payload.data.task).title)(payload.kind)
}

/// What happened, to which job, and what to do.
pub(super) fn text(payload: &Payload<'_>) -> String {
    let data = &payload.data;
    let words = words(payload.language, &data.task);
    let name = if data.task.trim().is_empty() { data.job_id } else { &data.task };
    let mut lines = vec![cut(&one_line(name), TASK_BYTES_MAX)];
    if payload.kind != NoticeKind::Completed {
        lines.push((words.step)(data.step, data.step_count));
    }
    if let Some(decision) = &data.decision {
        lines.push(format!("{}: {}", decision.by, decision.verdict.word()));
        lines.push(cut(decision.comment, NOTE_BYTES_MAX));
    }
    lines.push(cut(data.note.as_deref().unwrap_or_default(), NOTE_BYTES_MAX));
    // Quoted line by line, so that no line of it can pass for one of our links.
    let output = data.draft.as_deref().or(data.output.as_deref()).unwrap_or_default();
    let output = cut(output.trim(), OUTPUT_BYTES_MAX);
    lines.extend(output.lines().map(|line| format!("> {line}")));
    lines.push(cut(&one_line(data.error.as_deref().unwrap_or_default()), ERROR_BYTES_MAX));
    for one in &data.approvers {
        let who =
            if data.approvers.len() > 1 { format!(" ({})", one.approver) } else { String::new() };
        lines.push(format!("{}{who}: {}", words.approve, one.approve_url));
        lines.push(format!("{}{who}: {}", words.reject, one.reject_url));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", text[..text.floor_char_boundary(bytes_max)].trim_end())
}
