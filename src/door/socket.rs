//! Sockets: the bytes of one line, plain or over TLS.
//!
//! What is heard is noted on the line, which knows from it how far a peer has come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::PeerName;
use super::line::Line;
use super::tls::{Acceptor, name_of};

/// The socket of a line.
pub(super) struct Socket {
    bytes: Bytes,
    line: Arc<Line>,
}

enum Bytes {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Opens a socket, over TLS if that is spoken; answers also with who is at its other end, if that was proved.
    pub async fn open(
        socket: TcpStream,
        tls: Option<&Acceptor>,
        line: Arc<Line>,
    ) -> io::Result<(Self, Option<PeerName>)> {
        let (bytes, peer) = match tls {
            None => (Bytes::Plain(socket), None),
            Some(tls) => {
                let stream = tls.accept(socket).await?;
                let (_, session) = stream.get_ref();
                let shown = session.peer_certificates().and_then(|chain| chain.first());
                let peer = shown.map(name_of);
                (Bytes::Tls(Box::new(stream)), peer)
            }
        };
        line.open();
        Ok((Self { bytes, line }, peer))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Bytes::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        if read.is_ready() {
            self.line.hear(&buffer.filled()[before..]);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Bytes::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket).poll_write_vectored(context, bytes),
            Bytes::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.bytes {
            Bytes::Plain(socket) => socket.is_write_vectored(),
            Bytes::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket).poll_flush(context),
            Bytes::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Bytes::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
