//! What the scenario of all clients cannot show.

use std::collections::{HashMap, VecDeque};
use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use tonic::{Code, Response, Status, TimeoutExpired};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::v1::{
    Event, GetJobResponse, Heartbeat, Job, JobStatus, WatchJobRequest, WatchJobResponse,
};
use crate::watch::{Patience, watch};
use crate::{Client, Error, Update, client, connect};

const NONE: Duration = Duration::ZERO;
const MOMENT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

fn event(sequence: i32) -> Update {
    Update::Event(Event { sequence, ..Event::default() })
}

fn from_server(code: Code) -> Status {
    let details = ErrorDetails::with_error_info("INTERNAL", "longhaul.dev", HashMap::new());
    Status::with_error_details(code, "said by the server", details)
}

fn asks_to_wait(delay: Duration) -> Status {
    let details = ErrorDetails::with_retry_info(Some(delay));
    Status::with_error_details(Code::ResourceExhausted, "too many calls", details)
}

type Line = BoxStream<'static, Result<WatchJobResponse, Status>>;

/// A server of watches: one line after the other, and when there are no more it is away.
#[derive(Clone, Default)]
struct Lines {
    lines: Arc<Mutex<VecDeque<Line>>>,
    asked_after: Arc<Mutex<Vec<Option<i32>>>>,
}

impl Lines {
    /// A line that ends after some updates.
    fn then(self, updates: Vec<Update>, end: Result<(), Status>) -> Self {
        let end = stream::iter(end.err().map(Err));
        self.then_line(stream::iter(updates).map(Ok).chain(end))
    }

    fn then_line(self, line: impl Stream<Item = Result<Update, Status>> + Send + 'static) -> Self {
        let line = line.map_ok(|update| WatchJobResponse { content: Some(update) });
        self.lines.lock().unwrap().push_back(line.boxed());
        self
    }

    fn watch(
        &self,
        silence: Duration,
        absence: Duration,
    ) -> BoxStream<'static, crate::Result<Update>> {
        let lines = self.clone();
        let open = move |request: WatchJobRequest| {
            lines.asked_after.lock().unwrap().push(request.after_sequence);
            ready(lines.lines.lock().unwrap().pop_front().ok_or(Status::unavailable("it is away")))
        };
        watch("job".into(), Patience { silence, absence }, open).boxed()
    }

    /// The sequences of all events, and how the watch ended.
    async fn events(&self, silence: Duration, absence: Duration) -> (Vec<i32>, Option<Code>) {
        let (mut sequences, mut updates) = (Vec::new(), self.watch(silence, absence));
        loop {
            match updates.try_next().await {
                Ok(Some(Update::Event(event))) => sequences.push(event.sequence),
                Ok(Some(_)) => {}
                Ok(None) => return (sequences, None),
                Err(error) => return (sequences, Some(error.code())),
            }
        }
    }

    fn asked_after(&self) -> Vec<Option<i32>> {
        self.asked_after.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_watch_goes_on_after_the_last_sequence_and_repeats_nothing() {
    let snapshot = Update::Snapshot(Job { last_sequence: 3, ..Job::default() });
    let lines = Lines::default()
        .then(vec![], Err(Status::unavailable("not yet")))
        .then(vec![snapshot], Err(Status::unknown("the line broke")))
        .then(vec![event(4), event(5)], Err(Status::cancelled("the line broke")))
        .then(vec![event(4), event(5), event(6)], Err(asks_to_wait(MOMENT)))
        .then(vec![event(7)], Ok(()));
    assert_eq!(lines.events(LONG, LONG).await, (vec![4, 5, 6, 7], None));
    assert_eq!(lines.asked_after(), [None, None, Some(3), Some(5), Some(6)]);
}

#[tokio::test]
async fn a_watch_replaces_a_line_that_falls_silent() {
    let signs = [Update::Heartbeat(Heartbeat::default()), event(1)];
    let silent = stream::iter(signs).map(Ok).chain(stream::pending());
    let lines = Lines::default().then_line(silent).then(vec![event(2)], Ok(()));
    assert_eq!(lines.events(MOMENT, LONG).await, (vec![1, 2], None));
    assert_eq!(lines.asked_after(), [None, Some(1)]);
}

#[tokio::test]
async fn a_watch_gives_up_when_the_server_stays_away() {
    let lines = Lines::default()
        .then(vec![event(1)], Err(asks_to_wait(NONE)))
        .then(vec![event(2)], Err(asks_to_wait(LONG + MOMENT)));
    assert_eq!(lines.events(LONG, LONG).await, (vec![1, 2], Some(Code::ResourceExhausted)));
    assert_eq!(lines.events(LONG, NONE).await, (vec![], Some(Code::Unavailable)));
}

#[tokio::test]
async fn a_watch_does_not_go_on_after_what_the_server_says() {
    for refusal in [from_server(Code::Internal), Status::not_found("no such job")] {
        let code = refusal.code();
        let lines =
            Lines::default().then(vec![event(1)], Err(refusal)).then(vec![event(2)], Ok(()));
        assert_eq!(lines.events(LONG, LONG).await, (vec![1], Some(code)));
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_drops_its_line() {
    let line = Arc::new(());
    let held = line.clone();
    let endless = stream::iter([Ok(event(1))]).chain(stream::pending());
    let lines = Lines::default().then_line(endless.inspect(move |_| _ = &held));
    let mut updates = lines.watch(LONG, LONG);
    assert!(updates.next().await.is_some());
    drop(updates);
    assert_eq!(Arc::strong_count(&line), 1);
}

fn client() -> Client {
    Client::builder().server("127.0.0.1:1").api_key("").connect().unwrap()
}

/// Calls a method that always fails; answers how it ended and how often it was tried.
async fn call(client: &Client, fail: impl Fn() -> Status) -> (Error, usize) {
    let tries = Mutex::new(0);
    let method = |_, _| -> Ready<Result<Response<()>, Status>> {
        *tries.lock().unwrap() += 1;
        ready(Err(fail()))
    };
    let error = client.call((), method).await.unwrap_err();
    (error, tries.into_inner().unwrap())
}

#[tokio::test]
async fn a_call_is_tried_again_where_that_may_help() {
    for (status, tries) in [
        (asks_to_wait(NONE), 5),
        (asks_to_wait(LONG), 1),
        (from_server(Code::Unavailable), 5),
        (from_server(Code::Aborted), 1),
        (Status::internal("a fault"), 1),
    ] {
        let (error, tried) = call(&client(), || status.clone()).await;
        assert_eq!((error.code(), tried), (status.code(), tries), "{error}");
    }
}

#[tokio::test]
async fn a_call_ends_in_time() {
    let silence = |_, _| std::future::pending::<Result<Response<()>, Status>>();
    let error = client().with_timeout(MOMENT).call((), silence).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
}

/// Waits for a job that is told of by one answer after the other, and when there are no more the server is away.
async fn wait(
    at_most: Option<Duration>,
    give_up_after: Duration,
    answers: Vec<Result<JobStatus, Status>>,
) -> crate::Result<JobStatus> {
    let answers = Mutex::new(VecDeque::from(answers));
    let ask = || {
        let answer = answers.lock().unwrap().pop_front();
        let status = answer.unwrap_or(Err(Status::unavailable("it is away")));
        let job = |status| Job { status: JobStatus::into(status), ..Job::default() };
        let answer = |status| GetJobResponse { job: Some(job(status)), ..Default::default() };
        ready(status.map(answer).map_err(Error::from))
    };
    client::wait(at_most, give_up_after, ask).await.map(|job| job.status())
}

#[tokio::test]
async fn a_wait_bears_with_what_a_watch_bears_with_and_with_a_question_that_took_too_long() {
    for at_most in [None, Some(LONG)] {
        let answers = vec![
            Err(Status::unavailable("not yet")),
            Ok(JobStatus::Queued),
            Err(Status::unknown("the line broke")),
            Err(Status::deadline_exceeded("no answer came in time")),
            Err(asks_to_wait(MOMENT)),
            Ok(JobStatus::Running),
            Ok(JobStatus::Paused),
        ];
        assert_eq!(wait(at_most, LONG, answers).await.unwrap(), JobStatus::Paused);
        for refusal in [from_server(Code::Internal), Status::not_found("no such job")] {
            let code = refusal.code();
            assert_eq!(wait(at_most, LONG, vec![Err(refusal)]).await.unwrap_err().code(), code);
        }
    }
}

#[tokio::test]
async fn a_wait_without_a_limit_gives_up_when_the_server_stays_away() {
    let error = wait(None, LONG, vec![Err(asks_to_wait(LONG + MOMENT))]).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    let error = wait(None, NONE, vec![Ok(JobStatus::Running)]).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_wait_ends_with_its_limit_and_not_before() {
    for answers in [vec![], vec![Err(asks_to_wait(LONG))]] {
        let began_at = Instant::now();
        let error = wait(Some(MOMENT), NONE, answers).await.unwrap_err();
        assert!(began_at.elapsed() >= MOMENT);
        assert_eq!(error.code(), Code::DeadlineExceeded);
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
        assert!(cause.is_some_and(Error::is_transient));
    }
}

#[tokio::test]
async fn a_wait_asks_the_server() {
    let error = client().wait("job", MOMENT).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
}

#[test]
fn pauses_grow_up_to_a_limit_unless_the_server_says_how_long() {
    let error = Error::new(Code::Unavailable, "it is away");
    for (failures, most) in [(0, 100), (1, 200), (2, 400), (5, 3200), (6, 5000), (1000, 5000)] {
        let pause = error.pause(failures).as_millis();
        assert!(most / 2 <= pause && pause <= most, "{pause} ms after {failures} failures");
    }
    assert_eq!(Error::from(asks_to_wait(LONG)).pause(0), LONG);
}

#[test]
fn an_error_says_what_the_server_said() {
    let mut details = ErrorDetails::with_bad_request_violation("settings.priority", "is too high");
    let metadata = HashMap::from([("status".into(), "COMPLETED".into())]);
    details.set_error_info("INVALID_REQUEST", "longhaul.dev", metadata);
    let status = Status::with_error_details(Code::InvalidArgument, "is wrong", details.clone());
    let error = Error::from(status);
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.reason(), "INVALID_REQUEST");
    assert_eq!(error.metadata()["status"], "COMPLETED");
    assert_eq!(error.fields()[0].field, "settings.priority");
    assert_eq!(error.fields()[0].description, "is too high");
    assert_eq!(error.retry_after(), None);
    assert_eq!(error.to_string(), "INVALID_REQUEST: is wrong");

    details.set_error_info("INVALID_REQUEST", "elsewhere.example", HashMap::new());
    let status = Status::with_error_details(Code::InvalidArgument, "is wrong", details);
    assert_eq!(Error::from(status).to_string(), "InvalidArgument: is wrong");
}

#[test]
fn an_error_of_the_line_is_told_from_one_of_the_server() {
    let broken = Status::from_error(io::Error::from(io::ErrorKind::ConnectionReset).into());
    assert_eq!(broken.code(), Code::Unknown);
    let error = Error::from(broken);
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<io::Error>)
    );
    let late = Status::from_error(Box::new(TimeoutExpired(())));
    assert_eq!(Error::from(late).code(), Code::DeadlineExceeded);
    assert_eq!(Error::from(Status::unknown("a fault")).code(), Code::Unknown);
}

#[test]
fn an_address_may_leave_out_how_it_is_spoken_to() {
    for (address, uri) in [
        ("localhost:50051", "http://localhost:50051/"),
        ("[::1]:50051", "http://[::1]:50051/"),
        ("http://localhost:50051", "http://localhost:50051/"),
        ("https://jobs.example.com", "https://jobs.example.com/"),
    ] {
        assert_eq!(connect::parse(address).unwrap(), uri, "{address}");
    }
    for address in
        ["", "localhost", "[::1]", "ftp://localhost", "unix:///run/longhaul", "no host:1"]
    {
        assert_eq!(connect::parse(address).unwrap_err().code(), Code::InvalidArgument, "{address}");
    }
}

#[tokio::test]
async fn what_is_said_about_tls_is_not_passed_over() {
    let plain = Client::builder().server("localhost:50051");
    for builder in [plain.clone().ca_pem("authorities"), plain.clone().identity_pem("mine", "key")]
    {
        assert_eq!(builder.connect().unwrap_err().code(), Code::InvalidArgument);
    }
    assert!(plain.ca_pem("").connect().is_ok());
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_not_shown() {
    let error = Client::builder().api_key("lh_secret\n").connect().unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(!format!("{error:?}").contains("secret"));
    let builder = Client::builder().server("localhost:50051").api_key("lh_secret");
    assert!(!format!("{builder:?} {:?}", builder.clone().connect().unwrap()).contains("secret"));
}
