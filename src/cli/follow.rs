//! A watch that does not break: a job's messages, across servers that come and go.
//!
//! In come a client and where to begin; out comes a channel of messages in order, without gap or repeat.
//! When the server goes away the watch begins again after the last sequence it passed on.

use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Status;

use super::client::{Client, in_words, is_passing};
use crate::rpc::proto::{WatchJobRequest, WatchJobResponse, watch_job_response::Content};

/// How long a first try to reach a lost server again waits, and how long a later one at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// What following a job brings.
pub enum Seen {
    /// The next message.
    Message(Box<WatchJobResponse>),
    /// The server is away, in words; the watch goes on when it is back.
    Lost(String),
}

/// What a watch brings beside the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The text of answers as it arrives.
    pub output: bool,
    /// What becomes of notices.
    pub notices: bool,
}

/// Follows a job on a task of its own: what it brings may be awaited beside a clock without losing any of it.
///
/// It ends when the watch has ended well, with the error the server refused with, or when nobody listens.
pub fn follow(
    client: &Client,
    job_id: &str,
    after_sequence: Option<i32>,
    beside: Beside,
) -> mpsc::Receiver<Result<Seen, Status>> {
    let (sender, receiver) = mpsc::channel(64);
    let mut client = client.clone();
    let mut request = WatchJobRequest {
        job_id: job_id.to_owned(),
        after_sequence,
        include_output_deltas: beside.output,
        include_notices: beside.notices,
    };
    tokio::spawn(async move {
        let mut backoff = BACKOFF.0;
        loop {
            let seen_before = request.after_sequence;
            let ended = tokio::select! {
                ended = pass_on(&mut client, &mut request, &sender) => ended,
                () = sender.closed() => return,
            };
            let told = match ended {
                Ok(()) => return,
                Err(status) if is_passing(&status) => Ok(Seen::Lost(lost(&status))),
                Err(status) => Err(status),
            };
            let refused = told.is_err();
            if sender.send(told).await.is_err() || refused {
                return;
            }
            if request.after_sequence != seen_before {
                backoff = BACKOFF.0;
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF.1);
        }
    });
    receiver
}

/// Passes on one stream's messages and remembers how far it came.
async fn pass_on(
    client: &mut Client,
    request: &mut WatchJobRequest,
    sender: &mpsc::Sender<Result<Seen, Status>>,
) -> Result<(), Status> {
    let mut stream = client.watch_job(request.clone()).await?.into_inner();
    while let Some(message) = stream.message().await? {
        match &message.content {
            Some(Content::Snapshot(job)) => request.after_sequence = Some(job.last_sequence),
            Some(Content::Event(event)) => request.after_sequence = Some(event.sequence),
            Some(Content::Heartbeat(_) | Content::OutputDelta(_) | Content::Notice(_)) | None => {}
        }
        if sender.send(Ok(Seen::Message(Box::new(message)))).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn lost(status: &Status) -> String {
    let why = in_words(status);
    format!("the server is away ({why}); trying again")
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::{Stream, stream};
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{Request, Response, transport::Server};

    use super::*;
    use crate::{
        cli::client::connect,
        rpc::proto::{
            ControlJobsRequest, ControlJobsResponse, ControlRequest, ControlResponse, Event,
            GetJobRequest, GetJobResponse, GetUsageRequest, GetUsageResponse, Job, ListJobsRequest,
            ListJobsResponse, ListNoticesRequest, ListNoticesResponse, ResendNoticeRequest,
            ResendNoticeResponse, RevokeLinksRequest, RevokeLinksResponse, SubmitJobRequest,
            SubmitJobResponse,
            job_service_server::{JobService, JobServiceServer},
        },
    };

    type Messages = Pin<Box<dyn Stream<Item = Result<WatchJobResponse, Status>> + Send>>;

    /// A server whose every stream breaks off after two messages, until the job's fourth event.
    struct Fragile;

    fn message(content: Content) -> WatchJobResponse {
        WatchJobResponse { content: Some(content) }
    }

    fn event(sequence: i32) -> WatchJobResponse {
        message(Content::Event(Event { sequence, ..Event::default() }))
    }

    #[tonic::async_trait]
    impl JobService for Fragile {
        type WatchJobStream = Messages;

        async fn watch_job(
            &self,
            request: Request<WatchJobRequest>,
        ) -> Result<Response<Messages>, Status> {
            let broken = || Err(Status::unavailable("stopping"));
            let messages = match request.into_inner().after_sequence {
                None => {
                    let job = Job { last_sequence: 1, ..Job::default() };
                    vec![Ok(message(Content::Snapshot(job))), Ok(event(2)), broken()]
                }
                Some(2) => vec![Ok(event(3)), Ok(event(4)), broken()],
                Some(4) => vec![Ok(event(5))],
                Some(other) => vec![Err(Status::out_of_range(format!("{other}")))],
            };
            Ok(Response::new(Box::pin(stream::iter(messages))))
        }

        async fn submit_job(
            &self,
            _: Request<SubmitJobRequest>,
        ) -> Result<Response<SubmitJobResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn get_job(
            &self,
            _: Request<GetJobRequest>,
        ) -> Result<Response<GetJobResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn control(
            &self,
            _: Request<ControlRequest>,
        ) -> Result<Response<ControlResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn control_jobs(
            &self,
            _: Request<ControlJobsRequest>,
        ) -> Result<Response<ControlJobsResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn list_jobs(
            &self,
            _: Request<ListJobsRequest>,
        ) -> Result<Response<ListJobsResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn list_notices(
            &self,
            _: Request<ListNoticesRequest>,
        ) -> Result<Response<ListNoticesResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn resend_notice(
            &self,
            _: Request<ResendNoticeRequest>,
        ) -> Result<Response<ResendNoticeResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn revoke_links(
            &self,
            _: Request<RevokeLinksRequest>,
        ) -> Result<Response<RevokeLinksResponse>, Status> {
            Err(Status::unimplemented(""))
        }

        async fn get_usage(
            &self,
            _: Request<GetUsageRequest>,
        ) -> Result<Response<GetUsageResponse>, Status> {
            Err(Status::unimplemented(""))
        }
    }

    async fn client() -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = Server::builder().add_service(JobServiceServer::new(Fragile));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        connect(&address).await.expect("it listens")
    }

    #[tokio::test]
    async fn a_watch_resumes_where_it_broke_off_without_gap_or_repeat() {
        let mut seen = follow(&client().await, "a", None, Beside::default());
        let mut sequences = Vec::new();
        let mut losses = 0;
        while let Some(next) = seen.recv().await {
            match next.expect("every error here passes") {
                Seen::Message(message) => match message.content {
                    Some(Content::Snapshot(job)) => sequences.push(job.last_sequence),
                    Some(Content::Event(event)) => sequences.push(event.sequence),
                    Some(Content::Heartbeat(_) | Content::OutputDelta(_) | Content::Notice(_))
                    | None => {}
                },
                Seen::Lost(why) => {
                    losses += 1;
                    assert_eq!(why, "the server is away (stopping); trying again");
                }
            }
        }
        assert_eq!(sequences, [1, 2, 3, 4, 5]);
        assert_eq!(losses, 2);
    }

    #[tokio::test]
    async fn what_the_server_refuses_ends_the_watch() {
        let mut seen = follow(&client().await, "a", Some(99), Beside::default());
        let refused = seen.recv().await.expect("an answer");
        assert!(refused.is_err_and(|status| status.code() == tonic::Code::OutOfRange));
        assert!(seen.recv().await.is_none());
    }
}
