//! A provider over TLS, in the hands of a test: it sees each connection and each request, and answers when it likes.
//!
//! What it speaks is changed at will, and every connection can be closed, broken or left alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate for this machine that signs itself, and its key.
const CERTIFICATE: &[u8] = include_bytes!("../../../tests/it/fixture/provider.pem");
/// So long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the provider speaks on new connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    Http1,
    Http2,
    /// Not even TLS.
    Nothing,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Without a word.
    Cut,
    /// With a GOAWAY that takes every stream with it.
    Refused,
    /// It stays open, and nothing comes of it any more.
    Frozen,
}

/// A request that waits for its answer.
pub struct Asked {
    /// The connection it came on.
    pub connection: usize,
    way: Way,
}

enum Way {
    Http1(Box<TlsStream<TcpStream>>),
    Http2(SendResponse<Bytes>),
}

pub struct Provider {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    asked: mpsc::UnboundedReceiver<Asked>,
}

struct Shared {
    speech: Mutex<Speech>,
    /// The most streams of a connection.
    streams: u32,
    /// Every connection so far, and how to end it.
    connections: Mutex<BTreeMap<usize, mpsc::UnboundedSender<End>>>,
    asked: mpsc::UnboundedSender<Asked>,
}

impl Provider {
    /// Serves until the test's runtime ends, with so many streams on a connection.
    pub async fn serve(speech: Speech, streams: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (sender, asked) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            speech: Mutex::new(speech),
            streams,
            connections: Mutex::default(),
            asked: sender,
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).attend(stream));
            }
        });
        Self { address, shared, asked }
    }

    /// Who asks has to trust this.
    pub fn certificate() -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate")
    }

    /// The next request.
    pub async fn asked(&mut self) -> Asked {
        let asked = tokio::time::timeout(PATIENCE, self.asked.recv()).await;
        asked.expect("nothing was asked in time").expect("the server runs")
    }

    /// The next requests.
    pub async fn many(&mut self, count: usize) -> Vec<Asked> {
        let mut many = Vec::new();
        for _ in 0..count {
            many.push(self.asked().await);
        }
        many
    }

    /// How many connections there have been.
    pub fn opened(&self) -> usize {
        self.shared.connections.lock().expect("no test panics with it").len()
    }

    /// Speaks like this on new connections.
    pub fn speak(&self, speech: Speech) {
        *self.shared.speech.lock().expect("no test panics with it") = speech;
    }

    /// Ends a connection.
    pub fn end(&self, connection: usize, end: End) {
        let connections = self.shared.connections.lock().expect("no test panics with it");
        // It may have ended by itself.
        let _ = connections[&connection].send(end);
    }
}

impl Shared {
    async fn attend(self: Arc<Self>, stream: TcpStream) {
        let speech = *self.speech.lock().expect("no test panics with it");
        let (end, mut ends) = mpsc::unbounded_channel();
        let connection = {
            let mut connections = self.connections.lock().expect("no test panics with it");
            let number = connections.len();
            connections.insert(number, end);
            number
        };
        let stream = match speech {
            Speech::Nothing => {
                ends.recv().await;
                return;
            }
            Speech::Http1 | Speech::Http2 => accept(stream, speech).await,
        };
        // Who was refused what it speaks has gone.
        let Some(stream) = stream else { return };
        if speech == Speech::Http2 {
            self.attend_http2(connection, stream, ends).await;
        } else {
            self.attend_http1(connection, stream).await;
        }
    }

    async fn attend_http2(
        &self,
        connection: usize,
        stream: TlsStream<TcpStream>,
        mut ends: mpsc::UnboundedReceiver<End>,
    ) {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(self.streams);
        let Ok(mut http) = builder.handshake(stream).await else { return };
        loop {
            tokio::select! {
                asked = http.accept() => {
                    let Some(Ok((_request, respond))) = asked else { return };
                    let way = Way::Http2(respond);
                    self.asked.send(Asked { connection, way }).expect("the test listens");
                }
                end = ends.recv() => match end {
                    Some(End::Refused) => http.abrupt_shutdown(Reason::INTERNAL_ERROR),
                    Some(End::Frozen) => std::future::pending().await,
                    Some(End::Cut) | None => return,
                },
            }
        }
    }

    /// One request, which is all that a connection gets.
    async fn attend_http1(&self, connection: usize, mut stream: TlsStream<TcpStream>) {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let way = Way::Http1(Box::new(stream));
        self.asked.send(Asked { connection, way }).expect("the test listens");
    }
}

async fn accept(stream: TcpStream, speech: Speech) -> Option<TlsStream<TcpStream>> {
    let key = PrivateKeyDer::from_pem_slice(CERTIFICATE).expect("a key");
    let certificates = vec![Provider::certificate()];
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(certificates, key).expect("the key is its own");
    let name: &[u8] = if speech == Speech::Http2 { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![name.to_vec()];
    TlsAcceptor::from(Arc::new(config)).accept(stream).await.ok()
}

impl Asked {
    /// Answers with a whole stream of events.
    pub async fn answer(self, events: &str) {
        match self.way {
            Way::Http1(mut stream) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                // The other side may have lost patience.
                let _ = stream.write_all(format!("{head}{events}").as_bytes()).await;
                let _ = stream.shutdown().await;
            }
            Way::Http2(respond) => {
                if let Some(mut body) = begin(respond) {
                    let _ = body.send_data(events.to_owned().into(), true);
                }
            }
        }
    }

    /// Answers with the head of a stream; what comes of it is in the hands of the test.
    pub fn begin(self) -> Option<SendStream<Bytes>> {
        match self.way {
            Way::Http1(_) => None,
            Way::Http2(respond) => begin(respond),
        }
    }
}

/// None if the other side has gone.
fn begin(mut respond: SendResponse<Bytes>) -> Option<SendStream<Bytes>> {
    let head = http::Response::builder().header("content-type", "text/event-stream").body(());
    respond.send_response(head.expect("a head"), false).ok()
}
