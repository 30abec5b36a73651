//! Bounds: how much of everything a request may have, and what holds where it says nothing.
//!
//! Validation and both doors read them here, and the comments of the proto tell the same numbers: a test compares them.
//! A pair is the least and the most, both allowed; bytes are those of UTF-8.

/// A day, in seconds.
pub const DAY_SECONDS: i32 = 86_400;

/// The most steps a job may have.
pub const STEPS_MAX: usize = 1000;
/// The longest name of a step.
pub const STEP_NAME_BYTES_MAX: usize = 64;
/// The longest prompt, system prompt or edited output, in bytes.
pub const PROMPT_BYTES_MAX: usize = 1 << 20;
/// The longest task or note, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The longest comment on a decision or a cancel, in bytes.
pub const COMMENT_BYTES_MAX: usize = 4 << 10;
/// The longest name of whoever decides, in bytes.
pub const VOTER_BYTES_MAX: usize = 255;
/// A name or number of a person, or the name of an endpoint with what stands before it, in bytes.
pub const RECIPIENT_BYTES_MAX: usize = 128;

/// The longest id of a model, in bytes.
pub const MODEL_BYTES_MAX: usize = 128;
/// How many tokens an answer may have.
pub const MAX_TOKENS: (i32, i32) = (1, 128_000);
/// How long a model call may take, and how long by default.
pub const TIMEOUT_SECONDS: (i32, i32) = (1, DAY_SECONDS);
/// How long a model call takes at the most, if nothing is said.
pub const TIMEOUT_SECONDS_DEFAULT: i32 = 3600;
/// How long a model call may be silent.
pub const IDLE_TIMEOUT_SECONDS: (i32, i32) = (1, 3600);
/// How long a model call is silent at the most, if nothing is said.
pub const IDLE_TIMEOUT_SECONDS_DEFAULT: i32 = 300;
/// The longest text of free JSON, in bytes.
pub const JSON_BYTES_MAX: usize = 64 << 10;
/// How deep free JSON may be nested; it is what the parser takes.
pub const JSON_DEPTH_MAX: usize = 127;
/// The most texts at which a model stops.
pub const STOP_SEQUENCES_MAX: usize = 16;
/// The longest of them, in bytes.
pub const STOP_SEQUENCE_BYTES_MAX: usize = 256;
/// How many searches a model call may make.
pub const SEARCHES: (i32, i32) = (1, 100);
/// How many it makes at the most, if nothing is said.
pub const SEARCHES_DEFAULT: i32 = 5;
/// The most domains of a list.
pub const DOMAINS_MAX: usize = 100;
/// The longest of them, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 255;
/// The longest part of a place, in bytes.
pub const PLACE_BYTES_MAX: usize = 255;

/// The most people of a list.
pub const PEOPLE_MAX: usize = 64;
/// How long an approval may take.
pub const APPROVAL_SECONDS: (i32, i32) = (1, 30 * DAY_SECONDS);
/// How long it takes at the most, if nothing is said.
pub const APPROVAL_SECONDS_DEFAULT: i32 = DAY_SECONDS;
/// The most reminders of one approval.
pub const REMINDERS_MAX: usize = 10;
/// How often approvers may have something done again.
pub const REVISIONS: (i32, i32) = (0, 20);
/// How long a wait may take.
pub const WAIT_SECONDS: (i32, i32) = (0, 366 * DAY_SECONDS);
/// The years of a moment: a later one has five digits, which Postgres and we write differently; an earlier one is nobody's.
pub const YEARS: (i32, i32) = (1, 9999);

/// How many lost attempts a step survives.
pub const ATTEMPTS: (i32, i32) = (0, 100);
/// How many, if nothing is said.
pub const ATTEMPTS_DEFAULT: i32 = 3;
/// How long a step is tried again after errors that pass.
pub const RETRY_WINDOW_SECONDS: (i32, i32) = (0, 30 * DAY_SECONDS);
/// How long, if nothing is said.
pub const RETRY_WINDOW_SECONDS_DEFAULT: i32 = DAY_SECONDS;
/// The priority of a job.
pub const PRIORITY: (i32, i32) = (-1000, 1000);
/// The longest tag of a language, in bytes.
pub const LANGUAGE_BYTES_MAX: usize = 35;
/// The most labels.
pub const LABELS_MAX: usize = 64;
/// The longest key of a label, in bytes.
pub const LABEL_KEY_BYTES_MAX: usize = 63;
/// The longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 255;
/// The highest budget of a job, in US dollars.
pub const BUDGET_USD_MAX: u32 = 1_000_000;
/// The most endpoints a job may name.
pub const WEBHOOKS_MAX: usize = 16;

/// The most words of a list that picks statuses, deliveries or kinds.
pub const WORDS_MAX: usize = 64;
/// How many rows a page has, if nothing is said.
pub const PAGE_SIZE: i32 = 50;
/// The most jobs or notices of a page.
pub const PAGE_SIZE_MAX: i32 = 200;
/// How many jobs one call moves, if nothing is said.
pub const BULK_PAGE_SIZE: i32 = 500;
/// The most jobs that one call moves.
pub const BULK_PAGE_SIZE_MAX: i32 = 1000;
/// The most rows of a page of usage.
pub const USAGE_PAGE_SIZE_MAX: i32 = 1000;
