//! What only the webhooks can be sent: JSON of another form than the request has, and words in place of numbers.

use longhaul::domain::reason::Reason;
use serde_json::{Value, json};

use super::{ASKED, long};

/// A path, a body, and the reason and field of its refusal.
pub(super) struct Post(pub &'static str, pub Value, pub Reason, pub &'static str);

fn steps() -> Vec<(Value, &'static str)> {
    let far = "+12026-01-01T00:00:00Z";
    vec![
        (json!({"type": "dance"}), "steps[0].type"),
        (json!({"type": 7}), "steps[0].type"),
        (json!({"prompt": "x"}), "steps[0].type"),
        (json!("run"), "steps[0]"),
        (json!(null), "steps[0]"),
        (json!({"type": "run"}), "steps[0].prompt"),
        (json!({"type": "run", "prompt": 7}), "steps[0].prompt"),
        (json!({"type": "run", "prompt": null}), "steps[0].prompt"),
        (json!({"type": "run", "prompt": "x", "promt": "y"}), "steps[0].promt"),
        (json!({"type": "run", "prompt": "x", "note": "y"}), "steps[0].note"),
        (json!({"type": "run", "prompt": "x", "max_tokens": "many"}), "steps[0].max_tokens"),
        (json!({"type": "run", "prompt": "x", "max_tokens": 1.5}), "steps[0].max_tokens"),
        (json!({"type": "run", "prompt": "x", "max_tokens": 1e30}), "steps[0].max_tokens"),
        (
            json!({"type": "run", "prompt": "x", "max_tokens": 4_294_967_297_i64}),
            "steps[0].max_tokens",
        ),
        (json!({"type": "run", "prompt": "x", "context": "all"}), "steps[0].context"),
        (json!({"type": "run", "prompt": "x", "mode": "BATCH"}), "steps[0].mode"),
        (json!({"type": "run", "prompt": "x", "effort": 3}), "steps[0].effort"),
        (json!({"type": "run", "prompt": "x", "on_truncated": "x"}), "steps[0].on_truncated"),
        (json!({"type": "run", "prompt": "x", "on_interrupt": "x"}), "steps[0].on_interrupt"),
        (json!({"type": "run", "prompt": "x", "stop_sequences": "x"}), "steps[0].stop_sequences"),
        (
            json!({"type": "run", "prompt": "x", "web_search": {"depth": 1}}),
            "steps[0].web_search.depth",
        ),
        (
            json!({"type": "run", "prompt": "x", "web_search": {"user_location": {"planet": "x"}}}),
            "steps[0].web_search.user_location.planet",
        ),
        (json!({"type": "approval", "on_timeout": "shrug"}), "steps[0].on_timeout"),
        (json!({"type": "approval", "allow_edit": "yes"}), "steps[0].allow_edit"),
        (
            json!({"type": "approval", "remind_before_seconds": [60, "x"]}),
            "steps[0].remind_before_seconds[1]",
        ),
        (json!({"type": "wait"}), "steps[0]"),
        (
            json!({"type": "wait", "duration_seconds": 1, "until_at": "2027-01-01T00:00:00Z"}),
            "steps[0]",
        ),
        (json!({"type": "wait", "until_at": "tomorrow"}), "steps[0].until_at"),
        (json!({"type": "wait", "until_at": 1_764_439_000}), "steps[0].until_at"),
        (json!({"type": "wait", "until_at": "2026-02-30T00:00:00Z"}), "steps[0].until_at"),
        (json!({"type": "wait", "until_at": far}), "steps[0].until_at"),
        (json!({"type": "wait", "until_at": "0000-01-01T00:00:00Z"}), "steps[0].until_at"),
    ]
}

fn jobs() -> Vec<(Value, &'static str)> {
    let wait = || json!([{"type": "wait", "duration_seconds": 60}]);
    let with = |settings: Value| json!({"job_id": "bad", "steps": wait(), "settings": settings});
    let mut rows: Vec<(Value, &'static str)> = vec![
        (json!({"job_id": 1.5, "steps": wait()}), "job_id"),
        (json!({"job_id": true, "steps": wait()}), "job_id"),
        (json!({"job_id": [], "steps": wait()}), "job_id"),
        (json!({"job_id": "bad"}), "steps"),
        (json!({"job_id": "bad", "steps": null}), "steps"),
        (json!({"job_id": "bad", "steps": "run"}), "steps"),
        (json!({"job_id": "bad", "steps": {}}), "steps"),
        (json!({"job_id": "bad", "steps": wait(), "task": 7}), "task"),
        (json!({"job_id": "bad", "steps": wait(), "title": "x"}), "title"),
        (json!({"job_id": "bad", "steps": wait(), "validate_only": "yes"}), "validate_only"),
        (json!({"job_id": "bad", "steps": wait(), "settings": []}), "settings"),
        (json!({"job_id": "bad", "steps": wait(), "settings": "x"}), "settings"),
        (with(json!({"retries": 1})), "settings.retries"),
        (with(json!({"labels": []})), "settings.labels"),
        (with(json!({"labels": {"a": 1}})), "settings.labels.a"),
        (with(json!({"notify": "+15550100"})), "settings.notify"),
        (with(json!({"notify": [15_550_100]})), "settings.notify[0]"),
        (with(json!({"run_at": "+12026-01-01T00:00:00Z"})), "settings.run_at"),
        (with(json!({"run_at": "2026-01-01"})), "settings.run_at"),
        (with(json!({"budget_usd": "2,50"})), "settings.budget_usd"),
        (with(json!({"budget_usd": "NaN"})), "settings.budget_usd"),
        (with(json!({"budget_usd": 1e300})), "settings.budget_usd"),
        (with(json!({"budget_usd": 1e-300})), "settings.budget_usd"),
        (with(json!({"budget_usd": true})), "settings.budget_usd"),
        (with(json!({"budget_usd": [2]})), "settings.budget_usd"),
        (with(json!({"priority": "high"})), "settings.priority"),
        (with(json!({"max_attempts": 2_147_483_648_i64})), "settings.max_attempts"),
    ];
    let of_step = |(step, field)| (json!({"job_id": "bad", "steps": [step]}), field);
    rows.extend(steps().into_iter().map(of_step));
    rows
}

fn actions() -> Vec<(Value, &'static str)> {
    let on = |more: Value| {
        let mut body = json!({"job_id": ASKED, "action": "pause"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        (json!({"job_id": ASKED}), "action"),
        (on(json!({"action": "explode"})), "action"),
        (on(json!({"action": "Pause"})), "action"),
        (on(json!({"action": 7})), "action"),
        (on(json!({"why": "y"})), "why"),
        (on(json!({"now": "yes"})), "now"),
        (on(json!({"comment": "y"})), "comment"),
        (on(json!({"from_step": 2})), "from_step"),
        (on(json!({"edited_output": "y"})), "edited_output"),
        (on(json!({"include_links": true})), "include_links"),
        (on(json!({"budget_usd": 2})), "budget_usd"),
        (on(json!({"action": "resume", "budget_usd": "2,5"})), "budget_usd"),
        (on(json!({"action": "retry", "from_step": "one"})), "from_step"),
        (on(json!({"action": "approve", "comment": 7})), "comment"),
        (on(json!({"action": "approve", "comment": long(4097)})), "comment"),
        (on(json!({"action": "reject", "now": true})), "now"),
    ]
}

/// Each is one request with one fault.
pub(super) fn rows() -> Vec<Post> {
    let jobs = jobs()
        .into_iter()
        .map(|(body, field)| Post("/webhook/durable-job", body, Reason::InvalidRequest, field));
    let actions = actions().into_iter().map(|(body, field)| {
        Post("/webhook/durable-job-control", body, Reason::InvalidRequest, field)
    });
    jobs.chain(actions).collect()
}
