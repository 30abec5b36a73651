//! Frames, drawn into memory: what stands on them at 80 by 24, at 200 by 50, and where there is next to no room.

use std::time::Duration;

use chrono::DateTime;
use prost_types::Timestamp;
use ratatui::{
    Terminal,
    backend::TestBackend,
    style::{Color, Modifier},
};

use super::{Look, draw};
use crate::{
    cli::{
        render::width,
        top::{
            state::{Input, Seen, Spent, State},
            tests::{job, press, seen},
        },
    },
    rpc::proto::{
        Event, Failure, GetJobResponse, Job, JobStatus, StatusCount, StepKind, StepState,
        StepStatus, Usage, UsageRow,
    },
};

const PLAIN: Look = Look { has_colour: false };

fn terminal(state: &State, look: Look) -> Terminal<TestBackend> {
    let (wide, high) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(wide, high)).expect("it is in memory");
    terminal.draw(|frame| draw(frame, state, look)).expect("it is in memory");
    terminal
}

/// The rows of a frame; what takes two cells stands in the first of them.
fn rows(state: &State) -> Vec<String> {
    let terminal = terminal(state, PLAIN);
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let (mut row, mut x) = (String::new(), 0);
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            x += width(symbol).max(1) as u16;
        }
        row.trim_end().to_owned()
    };
    (0..buffer.area.height).map(row).collect()
}

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

/// A state with a bit of everything, 100 seconds after the epoch.
fn example(size: (u16, u16)) -> State {
    let mut asking = job("launch-copy", JobStatus::AwaitingApproval, 40);
    asking.task = "为一款记账App写推广文案 🚀".to_owned();
    asking.labels.insert("team".to_owned(), "growth".to_owned());
    if let Some(approval) = &mut asking.approval {
        approval.deadline_at = Some(Timestamp { seconds: 3_700, nanos: 0 });
    }
    let mut failed = job("failed-1", JobStatus::Failed, 20);
    failed.reason = "MODEL_REFUSED".to_owned();
    let mut done = job("done-1", JobStatus::Completed, 10);
    done.usage = Some(Usage { calls: 1, ..Usage::default() });
    done.cost_usd = "0.001383".to_owned();
    let mut state = seen(vec![asking, failed, done], size);
    let row = |cost: &str, unpriced_calls| UsageRow {
        cost_usd: cost.to_owned(),
        unpriced_calls,
        ..UsageRow::default()
    };
    let spent = Spent {
        today: row("0.12", 0),
        all: row("34.5", 2),
        at: DateTime::from_timestamp(100, 0).expect("a time"),
    };
    state.take(Duration::ZERO, Input::Spent(Box::new(spent)));
    state
}

#[test]
fn a_list_at_eighty_by_twenty_four() {
    let rows = rows(&example((80, 24)));
    assert!(rows[0].starts_with(" longhaul top  http://127.0.0.1:50051"), "{rows:#?}");
    assert!(rows[0].ends_with("3 jobs, needs somebody first"), "{rows:#?}");
    assert_eq!(rows[1], " awaiting 1  running 0  completed 1");
    assert_eq!(rows[2], " submitted …  ended …  events …  today $0.12  in all ≥ $34.50");
    assert_eq!(rows[3], " 1 to decide");
    assert!(rows[4].starts_with("   launch-copy  waits 1m 00s   1h 00m left, until "), "{rows:#?}");
    assert!(rows[4].ends_with("May launch-copy go out?"), "{rows:#?}");
    assert_eq!(rows[5], " JOB          STATUS     STEP      AGE       COST  TASK");
    assert_eq!(
        rows[6],
        " launch-copy  awaiting    0/3   1m 00s             为一款记账App写推广文案 🚀"
    );
    assert_eq!(
        rows[7],
        " failed-1     failed      0/3   1m 20s             MODEL_REFUSED Task of faile…"
    );
    assert_eq!(rows[8], " done-1       completed   0/3   1m 30s  $0.001383  Task of done-1");
    assert!(rows[23].starts_with(" ? keys  q quit  Enter open  a approve"), "{rows:#?}");
    assert!(rows.iter().all(|row| width(row) <= 80), "{rows:#?}");
}

#[test]
fn a_list_at_two_hundred_by_fifty_has_labels_and_whole_words() {
    let rows = rows(&example((200, 50)));
    assert!(has(&rows, "launch-copy  awaiting approval   0/3"), "{rows:#?}");
    assert!(has(&rows, "team=growth  为一款记账App写推广文案 🚀"), "{rows:#?}");
    assert!(rows[49].contains("t retry") && rows[49].contains("s sort"), "{rows:#?}");
}

#[test]
fn every_size_is_drawn_and_nothing_is_wider_than_the_screen() {
    for wide in [1, 5, 20, 40, 80, 81, 133, 200] {
        for high in [1, 2, 3, 5, 8, 12, 24, 50] {
            for keys in ["", "?", "\n", "w", "c", "/x"] {
                let mut state = example((wide, high));
                press(&mut state, keys);
                state.take(Duration::ZERO, Input::Away("no route to host".to_owned()));
                assert_eq!(rows(&state).len(), usize::from(high));
            }
        }
    }
}

#[test]
fn ten_thousand_jobs_are_counted_and_as_many_shown_as_there_is_room_for() {
    let mut state = State { size: (80, 24), ..State::default() };
    let every = [
        JobStatus::Queued,
        JobStatus::Running,
        JobStatus::AwaitingApproval,
        JobStatus::Paused,
        JobStatus::Completed,
        JobStatus::Failed,
        JobStatus::Cancelled,
    ];
    let counts = every.map(|status| StatusCount { status: status.into(), count: 10_000 });
    let jobs: Vec<Job> =
        (0..100).map(|at| job(&format!("job-{at}"), JobStatus::AwaitingApproval, at)).collect();
    let look = Seen { jobs, has_more: true, counts: counts.into(), ..Seen::default() };
    state.take(Duration::ZERO, Input::Seen(Box::new(look)));
    let rows = rows(&state);
    assert!(rows[0].ends_with("the newest 100, needs somebody first"), "{rows:#?}");
    assert!(has(&rows[1..3], "completed 10,000") && has(&rows[1..3], "cancelled 10,000"));
    assert!(has(&rows, " 10,000 to decide, 3 of them here"), "{rows:#?}");
    assert!(rows.iter().all(|row| width(row) <= 80), "{rows:#?}");
}

#[test]
fn an_empty_list_says_so() {
    let state = seen(Vec::new(), (80, 24));
    assert!(has(&rows(&state), " no jobs"));
    let mut state = State { size: (80, 24), ..State::default() };
    assert!(has(&rows(&state), "looking …"));
    press(&mut state, "/failed\n");
    state.take(Duration::ZERO, Input::Seen(Box::default()));
    assert!(has(&rows(&state), "no jobs fit `failed`; Esc shows all"));
}

#[test]
fn the_longest_id_is_cut_in_the_list_and_whole_where_it_is_asked_about() {
    let id = format!("{}end", "长".repeat(84));
    assert_eq!(id.len(), 255);
    let mut state = seen(vec![job(&id, JobStatus::Running, 1)], (80, 24));
    let listed = rows(&state);
    assert!(has(&listed, "长…   running"), "{listed:#?}");
    press(&mut state, "c");
    let asked = rows(&state);
    let told: String = asked.iter().flat_map(|row| row.chars()).filter(|c| *c == '长').collect();
    assert!(told.chars().count() >= 84, "{asked:#?}");
    assert!(has(&asked, "end?") && has(&asked, "this ends the job"), "{asked:#?}");
}

#[test]
fn foreign_text_reaches_no_cell_as_a_command() {
    let evil = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}b\r\n\tc\u{1b}[2J";
    let mut bad = job("evil\u{1b}[2J", JobStatus::AwaitingApproval, 1);
    for text in [&mut bad.task, &mut bad.output, &mut bad.reason, &mut bad.status_message] {
        evil.clone_into(text);
    }
    bad.labels.insert("k".to_owned(), evil.to_owned());
    bad.last_error = Some(Failure { message: evil.to_owned(), ..Failure::default() });
    if let Some(approval) = &mut bad.approval {
        evil.clone_into(&mut approval.note);
    }
    let (output, partial_output, name) = (evil.to_owned(), evil.to_owned(), evil.to_owned());
    bad.steps = vec![StepState { step: 1, output, partial_output, name, ..StepState::default() }];
    for size in [(80, 24), (200, 50)] {
        for keys in ["", "\n", "w", "a", "c"] {
            let mut state = seen(vec![bad.clone()], size);
            press(&mut state, keys);
            let opened = GetJobResponse { job: Some(bad.clone()), spec: None };
            state.take(Duration::ZERO, Input::Opened(Box::new(opened)));
            let event = Event { message: evil.to_owned(), ..Event::default() };
            state.take(Duration::ZERO, Input::Happened(bad.job_id.clone(), Box::new(event)));
            state.take(Duration::ZERO, Input::Refused(evil.to_owned()));
            let terminal = terminal(&state, PLAIN);
            let cells = &terminal.backend().buffer().content;
            let is_bad = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
            let raw = cells.iter().find(|cell| cell.symbol().contains(is_bad));
            assert!(raw.is_none(), "{keys:?} at {size:?}: {raw:?}");
        }
    }
}

#[test]
fn an_open_job_shows_what_it_asks_what_went_wrong_and_what_its_steps_made() {
    let mut state = example((80, 50));
    let mut whole = state.jobs[0].clone();
    whole.output = "第一行\nThe second line of the draft".to_owned();
    whole.current_step = 2;
    let message = "overloaded".to_owned();
    whole.last_error = Some(Failure { reason: "X".to_owned(), message, ..Failure::default() });
    whole.steps = vec![StepState {
        step: 1,
        name: "draft".to_owned(),
        kind: StepKind::Run.into(),
        status: StepStatus::Done.into(),
        output: whole.output.clone(),
        usage: Some(Usage { input_tokens: 31, output_tokens: 86, calls: 1, ..Usage::default() }),
        cost_usd: "0.001".to_owned(),
        output_cut: true,
        ..StepState::default()
    }];
    press(&mut state, "\n");
    assert!(has(&rows(&state), "looking …"), "the steps have not come");
    let opened = GetJobResponse { job: Some(whole), spec: None };
    state.take(Duration::ZERO, Input::Opened(Box::new(opened)));
    let rows = rows(&state);
    assert_eq!(rows[0], " launch-copy");
    assert_eq!(rows[1], " awaiting approval · step 2/3 · 1m 00s elapsed · 1h 00m to decide");
    for text in [
        " label      team=growth",
        " step 1 asks; 0 of 1 votes; waits 1m 00s; until ",
        "   May launch-copy go out?",
        " what is to be decided on",
        "   第一行",
        "   X overloaded",
        " ✓ 1 run  draft  31 → 86 tokens  $0.001",
        "   The second line of the draft",
        "   … cut here; `longhaul get --step` prints all of it",
    ] {
        assert!(has(&rows, text), "{text:?} is not in {rows:#?}");
    }
}

#[test]
fn a_question_shows_the_note_and_the_draft() {
    let mut state = example((80, 24));
    let mut whole = state.jobs[0].clone();
    whole.output = "line of the draft\n".repeat(40);
    press(&mut state, "a");
    let opened = GetJobResponse { job: Some(whole), spec: None };
    state.take(Duration::ZERO, Input::Opened(Box::new(opened)));
    let rows = rows(&state);
    for text in
        ["approve launch-copy?", "May launch-copy go out?", "line of the draft", "y yes   n no"]
    {
        assert!(has(&rows, text), "{text:?} is not in {rows:#?}");
    }
    assert!(has(&rows, "lines more; Enter in the list shows them"), "{rows:#?}");
}

#[test]
fn without_colour_there_is_none_and_the_selection_is_seen_all_the_same() {
    let state = example((80, 24));
    let is_coloured = |look| {
        let terminal = terminal(&state, look);
        let buffer = terminal.backend().buffer().clone();
        assert!(buffer[(79, 6)].modifier.contains(Modifier::REVERSED), "to the end of the row");
        buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(!is_coloured(PLAIN));
    assert!(is_coloured(Look { has_colour: true }));
}

#[test]
fn a_server_that_is_away_is_told_in_a_line() {
    let mut state = example((80, 24));
    state.take(Duration::from_secs(10), Input::Away("connection refused".to_owned()));
    state.take(Duration::from_secs(25), Input::Tick);
    let told = " the server has been away for 15s (connection refused); trying again";
    assert!(has(&rows(&state), told), "{:#?}", rows(&state));
    assert!(has(&rows(&state), "launch-copy"), "what was known stays");
}
