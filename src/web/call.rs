//! One call of a webhook: who calls, what is asked beside the body, and the body as an object.
//!
//! In comes a request that the gate has let in; a call goes to the handler, and its answer comes back.
//! Whoever waits for a job leaves the room of those who do not, takes a seat, and is let go when the server stops.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value};

use super::asked::{Asked, Manner, Warnings};
use super::body;
use super::fault::Fault;
use super::guard::Room;
use crate::domain::id::JobKey;
use crate::door::Authority;
use crate::engine::Engine;
use crate::store::job::JobView;

/// A request of a webhook, read.
pub(super) struct Call {
    /// Who calls.
    pub(super) authority: Authority,
    /// The body.
    pub(super) sent: Map<String, Value>,
    /// Whether what nothing reads is a warning.
    pub(super) is_lenient: bool,
    /// What the answer warns of.
    pub(super) warnings: Vec<String>,
    asked: Asked,
    manner: Arc<Manner>,
    room: Option<Room>,
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = Fault;

    async fn from_request(request: Request, _: &S) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let find = &parts.extensions;
        let (Some(authority), Some(manner), Some(asked)) =
            (find.get::<Authority>(), find.get::<Arc<Manner>>(), find.get::<Asked>())
        else {
            tracing::error!("a webhook stands before what it needs");
            return Err(Fault::internal());
        };
        let bytes_max = manner.body_bytes_max;
        let body = body::receive(&parts.headers, body, bytes_max).await?;
        let sent = body::read(&parts.headers, body, bytes_max).await?;
        Ok(Self {
            authority: authority.clone(),
            sent,
            is_lenient: asked.is_lenient,
            warnings: asked.warnings.clone(),
            asked: asked.clone(),
            manner: Arc::clone(manner),
            room: find.get::<Room>().cloned(),
        })
    }
}

impl Call {
    /// The job once it stands still or the time that was asked for is over; none, if that was not asked for.
    pub(super) async fn wait(
        &mut self,
        engine: &Engine,
        key: &JobKey,
    ) -> Result<Option<JobView>, Fault> {
        let Some(wait) = self.asked.wait else { return Ok(None) };
        let Ok(_seat) = Arc::clone(&self.manner.seats).try_acquire_owned() else {
            let full = "too many requests wait already: this is the job as it is now";
            self.warnings.push(full.to_owned());
            return Ok(None);
        };
        if let Some(room) = &self.room {
            room.leave();
        }
        tokio::select! {
            biased;
            view = engine.job(key, None, wait) => Ok(Some(view?)),
            () = self.manner.stop.cancelled() => Err(Fault::stopping(key.job_id())),
        }
    }

    /// The answer; one that says what is wrong carries what was not read, for those to whom it is told leniently.
    pub(super) fn answer(self, answer: Result<Response, Fault>) -> Response {
        answer.unwrap_or_else(|fault| {
            let mut response = fault.into_response();
            response.extensions_mut().insert(Warnings(self.warnings));
            response
        })
    }
}
