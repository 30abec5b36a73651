//! Serving: the accept loop of a face, from the socket to the service.
//!
//! In goes a listener and a service; it serves until the stop, then for as long as calls take, but not longer than the grace.
//! A peer that goes silent, trickles or floods costs one socket and a little memory, for a bounded time.
//! Against floods of resets, empty frames and endless headers stand the counts of h2 itself, which are kept on.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};

use super::PeerName;
use super::line::{Entry, GRACE, InHand, Leash, Line, LineSettings, Lines};
use super::socket::Socket;
use super::tls::Acceptor;

/// A peer that does not answer a ping for this long after it is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most calls of one connection at once.
const STREAMS_MAX: u32 = 1024;
/// The most calls that a peer took back before they were looked at; more of them end the connection.
const RESETS_MAX: usize = 20;
/// The most calls that were ended because the peer broke the protocol on them; more of them end the connection.
const ERRORS_MAX: usize = 1024;
/// The most of an answer that is handed over at once.
const PIECE_BYTES: usize = 64 << 10;
/// The least that HTTP/1 is read by.
const BUFFER_BYTES_MIN: usize = 8 << 10;
/// How often all lines are looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long to wait after a connection could not be taken, mostly because too many files are open.
const PAUSE: Duration = Duration::from_millis(50);

/// How a face is on the wire.
#[derive(Clone, Debug)]
pub struct Wire {
    /// How much it takes of connections.
    pub lines: LineSettings,
    /// TLS, if it is spoken.
    pub tls: Option<Acceptor>,
    /// Whether HTTP/1 is spoken beside HTTP/2.
    pub speaks_http1: bool,
}

/// Serves until the stop, and then for as long as calls take to finish, but not longer than two seconds.
pub async fn serve<S, B>(listener: TcpListener, service: S, wire: Wire, stop: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let cut = CancellationToken::new();
    // Calls live in tasks of their own, which must not outlive this future either.
    let _cut_when_dropped = cut.clone().drop_guard();
    let (lines, mut tasks) = (Lines::default(), JoinSet::new());
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let socket = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_ended) = tasks.join_next(), if !tasks.is_empty() => continue,
            _ = tick.tick() => {
                lines.judge(&wire.lines);
                continue;
            }
            taken = next_socket(&listener) => taken,
        };
        let line = Line::new(stop.child_token(), cut.child_token());
        // The newest is let in at the price of who is quiet, so that they cannot fill the house by doing nothing.
        let Some(entry) = lines.admit(wire.lines.connections_max, line) else { continue };
        tasks.spawn(hold(socket, entry, service.clone(), wire.clone()));
    }
    drop(listener);
    let ended = tokio::time::timeout(GRACE, async { while tasks.join_next().await.is_some() {} });
    if ended.await.is_err() {
        cut.cancel();
        while tasks.join_next().await.is_some() {}
    }
}

async fn next_socket(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                // An answer is a small frame, which must not wait for another one.
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%error, "a connection ended as it began");
                }
                return socket;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Holds one line until it ends or is cut.
async fn hold<S, B>(socket: TcpStream, entry: Entry, service: S, wire: Wire)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let line = Arc::clone(&entry.line);
    let talk = async {
        let (socket, peer) = Socket::open(socket, wire.tls.as_ref(), Arc::clone(&line)).await?;
        let next = Next::default();
        let at = At { service, line: Arc::clone(&line), peer, next: next.clone() };
        let builder = builder(&wire, next);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), at));
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            () = line.end.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await.map_err(io::Error::other)
    };
    // In a box: a handshake is large, and most of the time there is none.
    match line.cut.run_until_cancelled(Box::pin(talk)).await {
        Some(Err(error)) => tracing::debug!(%error, "a connection ended"),
        Some(Ok(())) | None => {}
    }
}

fn builder(wire: &Wire, next: Next) -> auto::Builder<Next> {
    let mut builder = auto::Builder::new(next);
    if !wire.speaks_http1 {
        builder = builder.http2_only();
    }
    let header_bytes_max = wire.lines.header_bytes_max;
    // How long a head takes is looked at from outside, where it is told apart from an idle connection.
    let buffer = usize::try_from(header_bytes_max).unwrap_or(usize::MAX).max(BUFFER_BYTES_MIN);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(buffer);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(ERRORS_MAX)
        .max_header_list_size(header_bytes_max);
    builder
}

/// The service at the end of one line.
struct At<S> {
    service: S,
    line: Arc<Line>,
    peer: Option<PeerName>,
    next: Next,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for At<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Unpin,
{
    type Response = Response<Answer<B>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let in_hand = self.line.begin();
        self.next.set(in_hand.leash.clone());
        let extensions = request.extensions_mut();
        extensions.insert(in_hand.leash.clone());
        if let Some(peer) = &self.peer {
            extensions.insert(peer.clone());
        }
        let service = self.service.clone();
        Box::pin(async move {
            let Ok(response) = service.oneshot(request).await;
            Ok(response.map(|body| Answer { body, rest: Bytes::new(), in_hand: Some(in_hand) }))
        })
    }
}

/// The body of an answer, whose call is in hand until its end has been handed over or it is dropped.
///
/// Long data is handed over in pieces, each once there is room for it: what a peer does not take stays in hand.
#[derive(Debug)]
pub struct Answer<B> {
    body: B,
    rest: Bytes,
    in_hand: Option<InHand>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end @ (None | Some(Err(_))) => {
                    self.in_hand = None;
                    return Poll::Ready(end);
                }
            }
        } else {
            Frame::data(std::mem::take(&mut self.rest))
        };
        let frame = match frame.into_data() {
            Ok(mut data) => {
                self.rest = data.split_off(data.len().min(PIECE_BYTES));
                Frame::data(data)
            }
            Err(trailers) => trailers,
        };
        // Before the last bytes leave, so that who has read them finds room for the next call.
        if frame.is_trailers() || self.is_end_stream() {
            self.in_hand = None;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// Runs the calls of one HTTP/2 connection, each on the leash that it was given last.
///
/// The connection asks the service first and runs what that promises next, in one go.
#[derive(Clone, Debug, Default)]
struct Next(Arc<Mutex<Option<Leash>>>);

impl Next {
    fn set(&self, leash: Leash) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(leash);
    }
}

impl<F> hyper::rt::Executor<F> for Next
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, call: F) {
        let leash = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        tokio::spawn(async move {
            let mut call = pin!(call);
            poll_fn(|context| {
                // Dropped in the middle, the call resets its stream and nothing of it is left.
                if leash.as_ref().is_some_and(|leash| leash.poll_ended(context).is_ready()) {
                    return Poll::Ready(());
                }
                call.as_mut().poll(context).map(|_ended| ())
            })
            .await;
        });
    }
}
