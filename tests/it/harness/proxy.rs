//! A reverse proxy before a server, as installations have one: it names another host, may have a path of its own,
//! and does what proxies do by mistake.
//!
//! It serves before it knows where it leads to, since a server is told its public URL at start.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::http_client;

/// A certificate for this machine that signs itself, and its key.
const CERTIFICATE: &[u8] = include_bytes!("../fixture/provider.pem");

/// A body that is larger is nobody's.
const BODY_BYTES_MAX: usize = 16 << 20;

/// What a proxy makes of a request.
pub enum Pass {
    /// It passes it on under this path.
    On(String),
    /// It answers by itself.
    Answer(Response),
}

/// Decides what becomes of a request.
pub type Bend = fn(&Asked) -> Pass;
/// And of the headers of the answer.
pub type Strip = fn(&mut HeaderMap);

/// A request, as far as proxies judge by it.
pub struct Asked {
    pub method: axum::http::Method,
    pub path: String,
    pub body: Bytes,
}

/// A running proxy.
pub struct Proxy {
    /// Its address.
    pub url: String,
    inner: Arc<Inner>,
    stop: CancellationToken,
}

struct Inner {
    target: Mutex<String>,
    bend: Bend,
    strip: Strip,
    http: reqwest::Client,
}

impl Proxy {
    /// One that passes everything on as it is.
    pub async fn plain() -> Self {
        Self::start(|asked| Pass::On(asked.path.clone()), |_headers| {}).await
    }

    /// One that bends requests and strips answers.
    pub async fn start(bend: Bend, strip: Strip) -> Self {
        // Only the first of a process counts; the others find theirs installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = Arc::new(Inner { target: Mutex::default(), bend, strip, http: http_client() });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        let stop = CancellationToken::new();
        let serving =
            axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(serving.into_future());
        Self { url, inner, stop }
    }

    /// From now on it passes requests on to this address.
    pub fn lead_to(&self, http_url: &str) {
        http_url.clone_into(&mut self.inner.target.lock().unwrap());
    }

    /// A way to it over TLS, at a name for which its certificate is valid if somebody knows its signer.
    pub async fn over_tls(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let plain = self.url.strip_prefix("http://").unwrap().to_owned();
        let chain = CertificateDer::pem_slice_iter(CERTIFICATE).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(CERTIFICATE).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptor.clone(), plain.clone());
                tokio::spawn(async move {
                    // Who does not believe the certificate goes away.
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut server = TcpStream::connect(plain).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        };
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(accept));
        url
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn pass(State(proxy): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await.unwrap();
    let asked = Asked { method: parts.method.clone(), path: path_of(&parts.uri), body };
    let path = match (proxy.bend)(&asked) {
        Pass::On(path) => path,
        Pass::Answer(answer) => return answer,
    };
    let target = proxy.target.lock().unwrap().clone();
    let mut headers = parts.headers;
    // The name of the host becomes that of the server behind.
    headers.remove(header::HOST);
    let request = proxy.http.request(parts.method, format!("{target}{path}"));
    let Ok(answer) = request.headers(headers).body(asked.body).send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::TRANSFER_ENCODING);
    (proxy.strip)(&mut headers);
    let mut response = Response::new(Body::from(answer.bytes().await.unwrap()));
    *response.status_mut() = status;
    // The length of what HEAD does not send is the proxy's to leave out.
    headers.remove(header::CONTENT_LENGTH);
    *response.headers_mut() = headers;
    response
}

fn path_of(uri: &Uri) -> String {
    uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
}
