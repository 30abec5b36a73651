//! Prompts: what the model is asked at a step, made of the job's specification and the outputs of earlier steps.
//!
//! In a conversation the earlier run steps are the earlier turns, and the task is the first line of the system prompt;
//! without one the prompt stands alone. What a template puts in is bounded before it is put in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::call::{Call, Role, Turn, WebSearch};
use super::error::{ModelError, Retry};
use crate::domain::decide::Round;
use crate::domain::job::Reason;
use crate::domain::spec::{RunSpec, Spec, Work};
use crate::domain::submission::{ContextMode, RunMode};
use crate::domain::template::{Name, Template};
use crate::domain::validate::json::Object;

/// The provider takes 32 MB; what JSON adds to the text has room beside it.
const CALL_BYTES_MAX: usize = 24 << 20;

/// The steps whose outputs the prompt of a step is made of.
pub fn needed_steps(spec: &Spec, step: i32, run: &RunSpec) -> Vec<i32> {
    let mut needed = BTreeSet::new();
    match run.context {
        ContextMode::None => needed.extend(named_steps(spec, &run.prompt)),
        // The prompts of earlier turns name only what is earlier still.
        ContextMode::Conversation => needed.extend(1..step),
    }
    needed.into_iter().collect()
}

fn named_steps(spec: &Spec, prompt: &str) -> Vec<i32> {
    let Ok(template) = Template::parse(prompt) else { return Vec::new() };
    template.names().filter_map(|name| find_step(spec, name)).collect()
}

fn find_step(spec: &Spec, name: &Name) -> Option<i32> {
    match name {
        Name::Task | Name::Feedback => None,
        Name::StepOutput(step) => i32::try_from(*step).ok(),
        Name::NamedOutput(name) => {
            let at = spec.steps.iter().position(|step| step.name.as_deref() == Some(name))?;
            i32::try_from(at + 1).ok()
        }
    }
}

/// The request of a run step.
pub fn call(
    spec: &Spec,
    step: i32,
    run: &RunSpec,
    outputs: &BTreeMap<i32, String>,
    rounds: &[Round],
) -> Result<Call, ModelError> {
    let mut system = run.system.clone().or_else(|| spec.system.clone());
    let mut turns = Vec::new();
    let mut room = CALL_BYTES_MAX;
    if run.context == ContextMode::Conversation {
        if !spec.task.is_empty() {
            let rest = system.map(|system| format!("\n\n{system}")).unwrap_or_default();
            system = Some(format!("{}{rest}", spec.task));
        }
        for (number, output) in outputs.range(..step) {
            let earlier = spec.find_step(*number).map(|step| &step.work);
            if let (Some(Work::Run(earlier)), false) = (earlier, output.is_empty()) {
                let asked = render(spec, &earlier.prompt, outputs, "", room)?;
                room = room.checked_sub(asked.len() + output.len()).ok_or_else(too_long)?;
                turns.push(Turn { role: Role::User, text: asked });
                turns.push(Turn { role: Role::Assistant, text: output.clone() });
            }
        }
    }
    ask(spec, run, outputs, rounds, room, &mut turns)?;
    let web_search = run.web_search.as_ref().map(|search| WebSearch {
        max_uses: search.max_uses,
        allowed_domains: search.allowed_domains.clone(),
        blocked_domains: search.blocked_domains.clone(),
        user_location: search.user_location.clone(),
    });
    let options = &run.options;
    let raw = |text: &String| serde_json::from_str(text).map_err(|error| unreadable(&error));
    let output_schema = options.output_schema_json.as_ref().map(raw).transpose()?;
    let extra = options.extra_json.as_deref().map(serde_json::from_str::<Object>).transpose();
    Ok(Call {
        model: run.model.clone(),
        max_tokens: run.max_tokens,
        system,
        turns,
        web_search,
        timeout: Duration::from_secs(run.timeout_seconds.into()),
        idle_timeout: Duration::from_secs(run.idle_timeout_seconds.into()),
        effort: options.effort,
        output_schema,
        stop_sequences: options.stop_sequences.clone(),
        on_truncated: options.on_truncated,
        extra: extra.map_err(|error| unreadable(&error))?.map_or_else(Vec::new, |extra| extra.0),
        is_cached: is_worth_caching(spec, step),
        begun: None,
        paused_contents: Vec::new(),
        continuations: 0,
        is_batched: options.mode == RunMode::Batch,
    })
}

/// What the step asks, after what it answered before and what was wanted changed of that.
///
/// A prompt that has a place for the feedback is asked again with it; else the feedback is a turn of its own.
fn ask(
    spec: &Spec,
    run: &RunSpec,
    outputs: &BTreeMap<i32, String>,
    rounds: &[Round],
    mut room: usize,
    turns: &mut Vec<Turn>,
) -> Result<(), ModelError> {
    let has_place = run.has_place_for_feedback();
    let mut asked = render(spec, &run.prompt, outputs, "", room)?;
    for Round { answer, feedback } in rounds {
        room = room.checked_sub(asked.len() + answer.len()).ok_or_else(too_long)?;
        let next = if has_place {
            render(spec, &run.prompt, outputs, feedback, room)?
        } else {
            feedback.clone()
        };
        turns.push(Turn { role: Role::User, text: std::mem::replace(&mut asked, next) });
        turns.push(Turn { role: Role::Assistant, text: answer.clone() });
    }
    room.checked_sub(asked.len()).ok_or_else(too_long)?;
    turns.push(Turn { role: Role::User, text: asked });
    Ok(())
}

/// Whether the step right before it or right after it belongs to the same conversation: what is kept for minutes costs
/// more to write and much less to read, so that it pays only where nobody is waited for in between.
fn is_worth_caching(spec: &Spec, step: i32) -> bool {
    let converses = |step: i32| match spec.find_step(step).map(|step| &step.work) {
        Some(Work::Run(run)) => run.context == ContextMode::Conversation,
        Some(Work::Approval(_) | Work::Wait(_)) | None => false,
    };
    converses(step) && (converses(step - 1) || converses(step + 1))
}

/// Submit has checked it, so this is a row that somebody else has changed.
fn unreadable(error: &serde_json::Error) -> ModelError {
    refused(&format!("the step's free JSON cannot be read: {error}"))
}

fn render(
    spec: &Spec,
    prompt: &str,
    outputs: &BTreeMap<i32, String>,
    feedback: &str,
    room: usize,
) -> Result<String, ModelError> {
    let lookup = |name: &Name| match name {
        Name::Task => Some(spec.task.as_str()),
        Name::Feedback => Some(feedback),
        Name::StepOutput(_) | Name::NamedOutput(_) => {
            find_step(spec, name).and_then(|step| outputs.get(&step)).map(String::as_str)
        }
    };
    // Submit has checked the template and its names; what outputs make of it is known only now.
    let rendered = Template::parse(prompt).and_then(|template| template.render(room, lookup));
    rendered.map_err(|error| refused(&format!("the prompt could not be made: {error}")))
}

fn too_long() -> ModelError {
    let message = "the conversation so far is longer than the provider takes";
    ModelError { reason: Reason::ContextOverflow, ..refused(message) }
}

fn refused(message: &str) -> ModelError {
    ModelError {
        reason: Reason::ProviderRejected,
        retry: Retry::Never,
        message: message.into(),
        request_id: None,
        usage: None,
        is_overload: false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::spec::Defaults;
    use crate::domain::submission::Submission;
    use crate::domain::validate::freeze;

    fn spec(context: &str, prompts: &[&str]) -> Spec {
        let steps: Vec<_> = prompts
            .iter()
            .map(|prompt| serde_json::json!({"type": "run", "prompt": prompt, "context": context}))
            .collect();
        let submission = serde_json::json!({"task": "Launch", "steps": steps});
        let submission = Submission::read(submission.as_object().unwrap().clone()).unwrap();
        let defaults = Defaults {
            model: "m".to_owned(),
            max_tokens: 1,
            notify: Vec::new(),
            language: None,
            context: ContextMode::None,
            book: Arc::default(),
        };
        freeze(&submission, &defaults).unwrap()
    }

    fn run(spec: &Spec, step: i32) -> &RunSpec {
        match &spec.find_step(step).unwrap().work {
            Work::Run(run) => run,
            Work::Approval(_) | Work::Wait(_) => unreachable!("a run step"),
        }
    }

    fn outputs() -> BTreeMap<i32, String> {
        BTreeMap::from([(1, "one".to_owned()), (2, "two".to_owned())])
    }

    #[test]
    fn a_conversation_has_the_earlier_steps_as_turns_and_the_task_as_system() {
        let spec = spec("conversation", &["a", "b {{ step_1_output }}", "c"]);
        let call = call(&spec, 3, run(&spec, 3), &outputs(), &[]).unwrap();
        let texts: Vec<&str> = call.turns.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, ["a", "one", "b one", "two", "c"]);
        assert_eq!(call.system.as_deref(), Some("Launch"));
        assert_eq!(needed_steps(&spec, 3, run(&spec, 3)), [1, 2]);
    }

    #[test]
    fn a_prompt_alone_needs_only_what_it_names() {
        let spec = spec("none", &["a", "b", "{{ step_2_output }} {{ task }}"]);
        let call = call(&spec, 3, run(&spec, 3), &outputs(), &[]).unwrap();
        assert_eq!((call.turns.len(), call.turns[0].text.as_str()), (1, "two Launch"));
        assert_eq!(call.system, None);
        assert_eq!(needed_steps(&spec, 3, run(&spec, 3)), [2]);
    }

    #[test]
    fn a_step_that_was_sent_back_sees_its_answers_and_what_was_wanted() {
        let rounds = ["too long", "too dry"].map(|feedback| Round {
            answer: format!("answer before {feedback:?}"),
            feedback: feedback.to_owned(),
        });
        let texts = |prompt: &str| {
            let spec = spec("none", &[prompt]);
            let call = call(&spec, 1, run(&spec, 1), &outputs(), &rounds).unwrap();
            call.turns.into_iter().map(|turn| turn.text).collect::<Vec<String>>()
        };
        let (first, second) = ("answer before \"too long\"", "answer before \"too dry\"");
        assert_eq!(texts("a"), ["a", first, "too long", second, "too dry"]);
        assert_eq!(
            texts("a [{{ feedback }}]"),
            ["a []", first, "a [too long]", second, "a [too dry]"]
        );
    }

    #[test]
    fn a_prompt_that_grows_beyond_the_providers_limit_is_refused_before_it_grows() {
        let prompt = "{{ step_1_output }}".repeat(5_000);
        let spec = spec("none", &["a", &prompt]);
        let outputs = BTreeMap::from([(1, "x".repeat(1 << 20))]);
        let error = call(&spec, 2, run(&spec, 2), &outputs, &[]).unwrap_err();
        assert_eq!((error.reason, error.retry), (Reason::ProviderRejected, Retry::Never));
    }
}
