//! The enums of the proto as short lower-case words, and back.
//!
//! `JOB_STATUS_AWAITING_APPROVAL` is `awaiting_approval` to people, in JSON and on the command line.
//! A number this build does not know is told as that number; both the short word and the full name are read.

use crate::rpc::proto::{
    ContextMode, Delivery, Door, Effort, EventKind, InterruptPolicy, JobStatus, NoticeKind,
    RunMode, StepKind, StepStatus, TimeoutPolicy, TruncationPolicy, Verdict,
};

macro_rules! words {
    ($($name:ident $enum:ident $prefix:literal $doc:literal;)*) => {
        $(
            #[doc = concat!("The short word of ", $doc, ".")]
            pub fn $name(number: i32) -> String {
                $enum::try_from(number).map_or_else(
                    |_| number.to_string(),
                    |value| shorten(value.as_str_name(), $prefix),
                )
            }
        )*
    };
}

macro_rules! readers {
    ($($name:ident $enum:ident $prefix:literal $doc:literal;)*) => {
        $(
            #[doc = concat!("Reads ", $doc, " from its short word or its full name.")]
            pub fn $name(text: &str) -> Option<$enum> {
                $enum::from_str_name(text)
                    .or_else(|| $enum::from_str_name(&lengthen(text, $prefix)?))
                    .filter(|value| *value as i32 != 0)
            }
        )*
    };
}

words! {
    job_status JobStatus "JOB_STATUS_" "a job's status";
    step_kind StepKind "STEP_KIND_" "a step's kind";
    step_status StepStatus "STEP_STATUS_" "a step's status";
    verdict Verdict "VERDICT_" "a verdict";
    door Door "DOOR_" "a door";
    notice_kind NoticeKind "NOTICE_KIND_" "a notice's kind";
    delivery Delivery "DELIVERY_" "a delivery";
    event_kind EventKind "EVENT_KIND_" "an event's kind";
    context_mode ContextMode "CONTEXT_MODE_" "a context mode";
    timeout_policy TimeoutPolicy "TIMEOUT_POLICY_" "a timeout policy";
    effort Effort "EFFORT_" "an effort";
    truncation_policy TruncationPolicy "TRUNCATION_POLICY_" "a truncation policy";
    interrupt_policy InterruptPolicy "INTERRUPT_POLICY_" "an interrupt policy";
    run_mode RunMode "RUN_MODE_" "a run mode";
}

readers! {
    find_job_status JobStatus "JOB_STATUS_" "a job's status";
    find_context_mode ContextMode "CONTEXT_MODE_" "a context mode";
    find_timeout_policy TimeoutPolicy "TIMEOUT_POLICY_" "a timeout policy";
    find_effort Effort "EFFORT_" "an effort";
    find_truncation_policy TruncationPolicy "TRUNCATION_POLICY_" "a truncation policy";
    find_interrupt_policy InterruptPolicy "INTERRUPT_POLICY_" "an interrupt policy";
    find_delivery Delivery "DELIVERY_" "a delivery";
    find_notice_kind NoticeKind "NOTICE_KIND_" "a notice's kind";
    find_run_mode RunMode "RUN_MODE_" "a run mode";
}

fn shorten(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

fn lengthen(word: &str, prefix: &str) -> Option<String> {
    // Only lower case is the short form, so that `Fail` is not a third spelling.
    let short = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    short.then(|| format!("{prefix}{}", word.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_lower_case() {
        assert_eq!(job_status(JobStatus::AwaitingApproval as i32), "awaiting_approval");
        assert_eq!(event_kind(EventKind::JobSubmitted as i32), "job_submitted");
        assert_eq!(job_status(99), "99");
    }

    #[test]
    fn both_spellings_are_read_and_no_third() {
        assert_eq!(find_job_status("paused"), Some(JobStatus::Paused));
        assert_eq!(find_job_status("JOB_STATUS_PAUSED"), Some(JobStatus::Paused));
        assert_eq!(find_job_status("Paused"), None);
        assert_eq!(find_job_status("unspecified"), None);
        assert_eq!(find_context_mode("none"), Some(ContextMode::None));
    }
}
