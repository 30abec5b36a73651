//! The state, fed by hand: what keys and answers make of it, and what it wants.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use prost_types::Timestamp;

use super::{
    ask::Act,
    state::{Input, News, Over, Seen, State, View, Want},
};
use crate::{
    cli::exit::Exit,
    rpc::proto::{
        Approval, Event, GetJobResponse, Job, JobSpec, JobStatus, StatusCount,
        control_request::Action,
    },
};

/// A job that was submitted in this second.
pub fn job(id: &str, status: JobStatus, at: i64) -> Job {
    let asked_at = Some(Timestamp { seconds: at, nanos: 0 });
    let approval = (status == JobStatus::AwaitingApproval).then(|| Approval {
        approval_id: format!("approval-of-{id}"),
        note: format!("May {id} go out?"),
        quorum: 1,
        step: 1,
        asked_at,
        ..Approval::default()
    });
    Job {
        job_id: id.to_owned(),
        task: format!("Task of {id}"),
        status: status.into(),
        step_count: 3,
        created_at: asked_at,
        approval,
        ..Job::default()
    }
}

/// A state that has seen these jobs, in a terminal of this size.
pub fn seen(jobs: Vec<Job>, size: (u16, u16)) -> State {
    let mut state = State { size, server: "http://127.0.0.1:50051".to_owned(), ..State::default() };
    let count = |status: JobStatus| StatusCount {
        status: status.into(),
        count: jobs.iter().filter(|job| job.status() == status).count() as i64,
    };
    let counts = [JobStatus::AwaitingApproval, JobStatus::Running, JobStatus::Completed].map(count);
    let looked = Seen { jobs, counts: counts.into(), ..Seen::default() };
    state.take(Duration::ZERO, Input::Seen(Box::new(looked)));
    state
}

fn many() -> State {
    let running = (0..50).map(|at| job(&format!("job-{at:02}"), JobStatus::Running, at));
    let asking = job("asks", JobStatus::AwaitingApproval, 7);
    seen(running.chain([asking]).collect(), (80, 24))
}

/// Presses these keys one after the other; answers what the last one wants.
pub fn press(state: &mut State, keys: &str) -> Vec<Want> {
    let codes = keys.chars().map(|key| match key {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        '\u{8}' => KeyCode::Backspace,
        other => KeyCode::Char(other),
    });
    codes.fold(Vec::new(), |_, code| hit(state, code))
}

fn hit(state: &mut State, code: KeyCode) -> Vec<Want> {
    state.press(Duration::from_secs(1), KeyEvent::new(code, KeyModifiers::NONE))
}

fn opened(job: &Job) -> Input {
    Input::Opened(Box::new(GetJobResponse { job: Some(job.clone()), spec: None }))
}

fn bad(state: &State) -> &str {
    match &state.news {
        Some(News::Bad(told)) => told,
        Some(News::Good(_)) | None => "",
    }
}

#[test]
fn keys_move_the_selection_and_the_list_follows() {
    let mut state = many();
    assert_eq!(state.selected, ("asks".to_owned(), 0));
    press(&mut state, "jjk");
    assert_eq!(state.selected.0, "job-49");
    hit(&mut state, KeyCode::PageDown);
    let rows = super::draw::rows(&state);
    assert_eq!(state.selected.1, rows);
    assert_eq!(state.offset, 1);
    hit(&mut state, KeyCode::End);
    assert_eq!((state.selected.1, state.offset), (50, 51 - rows));
    hit(&mut state, KeyCode::Down);
    assert_eq!(state.selected.1, 50);
    hit(&mut state, KeyCode::Home);
    assert_eq!((state.selected.1, state.offset), (0, 0));
    hit(&mut state, KeyCode::Up);
    assert_eq!(state.selected.1, 0);
}

#[test]
fn the_selection_stays_with_its_job_when_others_come_and_its_place_when_it_goes() {
    let mut state = many();
    press(&mut state, "sg");
    press(&mut state, "jjj");
    assert_eq!(state.selected.0, "job-46");
    let mut jobs = state.jobs.clone();
    jobs.push(job("newer", JobStatus::Running, 100));
    let look =
        |jobs: &[Job]| Input::Seen(Box::new(Seen { jobs: jobs.to_vec(), ..Seen::default() }));
    state.take(Duration::from_secs(2), look(&jobs));
    assert_eq!(state.selected, ("job-46".to_owned(), 4));
    jobs.retain(|job| job.job_id != "job-46");
    state.take(Duration::from_secs(3), look(&jobs));
    assert_eq!(state.selected, ("job-45".to_owned(), 4));
    state.take(Duration::from_secs(4), look(&[]));
    assert_eq!(state.selected, (String::new(), 0));
    assert_eq!(press(&mut state, "\n"), []);
    assert_eq!(press(&mut state, "c"), []);
}

#[test]
fn an_approval_is_fetched_shown_and_given_only_after_a_yes() {
    let mut state = many();
    let asking = state.jobs[0].clone();
    assert_eq!(press(&mut state, "a"), [Want::Open("asks".to_owned())]);
    assert_eq!(state.over, Over::Nothing, "it is not asked about unseen");
    state.take(Duration::from_secs(2), opened(&asking));
    let Over::Asking(ask) = state.over.clone() else { panic!("{:?}", state.over) };
    assert_eq!((ask.act, ask.note.as_str()), (Act::Approve, "May asks go out?"));
    assert_eq!(press(&mut state, "zaj"), [], "no other key answers");
    assert_eq!(press(&mut state, "n"), []);
    assert_eq!(state.over, Over::Nothing);

    press(&mut state, "a");
    state.take(Duration::from_secs(2), opened(&asking));
    // The list moves meanwhile: the question does not.
    state.take(Duration::from_secs(3), Input::Seen(Box::default()));
    let wanted = press(&mut state, "y");
    let [Want::Act(ask)] = &wanted[..] else { panic!("{wanted:?}") };
    let request = ask.request();
    assert_eq!(request.job_id, "asks");
    let Some(Action::Approve(approve)) = request.action else { panic!("{request:?}") };
    assert_eq!(approve.approval_id, "approval-of-asks");
}

#[test]
fn a_key_pressed_meanwhile_takes_an_unasked_question_back() {
    let mut state = many();
    let asking = state.jobs[0].clone();
    press(&mut state, "aj");
    state.take(Duration::from_secs(2), opened(&asking));
    assert_eq!(state.over, Over::Nothing);
}

#[test]
fn every_action_asks_with_the_id_and_says_what_came_of_it() {
    let mut state = many();
    press(&mut state, "jp");
    let Over::Asking(ask) = state.over.clone() else { panic!("{:?}", state.over) };
    assert_eq!((ask.act, ask.job_id.as_str()), (Act::Pause, "job-49"));
    assert_eq!(press(&mut state, "y"), [Want::Act(ask.clone())]);
    let paused = Box::new(job("job-49", JobStatus::Paused, 49));
    state.take(Duration::from_secs(2), Input::Done(ask, paused, true));
    assert_eq!(state.news, Some(News::Good("paused job-49".to_owned())));
    assert_eq!(state.selected, ("job-49".to_owned(), 1));
    assert_eq!(state.jobs[1].status(), JobStatus::Paused);
    press(&mut state, "p");
    assert_eq!(bad(&state), "job-49 is paused: there is nothing to pause");
    press(&mut state, "t");
    assert_eq!(bad(&state), "job-49 is paused: there is nothing to retry");
    press(&mut state, "r");
    assert!(matches!(&state.over, Over::Asking(ask) if ask.act == Act::Resume));
    let refused = "not resumed: job-49: no (JOB_STATE_CONFLICT)".to_owned();
    state.take(Duration::from_secs(3), Input::Refused(refused.clone()));
    assert_eq!(bad(&state), refused);
}

#[test]
fn a_filter_is_typed_applied_and_taken_back() {
    let mut state = many();
    assert_eq!(press(&mut state, "/job-1q\u{8}\n"), [Want::Look]);
    assert_eq!(state.jobs.len(), 10);
    assert!(!state.has_looked, "what the server has of it is not known yet");
    let all = Seen { jobs: many().jobs, ..Seen::default() };
    state.take(Duration::from_secs(2), Input::Seen(Box::new(all)));
    assert_eq!((state.jobs.len(), state.pending.len()), (10, 1), "who waits is told all the same");
    press(&mut state, "/ x y\n");
    assert!(bad(&state).contains("`job-1` and `x`"), "{:?}", state.news);
    assert!(matches!(state.over, Over::Typing(_)), "it can be mended");
    assert_eq!(press(&mut state, "\u{1b}"), []);
    assert_eq!(state.filter.text, "job-1");
    assert_eq!(press(&mut state, "\u{1b}"), [Want::Look]);
    assert!(state.filter.is_empty());
    assert_eq!(press(&mut state, "\u{1b}"), [], "there is none to take back");
}

#[test]
fn a_job_is_opened_scrolled_watched_and_left() {
    let mut state = many();
    let id = "asks".to_owned();
    assert_eq!(press(&mut state, "\n"), [Want::Open(id.clone()), Want::Look]);
    assert_eq!(state.view, View::Job);
    let mut whole = state.jobs[0].clone();
    whole.output = "line\n".repeat(100);
    state.take(Duration::from_secs(2), opened(&whole));
    hit(&mut state, KeyCode::End);
    let bottom = state.scroll;
    assert!(bottom > 80);
    hit(&mut state, KeyCode::Down);
    assert_eq!(state.scroll, bottom, "it ends");
    press(&mut state, "k");
    assert_eq!(state.scroll, bottom - 1);
    assert_eq!(press(&mut state, "w"), [Want::Watch(id.clone()), Want::Look]);
    let event = |sequence| Box::new(Event { sequence, ..Event::default() });
    state.take(Duration::from_secs(3), Input::Happened("other".to_owned(), event(9)));
    assert!(state.events.is_empty(), "of a watch that was left");
    for sequence in 1..100 {
        state.take(Duration::from_secs(3), Input::Happened(id.clone(), event(sequence)));
    }
    press(&mut state, "kkk");
    state.take(Duration::from_secs(4), Input::Happened(id.clone(), event(100)));
    assert_eq!(state.back, 4, "who reads what was before goes on reading it");
    assert_eq!(press(&mut state, "\u{1b}"), [Want::Unwatch, Want::Look]);
    assert_eq!((state.view, state.open_id.as_ref()), (View::List, None));
}

#[test]
fn a_later_look_keeps_the_submission_of_the_open_job() {
    let mut state = many();
    press(&mut state, "\n");
    let whole = state.jobs[0].clone();
    let first = GetJobResponse { job: Some(whole.clone()), spec: Some(JobSpec::default()) };
    state.take(Duration::from_secs(2), Input::Opened(Box::new(first)));
    let opened = Some(GetJobResponse { job: Some(whole), spec: None });
    let look = Seen { jobs: state.jobs.clone(), opened, ..Seen::default() };
    state.take(Duration::from_secs(3), Input::Seen(Box::new(look)));
    assert!(state.opened("asks").is_some_and(|(opened, _)| opened.spec.is_some()));
}

#[test]
fn a_server_that_is_away_is_told_until_it_is_back() {
    let mut state = many();
    state.take(Duration::from_secs(5), Input::Away("refused".to_owned()));
    state.take(Duration::from_secs(9), Input::Away("still".to_owned()));
    assert_eq!(state.away, Some((Duration::from_secs(5), "still".to_owned())));
    assert_eq!(state.jobs.len(), 51, "what was known stays");
    state.take(Duration::from_secs(10), Input::Seen(Box::default()));
    assert_eq!(state.away, None);
}

#[test]
fn it_is_left_with_q_and_with_ctrl_c() {
    let mut state = many();
    assert_eq!(press(&mut state, "?q"), [], "the keys are closed by any key");
    assert_eq!(press(&mut state, "q"), [Want::Leave(Exit::Ok)]);
    press(&mut state, "/");
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let wanted = state.press(Duration::from_secs(1), ctrl_c);
    assert_eq!(wanted, [Want::Leave(Exit::Interrupted)]);
}

#[test]
fn the_help_tells_every_key_that_acts() {
    let told = super::key::KEYS.map(|(key, _)| key).join(" ");
    for key in ('a'..='z').filter(|key| Act::of_key(*key).is_some()) {
        assert!(told.split(' ').any(|word| word == key.to_string()), "{key} is not in {told}");
    }
}
