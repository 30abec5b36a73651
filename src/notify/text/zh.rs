//! The texts of notices in Chinese.
//!
//! They say the same as the English ones, in the same places, in the words a Chinese reader expects.
//! They are polite (您), and have blanks between Chinese and digits, which reads best on phones.

use super::{Left, Words};
use crate::domain::job::Reason;

pub(super) const WORDS: Words = Words {
    tag: "zh",
    asked: "请您审批",
    reminded: "提醒：仍在等您审批",
    escalated: "请您审批：其他人尚未决定",
    completed: "任务已完成",
    failed: "任务失败",
    cancelled: "任务已取消",
    out_of_budget: "您的任务已暂停：预算已用完",
    draft: "草稿：",
    draft_begins: "草稿（开头部分）：",
    result: "结果：",
    result_begins: "结果（开头部分）：",
    how: "点开链接只会打开页面，在页面上确认后才算决定。",
    how_link: "点击按钮只会打开页面，在页面上确认后才算决定。",
    how_buttons: "点击按钮即作出决定，拒绝会终止任务。如需先查看全部内容：",
    open_title: "查看并审批",
    approve_title: "批准",
    reject_title: "拒绝",
    // A link is only recognised everywhere if a blank stands before it.
    approve: "批准： ",
    reject: "拒绝： ",
    error: "错误信息：",
    step: |step, count| format!("第 {step} 步，共 {count} 步"),
    deadline: |at, left| format!("请在 {at}前决定{left}。"),
    left,
    no_deadline: "无",
    why_failed,
    why_cancelled,
    why_paused: "剩余预算不足以支付下一步。有人提高预算并恢复任务后，它会继续执行。",
    day_used_up: "今日预算已用完",
    why_put_off,
    cost: |usd| format!("费用：{usd} 美元"),
    cost_is_tiny: "费用：不到 0.0001 美元",
};

fn left(left: Left) -> String {
    match left {
        Left::Days(days) => format!("，还剩 {days} 天"),
        Left::Hours(hours) => format!("，还剩 {hours} 小时"),
        Left::Minutes(minutes) => format!("，还剩 {minutes} 分钟"),
        Left::Moments => "，只剩不到 1 分钟".to_owned(),
    }
}

fn why_put_off(budget_usd: Option<&str>) -> String {
    let of = budget_usd.map(|usd| format!("（{usd} 美元）")).unwrap_or_default();
    format!(
        "今日预算{of}的余额不足以支付下一次 AI 模型调用。\
         需要调用模型的任务会等到 00:00（UTC），之后自动继续。\
         如果正在进行的调用实际费用低于预留金额，或以更高的预算重启服务器，它们会提前继续。"
    )
}

fn why_failed(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::ApprovalExpired) => "没有人在期限内作出决定。",
        Some(Reason::RecoveriesExhausted) => "执行这一步时，服务器中断的次数过多。",
        Some(Reason::RetryWindowExhausted) => "AI 服务长时间不可用。",
        Some(Reason::ProviderRejected) => "AI 服务拒绝了请求。",
        Some(Reason::ProviderUnconfigured) => "服务器没有配置 AI 服务的密钥。",
        Some(Reason::ModelRefused) => "AI 模型拒绝回答。",
        Some(Reason::ModelTruncated) => "回答超出了允许的长度。",
        Some(Reason::ContextOverflow) => "对话内容超出了 AI 模型能读取的长度。",
        Some(Reason::ModelStopped) => "AI 模型没有写完就停止了。",
        Some(Reason::StepPanicked) => "服务器在执行这一步时发生了故障。",
        Some(Reason::ModelUnpriced) => "费用受预算限制，但不知道 AI 模型的价格。",
        Some(
            Reason::SpendLimit
            | Reason::Batch
            | Reason::Budget
            | Reason::DailyBudget
            | Reason::Scheduled
            | Reason::Waiting
            | Reason::ProviderUnavailable
            | Reason::AttemptLost
            | Reason::Rejected,
        )
        | None => "这一步没能完成。",
    }
}

fn why_cancelled(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::Rejected) => "审批人在这一步拒绝了。",
        Some(Reason::ApprovalExpired) => "没有人在期限内作出决定，按规定视为拒绝。",
        Some(
            Reason::Scheduled
            | Reason::Waiting
            | Reason::ProviderUnavailable
            | Reason::AttemptLost
            | Reason::RecoveriesExhausted
            | Reason::RetryWindowExhausted
            | Reason::ProviderRejected
            | Reason::ProviderUnconfigured
            | Reason::ModelRefused
            | Reason::ModelTruncated
            | Reason::ContextOverflow
            | Reason::ModelStopped
            | Reason::StepPanicked
            | Reason::ModelUnpriced
            | Reason::SpendLimit
            | Reason::Batch
            | Reason::Budget
            | Reason::DailyBudget,
        )
        | None => "任务已应要求停止。",
    }
}
