//! Approvals that are sent back or edited: the step is done again with what was wanted, or goes on as it was edited.

use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, Decision, EventKind, JobStatus, RequestChangesAction, Step,
    Verdict, control_request::Action,
};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{
    PERSON, Rig, Told, approval_step, approve_as, approve_that, job, links, pause, resume, run,
};

const SECOND: &str = "+15550101";

fn reviewed(max_revisions: i32) -> Step {
    let note = "Good?".to_owned();
    approval_step(ApprovalStep { note, max_revisions, ..ApprovalStep::default() })
}

fn edited(quorum: i32) -> Step {
    let approvers = vec![PERSON.to_owned(), SECOND.to_owned()];
    approval_step(ApprovalStep { approvers, quorum, allow_edit: true, ..ApprovalStep::default() })
}

fn send_back(comment: &str) -> Action {
    let comment = comment.to_owned();
    Action::RequestChanges(RequestChangesAction { comment, ..RequestChangesAction::default() })
}

/// Sends back what a certain approval asks about.
fn send_that_back(approval_id: &str, comment: &str) -> Action {
    let (approval_id, comment) = (approval_id.to_owned(), comment.to_owned());
    Action::RequestChanges(RequestChangesAction { approval_id, comment, ..Default::default() })
}

fn edit(output: &str, who: &str) -> Action {
    let (edited_output, on_behalf_of) = (Some(output.to_owned()), who.to_owned());
    Action::Approve(ApproveAction { edited_output, on_behalf_of, ..ApproveAction::default() })
}

/// The turns of the last request whose last turn has this in it.
async fn turns(rig: &Rig, matching: &str) -> Vec<(String, String)> {
    let requests = rig.sandbox.requests(matching).await;
    let messages = requests.last().unwrap()["body"]["messages"].as_array().unwrap().clone();
    let text = |message: &Value| {
        let role = message["role"].as_str().unwrap().to_owned();
        (role, message["content"].as_str().unwrap().to_owned())
    };
    messages.iter().map(text).collect()
}

/// The approval that is pending, once there is another one than before.
async fn asked_again(rig: &Rig, job_id: &str, after: i32) -> String {
    rig.event_after(job_id, EventKind::ApprovalRequested, after).await;
    rig.job(job_id).await.approval.unwrap().approval_id
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_back_is_done_again_with_what_was_wanted() {
    let rig = Rig::start().await;
    rig.submit(job("again", [run("Write a line."), reviewed(2), run("Shorten it.")])).await;
    let asked = rig.settled_as("again", JobStatus::AwaitingApproval).await;
    let (first, first_id) = (asked.output, asked.approval.unwrap().approval_id);
    assert!(rig.control("again", send_back("Name the price.")).await);
    let second_id = asked_again(&rig, "again", asked.last_sequence).await;
    assert_ne!(first_id, second_id);
    let second = rig.job("again").await;
    assert_eq!((second.revision, second.current_step), (2, 2));
    let said = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let expected =
        [said("user", "Write a line."), said("assistant", &first), said("user", "Name the price.")];
    assert_eq!(turns(&rig, "Name the price").await, expected);
    assert_ne!(second.output, first);
    // The same again has happened already; another word about the first one comes too late.
    assert!(!rig.control("again", send_that_back(&first_id, "Name the price.")).await);
    let late = Told::by(rig.try_control("again", approve_that(&first_id)).await);
    assert_eq!((late.code, late.reason.as_str()), (Code::FailedPrecondition, "APPROVAL_CLOSED"));

    rig.control("again", send_that_back(&second_id, "Shorter.")).await;
    let third_id = asked_again(&rig, "again", second.last_sequence).await;
    let third = rig.job("again").await;
    let mut longer = expected.to_vec();
    longer.extend([said("assistant", &second.output), said("user", "Shorter.")]);
    assert_eq!(turns(&rig, "Shorter.").await, longer);
    let enough = rig.try_control("again", send_that_back(&third_id, "Once more.")).await;
    let enough = Told::by(enough);
    assert_eq!(
        (enough.code, enough.reason.as_str()),
        (Code::FailedPrecondition, "CHANGES_NOT_ALLOWED")
    );
    rig.control("again", approve_that(&third_id)).await;
    let done = rig.settled_as("again", JobStatus::Completed).await;
    assert_eq!((done.steps[0].output.as_str(), done.steps[0].revision), (third.output.as_str(), 3));
    let decisions: Vec<Verdict> = done.steps[1].decisions.iter().map(Decision::verdict).collect();
    assert_eq!(decisions, [Verdict::Approve]);
    let conversation = turns(&rig, "Shorten it.").await;
    assert_eq!(conversation[1], said("assistant", &third.output), "later steps see the last one");
    let sent_back = "select count(*) from longhaul.decision where verdict = 'request_changes'";
    assert_eq!(rig.db.number(sent_back).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_with_a_place_for_the_feedback_is_asked_again_with_it() {
    let rig = Rig::start().await;
    let steps = [
        run("Write a line."),
        run("Praise it. {{ feedback }}"),
        approval_step(ApprovalStep { max_revisions: 1, revise_step: 1, ..ApprovalStep::default() }),
    ];
    rig.submit(job("early", steps)).await;
    let asked = rig.settled_as("early", JobStatus::AwaitingApproval).await;
    rig.control("early", send_back("Use fewer words.")).await;
    asked_again(&rig, "early", asked.last_sequence).await;
    // The step that is done again is the one that was named, and those after it follow.
    assert_eq!(turns(&rig, "Use fewer words.").await.len(), 3);
    assert_eq!(rig.sandbox.requests("Praise it. ").await.len(), 2);

    let place = [run("Praise it: {{ feedback }}"), reviewed(1)];
    rig.submit(job("place", place)).await;
    let asked = rig.settled_as("place", JobStatus::AwaitingApproval).await;
    rig.control("place", send_back("be brief")).await;
    asked_again(&rig, "place", asked.last_sequence).await;
    let newer = "select count(*) from longhaul.job where spec_version = 3";
    assert_eq!(rig.db.number(newer).await, 2, "older servers know no feedback");
    let texts: Vec<String> =
        turns(&rig, "Praise it: be brief").await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Praise it: ", &asked.output, "Praise it: be brief"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_wanted_of_an_answer_to_something_else_is_left_out() {
    let rig = Rig::start().await;
    let late = ApprovalStep { max_revisions: 1, revise_step: 1, ..ApprovalStep::default() };
    let steps = [run("Write a line."), run("Praise it."), reviewed(1), approval_step(late)];
    rig.submit(job("both", steps)).await;
    let first = rig.settled_as("both", JobStatus::AwaitingApproval).await;
    rig.control("both", send_back("Praise it more.")).await;
    let second_id = asked_again(&rig, "both", first.last_sequence).await;
    rig.control("both", approve_that(&second_id)).await;
    let third = rig.settled_as("both", JobStatus::AwaitingApproval).await;
    let third_id = third.approval.unwrap().approval_id;
    rig.control("both", send_that_back(&third_id, "Another line.")).await;
    asked_again(&rig, "both", third.last_sequence).await;
    // The first step is asked again with what was wanted; the second stands alone with its new answer.
    assert_eq!(turns(&rig, "Another line.").await.len(), 3);
    let praised = rig.sandbox.requests("Praise it.").await;
    let messages = praised.last().unwrap()["body"]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{messages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_takes_the_place_of_the_output_for_all_that_follows() {
    let rig = Rig::start().await;
    rig.submit(job("edit", [run("Write a line."), edited(1), run("Quote: {{ step_1_output }}")]))
        .await;
    let asked = rig.settled_as("edit", JobStatus::AwaitingApproval).await;
    assert!(rig.control("edit", edit("As I want it.", PERSON)).await);
    let done = rig.settled_as("edit", JobStatus::Completed).await;
    let first = &done.steps[0];
    assert_eq!((first.output.as_str(), first.revision), ("As I want it.", 2));
    assert_eq!((&first.usage, &first.cost_usd), (&asked.steps[0].usage, &asked.steps[0].cost_usd));
    let decision = &done.steps[1].decisions[0];
    assert_eq!((decision.verdict(), decision.edited), (Verdict::Approve, true));
    assert_eq!(rig.sandbox.requests("Quote: As I want it.").await.len(), 1);
    let state = rig.db.state("edit").await;
    assert_eq!(
        (&state["step_1_output"], &state["step_2_decision"]),
        (&json!("As I want it."), &json!("approved"))
    );
    let cost = |cost: &Value| cost.to_string().trim_matches('"').parse::<Decimal>().unwrap();
    assert!(cost(&state["step_1_cost_usd"]) > Decimal::ZERO);
    // The model's own words are still there.
    let kept = "select count(*) from longhaul.checkpoint where job_id = 'edit' and step = 1";
    assert_eq!(rig.db.number(kept).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_several_must_agree_an_edit_voids_earlier_votes_and_asks_the_others_anew() {
    let rig = Rig::start().await;
    rig.submit(job("both", [run("Write a line."), edited(2)])).await;
    let asked = rig.settled_as("both", JobStatus::AwaitingApproval).await;
    let old = links(&rig.sandbox.messages(PERSON, 1).await[0]);
    rig.control("both", approve_as(PERSON)).await;
    let editors = links(&rig.sandbox.messages(SECOND, 1).await[0]);
    let approval_id = asked.approval.clone().unwrap().approval_id;
    let edit = || {
        let (edited_output, on_behalf_of) = (Some("Better so.".to_owned()), SECOND.to_owned());
        let approval_id = approval_id.clone();
        Action::Approve(ApproveAction {
            approval_id,
            edited_output,
            on_behalf_of,
            ..Default::default()
        })
    };
    assert!(rig.control("both", edit()).await);
    assert!(!rig.control("both", edit()).await, "the same again has happened already");
    let new_id = asked_again(&rig, "both", asked.last_sequence).await;
    let again = rig.job("both").await;
    let approval = again.approval.clone().unwrap();
    assert_ne!(asked.approval.unwrap().approval_id, new_id);
    assert_eq!((approval.decisions.len(), approval.decisions[0].edited), (1, true));
    assert_eq!(
        (again.output.as_str(), again.status()),
        ("Better so.", JobStatus::AwaitingApproval)
    );
    // The one who approved the old one is asked about the new one, and the editor is not.
    let anew = rig.sandbox.messages(PERSON, 2).await;
    assert_eq!(rig.sandbox.messages(SECOND, 1).await.len(), 1);
    let page =
        |url: String| async { rig.http.get(url).send().await.unwrap().text().await.unwrap() };
    assert!(page(old[0].clone()).await.contains("The draft was edited"));
    assert!(page(links(&anew[1])[0].clone()).await.contains("Better so."));
    assert!(page(editors[0].clone()).await.contains("One more approval is needed"));
    let approve = ApproveAction {
        approval_id: new_id,
        on_behalf_of: PERSON.to_owned(),
        ..Default::default()
    };
    rig.control("both", Action::Approve(approve)).await;
    assert_eq!(rig.settled_as("both", JobStatus::Completed).await.output, "Better so.");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_does_not_allow_is_refused_and_nothing_is_decided() {
    let rig = Rig::start().await;
    rig.submit(job("plain", [run("Write a line."), approval_step(ApprovalStep::default())])).await;
    let asked = rig.settled_as("plain", JobStatus::AwaitingApproval).await;
    for (action, reason) in
        [(send_back("Shorter."), "CHANGES_NOT_ALLOWED"), (edit("Mine.", ""), "EDIT_NOT_ALLOWED")]
    {
        let told = Told::by(rig.try_control("plain", action).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::FailedPrecondition, reason));
    }
    for (action, field) in
        [(send_back(" "), "request_changes.comment"), (edit("  ", ""), "approve.edited_output")]
    {
        let refused = rig.try_control("plain", action).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(format!("{refused:?}").contains(field), "{refused:?}");
    }
    assert_eq!(rig.job("plain").await.last_sequence, asked.last_sequence);

    let step = |approval: ApprovalStep| {
        [run("a"), approval_step(ApprovalStep::default()), approval_step(approval)]
    };
    for (approval, field) in [
        (ApprovalStep { max_revisions: 21, ..Default::default() }, "max_revisions"),
        (ApprovalStep { revise_step: 1, ..Default::default() }, "revise_step"),
        (ApprovalStep { max_revisions: 1, revise_step: 2, ..Default::default() }, "revise_step"),
        (ApprovalStep { max_revisions: 1, revise_step: 3, ..Default::default() }, "revise_step"),
    ] {
        let refused = rig.try_submit(job("bad", step(approval))).await.unwrap_err();
        let expected = format!("steps[2].approval.{field}");
        assert!(format!("{refused:?}").contains(&expected), "{refused:?}");
    }
    for (approval, field) in [
        (ApprovalStep { max_revisions: 1, ..Default::default() }, "max_revisions"),
        (ApprovalStep { allow_edit: true, ..Default::default() }, "allow_edit"),
    ] {
        let refused = rig.try_submit(job("bad", [approval_step(approval)])).await.unwrap_err();
        assert!(
            format!("{refused:?}").contains(&format!("steps[0].approval.{field}")),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_keeps_what_was_decided_until_it_goes_on() {
    let rig = Rig::start().await;
    let both = ApprovalStep { max_revisions: 1, allow_edit: true, ..ApprovalStep::default() };
    rig.submit(job("held", [run("Write a line."), approval_step(both)])).await;
    let asked = rig.settled_as("held", JobStatus::AwaitingApproval).await;
    rig.control("held", pause()).await;
    assert!(rig.control("held", send_back("Name the price.")).await);
    assert_eq!(rig.job("held").await.status(), JobStatus::Paused);
    rig.control("held", resume()).await;
    asked_again(&rig, "held", asked.last_sequence).await;
    assert_eq!(turns(&rig, "Name the price.").await.len(), 3);
    let again = rig.job("held").await;
    let approval_id = again.approval.unwrap().approval_id;
    rig.control("held", pause()).await;
    let edited_output = Some("Mine.".to_owned());
    let edit = ApproveAction { approval_id, edited_output, ..ApproveAction::default() };
    rig.control("held", Action::Approve(edit)).await;
    rig.control("held", resume()).await;
    assert_eq!(rig.settled_as("held", JobStatus::Completed).await.output, "Mine.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_sends_back_and_edits_too() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "run", "prompt": "Write a line."},
        {"type": "approval", "max_revisions": 1, "allow_edit": true}]);
    rig.post_job(&json!({"job_id": "posted", "task": "t", "steps": steps})).await;
    let asked = rig.settled_as("posted", JobStatus::AwaitingApproval).await;
    let path = "/webhook/durable-job-control";
    let bare = json!({"job_id": "posted", "action": "request_changes"});
    let (status, answer) = rig.post(path, &bare).await;
    assert_eq!(status, 400);
    assert!(answer["message"].as_str().unwrap().starts_with("comment must say"), "{answer}");
    let back = json!({"job_id": "posted", "action": "request_changes", "comment": "Shorter."});
    assert_eq!(rig.post(path, &back).await.0, 200);
    let approval_id = asked_again(&rig, "posted", asked.last_sequence).await;
    let edit = json!({"job_id": "posted", "action": "approve", "approval_id": approval_id,
        "edited_output": "Mine."});
    assert_eq!(rig.post(path, &edit).await.0, 200);
    assert_eq!(rig.settled_as("posted", JobStatus::Completed).await.output, "Mine.");
}
