//! The connections of the sandbox, each with a switch that cuts it.
//! In come accepted TCP streams; out go the same streams, readable until someone cuts them.
//! A cut looks to the client like a server that died: the socket closes, no answer is sent.
//! Stopping the sandbox cuts every connection, so no held request can keep it alive.

use std::{
    future::pending,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The switch of one connection, handed to the handlers of its requests.
#[derive(Clone)]
pub struct Wire(CancellationToken);

impl Wire {
    /// Closes the connection without an answer; never returns, since its caller goes with it.
    pub async fn cut<T>(&self) -> T {
        self.0.cancel();
        pending().await
    }
}

/// A TCP listener whose connections can be cut.
pub struct WireListener {
    listener: TcpListener,
    stop: CancellationToken,
}

impl WireListener {
    /// Listens on `listener`; cancelling `stop` cuts every connection it accepted.
    pub fn new(listener: TcpListener, stop: CancellationToken) -> Self {
        Self { listener, stop }
    }
}

impl Listener for WireListener {
    type Io = WireStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (WireStream, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Events are small writes; a refusal here only costs some delay.
        let _ = stream.set_nodelay(true);
        let cut = self.stop.child_token();
        let wire = WireStream { stream, is_cut: Box::pin(cut.clone().cancelled_owned()), cut };
        (wire, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One accepted connection.
pub struct WireStream {
    stream: TcpStream,
    cut: CancellationToken,
    is_cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connected<IncomingStream<'_, WireListener>> for Wire {
    fn connect_info(stream: IncomingStream<'_, WireListener>) -> Self {
        Self(stream.io().cut.clone())
    }
}

fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted)
}

impl AsyncRead for WireStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.cut.is_cancelled() {
            let read = Pin::new(&mut self.stream).poll_read(cx, buf);
            // Polled only to be woken by a cut while the client is silent.
            if read.is_ready() || self.is_cut.as_mut().poll(cx).is_pending() {
                return read;
            }
        }
        Poll::Ready(Err(gone()))
    }
}

impl AsyncWrite for WireStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.cut.is_cancelled() {
            return Poll::Ready(Err(gone()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
