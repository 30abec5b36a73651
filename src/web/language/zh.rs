//! The approval page in Chinese, in simplified characters.

use chrono::{DateTime, TimeDelta, Utc};

use super::Language;

/// Chinese.
pub(super) const LANGUAGE: Language = Language {
    tag: "zh",
    page_title: "请您决定",
    note: "请您确认",
    draft: "草稿",
    no_draft: "这一步之前没有草稿。",
    draft_is_cut: "草稿较长，本页未能全部显示。若需了解其余内容，请先索取全文再决定。",
    draft_is_plain: "草稿按原文显示，未做排版。",
    sources: "来源",
    asked_by_job: "来自任务",
    you_decide_as: "您的身份",
    progress: "进度",
    step_of: |step, count| format!("第 {step} 步，共 {count} 步"),
    deadline: "截止时间",
    time_left,
    moment,
    deadline_stands_still: "任务暂停期间不计时",
    cost: "目前费用",
    at_least: |cost| format!("至少 {cost}"),
    votes: "表决情况",
    votes_of: |votes, quorum| format!("已有 {votes} 票批准，共需 {quorum} 票"),
    approved: "已批准",
    rejected: "已拒绝",
    edited: "修改后批准",
    sent_back: "已退回修改",
    is_done_again: "将按意见重新生成，并再次请您确认。",
    by: |who| format!("决定人：{who}"),
    by_deadline: "到期后自动决定",
    comment: "意见",
    optional: "选填",
    approve: "批准",
    reject: "拒绝",
    rejecting_ends: "批准后任务继续；拒绝则任务终止。",
    edit: "修改草稿",
    edit_hint: "批准时将采用您在此处留下的文本。",
    send_back: "退回修改",
    needed_to_send_back: "退回修改时必填",
    paused_title: "任务已暂停",
    paused_open: "您现在就可以决定。决定会先保留，待任务恢复后生效。",
    paused_decided: "任务已暂停。决定会先保留，待任务恢复后生效。",
    contradicted: "您的答复未计入：此事先前已有决定。",
    expired_title: "已过截止时间",
    expired: "截止前无人决定，此请求已无法再答复。",
    superseded_title: "草稿已被修改",
    superseded: "有人修改并批准了草稿。您会收到一条新消息，请您确认修改后的内容。",
    withdrawn_title: "已无需决定",
    withdrawn: "在作出决定之前，任务已经结束或已重新发出请求。",
    voted_title: "您的批准已计入",
    waiting: |missing| format!("谢谢。还需要 {missing} 票批准。"),
    safe_to_close: "您可以关闭本页。",
    unknown_title: "此链接无效",
    unknown: "链接可能不完整。请从您收到的消息中重新打开。",
    foreign_title: "此答复未计入",
    foreign: "它来自其他网站。请从您收到的消息中打开链接，并在该页面上决定。",
    malformed_title: "无法读取此答复",
    malformed: "尚未作出任何决定。请从您收到的消息中重新打开链接。",
    too_long: "尚未作出任何决定：意见过长。请返回并缩短。",
    busy_title: "请稍候",
    busy: "服务器正忙。您的决定可以放心重发：请几秒后刷新本页。",
    broken_title: "出了点问题",
    broken: "问题出在我们这边。请重新打开链接，查看您的决定是否已计入。",
};

fn time_left(left: TimeDelta) -> String {
    let (days, hours, minutes) = (left.num_days(), left.num_hours() % 24, left.num_minutes() % 60);
    match (days, hours, minutes) {
        (1.., 0, _) => format!("还剩 {days} 天"),
        (1.., ..) => format!("还剩 {days} 天 {hours} 小时"),
        (_, 1.., 0) => format!("还剩 {hours} 小时"),
        (_, 1.., _) => format!("还剩 {hours} 小时 {minutes} 分钟"),
        (_, _, 1..) => format!("还剩 {minutes} 分钟"),
        (..) => "还剩不到 1 分钟".to_owned(),
    }
}

fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y年%-m月%-d日 %H:%M（UTC%:z）").to_string()
}
