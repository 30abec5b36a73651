//! Run steps: what is asked of the model, and how.

use super::bound::{
    DOMAIN_BYTES_MAX, DOMAINS_MAX, IDLE_TIMEOUT_SECONDS, IDLE_TIMEOUT_SECONDS_DEFAULT, MAX_TOKENS,
    PLACE_BYTES_MAX, SEARCHES, SEARCHES_DEFAULT, STOP_SEQUENCE_BYTES_MAX, STOP_SEQUENCES_MAX,
    TIMEOUT_SECONDS, TIMEOUT_SECONDS_DEFAULT,
};
use super::{Faults, Known, PROMPT_BYTES_MAX, check_model, json};
use crate::domain::spec::{RunOptions, RunSpec, WebSearchSpec};
use crate::domain::submission::{InterruptPolicy, RunMode, RunStep, Step, UserLocation, WebSearch};
use crate::domain::template::{Name, Template};

pub(super) fn freeze_run(
    at: usize,
    run: &RunStep,
    known: &Known<'_>,
    faults: &mut Faults,
) -> RunSpec {
    let field = |name: &str| format!("steps[{at}].run.{name}");
    if run.prompt.trim().is_empty() {
        faults.add(field("prompt"), "must not be empty");
    }
    faults.check_text(&field("prompt"), &run.prompt, PROMPT_BYTES_MAX);
    check_template(at, &field("prompt"), &run.prompt, known, faults);
    let system = run.system.as_deref().unwrap_or_default();
    faults.check_text(&field("system"), system, PROMPT_BYTES_MAX);
    check_model(&field("model"), run.model.as_deref(), faults);
    let web_search = run
        .web_search
        .as_ref()
        .map(|search| freeze_web_search(&field("web_search"), search, faults));
    let default_tokens = i32::try_from(known.defaults.max_tokens).unwrap_or(i32::MAX);
    // One that is wrong has been told already.
    let of_settings = known.settings.max_tokens;
    let of_settings = of_settings.filter(|most| (MAX_TOKENS.0..=MAX_TOKENS.1).contains(most));
    let default_tokens = of_settings.unwrap_or(default_tokens);
    let max_tokens =
        faults.check_range(&field("max_tokens"), run.max_tokens, MAX_TOKENS, default_tokens);
    let timeout = faults.check_range(
        &field("timeout_seconds"),
        run.timeout_seconds,
        TIMEOUT_SECONDS,
        TIMEOUT_SECONDS_DEFAULT,
    );
    let idle = faults.check_range(
        &field("idle_timeout_seconds"),
        run.idle_timeout_seconds,
        IDLE_TIMEOUT_SECONDS,
        IDLE_TIMEOUT_SECONDS_DEFAULT,
    );
    let settings = known.settings;
    let options = freeze_options(&field, run, faults);
    RunSpec {
        prompt: run.prompt.clone(),
        system: run.system.clone(),
        model: (run.model.as_ref().or(settings.model.as_ref()))
            .unwrap_or(&known.defaults.model)
            .clone(),
        max_tokens: max_tokens.unsigned_abs(),
        web_search,
        context: run.context.unwrap_or(known.defaults.context),
        timeout_seconds: timeout.unsigned_abs(),
        idle_timeout_seconds: idle.unsigned_abs(),
        options,
    }
}

fn freeze_options(
    field: &impl Fn(&str) -> String,
    run: &RunStep,
    faults: &mut Faults,
) -> RunOptions {
    if let Some(schema) = &run.output_schema_json {
        json::check_object(&field("output_schema_json"), schema, &[], faults);
    }
    let stops = &run.stop_sequences;
    let is_short = faults.check_count(&field("stop_sequences"), stops.len(), STOP_SEQUENCES_MAX);
    for (at, text) in stops.iter().enumerate().filter(|_| is_short) {
        let field = field(&format!("stop_sequences[{at}]"));
        if text.trim().is_empty() {
            faults.add(&field, "must not be blank");
        }
        faults.check_text(&field, text, STOP_SEQUENCE_BYTES_MAX);
    }
    let on_interrupt = run.on_interrupt.unwrap_or_default();
    let goes_on = on_interrupt == InterruptPolicy::Continue;
    if goes_on && run.output_schema_json.is_some() {
        faults.add(field("on_interrupt"), "must be restart where output_schema_json is set");
    }
    if goes_on && run.mode == Some(RunMode::Batch) {
        // Nothing of it is seen before it is whole.
        faults.add(field("on_interrupt"), "must be restart where mode is batch");
    }
    if let Some(extra) = &run.extra_json {
        let mut ours =
            vec!["model", "max_tokens", "messages", "system", "stream", "stop_sequences"];
        if run.web_search.is_some() {
            ours.push("tools");
        }
        // A form that is given there cannot be gone on with either.
        if run.effort.is_some() || run.output_schema_json.is_some() || goes_on {
            ours.push("output_config");
        }
        if run.mode == Some(RunMode::Batch) {
            // The provider takes no part of a batch that asks for it.
            ours.extend(["speed", "fallbacks", "thread"]);
        }
        json::check_object(&field("extra_json"), extra, &ours, faults);
    }
    RunOptions {
        effort: run.effort,
        output_schema_json: run.output_schema_json.clone(),
        stop_sequences: run.stop_sequences.clone(),
        on_truncated: run.on_truncated.unwrap_or_default(),
        extra_json: run.extra_json.clone(),
        on_interrupt,
        mode: run.mode.unwrap_or_default(),
    }
}

fn check_template(at: usize, field: &str, prompt: &str, known: &Known<'_>, faults: &mut Faults) {
    let template = match Template::parse(prompt) {
        Ok(template) => template,
        Err(error) => return faults.add(field, error.to_string()),
    };
    for name in template.names() {
        let (what, found) = match name {
            Name::Task | Name::Feedback => continue,
            Name::StepOutput(step) => {
                (format!("step_{step}_output"), (*step as usize).checked_sub(1))
            }
            Name::NamedOutput(name) => {
                (format!("{name}.output"), known.names.get(name.as_str()).copied())
            }
        };
        match found.and_then(|found| known.steps.get(found).map(|step| (found, step))) {
            None => faults.add(field, format!("names `{what}`, and there is no such step")),
            Some((found, _)) if found >= at => {
                faults.add(field, format!("names `{what}`, which is not an earlier step"));
            }
            Some((_, Step::Run(_))) => {}
            Some((_, Step::Approval(_) | Step::Wait(_))) => {
                faults.add(field, format!("names `{what}`, which is not a run step"));
            }
        }
    }
}

fn freeze_web_search(field: &str, search: &WebSearch, faults: &mut Faults) -> WebSearchSpec {
    let max_uses = faults.check_range(
        &format!("{field}.max_uses"),
        search.max_uses,
        SEARCHES,
        SEARCHES_DEFAULT,
    );
    if !search.allowed_domains.is_empty() && !search.blocked_domains.is_empty() {
        faults
            .add(format!("{field}.blocked_domains"), "must be empty where allowed_domains is set");
    }
    for (list, domains) in
        [("allowed_domains", &search.allowed_domains), ("blocked_domains", &search.blocked_domains)]
    {
        if !faults.check_count(&format!("{field}.{list}"), domains.len(), DOMAINS_MAX) {
            continue;
        }
        for (at, domain) in domains.iter().enumerate() {
            let bad = |c: char| c.is_whitespace() || c.is_control() || c == '*' || c == ':';
            if domain.is_empty() || domain.len() > DOMAIN_BYTES_MAX || domain.contains(bad) {
                faults
                    .add(format!("{field}.{list}[{at}]"), "must be a domain such as `example.com`");
            }
        }
    }
    if let Some(UserLocation { city, region, country, timezone }) = &search.user_location {
        let parts =
            [("city", city), ("region", region), ("country", country), ("timezone", timezone)];
        for (name, text) in parts {
            faults.check_line(&format!("{field}.user_location.{name}"), text, PLACE_BYTES_MAX);
        }
        let is_code = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_uppercase());
        if !country.is_empty() && !is_code {
            faults
                .add(format!("{field}.user_location.country"), "must be two letters such as `PT`");
        }
    }
    WebSearchSpec {
        max_uses: max_uses.unsigned_abs(),
        allowed_domains: search.allowed_domains.clone(),
        blocked_domains: search.blocked_domains.clone(),
        user_location: search.user_location.clone(),
    }
}
