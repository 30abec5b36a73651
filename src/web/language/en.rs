//! The approval page in English.

use chrono::TimeDelta;

use super::Language;

/// English.
pub(super) const LANGUAGE: Language = Language {
    tag: "en",
    page_title: "Your decision",
    note: "You are asked",
    draft: "Draft",
    no_draft: "There is no draft before this step.",
    draft_is_cut: "The draft is longer than this page shows. Ask for the whole text before you decide on what is missing.",
    draft_is_plain: "The draft is shown as it is, without formatting.",
    sources: "Sources",
    asked_by_job: "Asked by job",
    you_decide_as: "You decide as",
    progress: "Progress",
    step_of: |step, count| format!("Step {step} of {count}"),
    deadline: "Deadline",
    time_left,
    deadline_stands_still: "Stands still while the job is paused",
    cost: "Cost so far",
    usd: |amount| format!("${amount}"),
    at_least: |cost| format!("at least {cost}"),
    votes: "Votes",
    votes_of: |votes, quorum| format!("{votes} of {quorum} approvals"),
    approved: "Approved",
    rejected: "Rejected",
    edited: "Approved with edits",
    sent_back: "Sent back",
    is_done_again: "It is done again with what was asked for, and shown to you anew.",
    by: |who| format!("by {who}"),
    by_deadline: "by itself, when the time was over",
    comment: "Comment",
    optional: "optional",
    approve: "Approve",
    reject: "Reject",
    rejecting_ends: "Approving lets the job go on. Rejecting ends it.",
    edit: "Edit the draft",
    edit_hint: "Approving takes the draft as you leave it here.",
    send_back: "Send back",
    needed_to_send_back: "needed to send it back",
    paused_title: "The job is paused",
    paused_open: "You can decide now. Your decision is kept and takes effect when the job goes on.",
    paused_decided: "The job is paused. The decision is kept and takes effect when the job goes on.",
    contradicted: "Your answer was not counted: this had been decided before.",
    expired_title: "The time is over",
    expired: "Nobody decided before the deadline, so this request can no longer be answered.",
    superseded_title: "The draft was edited",
    superseded: "Somebody edited the draft and approved it. You are asked about the edited one in a new message.",
    withdrawn_title: "No decision is needed any more",
    withdrawn: "The job ended, or asked again, before this request was decided.",
    voted_title: "Your approval is counted",
    waiting: |missing| match missing {
        1 => "Thank you. One more approval is needed.".to_owned(),
        missing => format!("Thank you. {missing} more approvals are needed."),
    },
    safe_to_close: "You can close this page.",
    unknown_title: "This link does not work",
    unknown: "It may be incomplete. Open it again from the message you received.",
    foreign_title: "This answer was not counted",
    foreign: "It came from another website. Open the link from your message and decide there.",
    malformed_title: "This answer could not be read",
    malformed: "Nothing was decided. Open the link from your message again.",
    too_long: "Nothing was decided: the comment is too long. Go back and shorten it.",
    busy_title: "One moment, please",
    busy: "The server is busy. Whatever you decided is safe to send again: reload this page in a few seconds.",
    broken_title: "Something went wrong",
    broken: "The fault is on our side. Open the link again to see whether your decision was counted.",
};

fn time_left(left: TimeDelta) -> String {
    let (days, hours, minutes) = (left.num_days(), left.num_hours() % 24, left.num_minutes() % 60);
    match (days, hours, minutes) {
        (1.., 0, _) => format!("{days} d left"),
        (1.., ..) => format!("{days} d {hours} h left"),
        (_, 1.., 0) => format!("{hours} h left"),
        (_, 1.., _) => format!("{hours} h {minutes} min left"),
        (_, _, 1..) => format!("{minutes} min left"),
        (..) => "less than a minute left".to_owned(),
    }
}
