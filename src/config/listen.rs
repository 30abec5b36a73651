//! How the faces are reached: their addresses, how a key may be shown, TLS, and how much they take.
//!
//! In come variables, out go the settings of `door`; what is wrong with a certificate is a mistake like any other.
//! Every limit has a default that a server on its own can hold.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;

use super::{Config, Reader};
use crate::door::{LimitSettings, LineSettings, Tls, TlsFile, TlsFiles};
use crate::web::is_loopback_url;

const CERT: &str = "LONGHAUL_TLS_CERT_FILE";
const KEY: &str = "LONGHAUL_TLS_KEY_FILE";
const CLIENT_CA: &str = "LONGHAUL_TLS_CLIENT_CA_FILE";
/// Headers in which no key can be, since clients, proxies and servers write them themselves.
const TAKEN: [&str; 21] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "referer",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
const TAKEN_PREFIXES: [&str; 4] = ["access-control-", "grpc-", "proxy-", "x-forwarded-"];
/// What a call may take beyond its own time: the longest wait of a look at a job, and the way of its answer.
const BEYOND: Duration = Duration::from_secs(90);

/// Where a server listens, and whether it may do so without keys where others can reach it.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// The gRPC face.
    pub grpc_addr: SocketAddr,
    /// The sidecar.
    pub http_addr: SocketAddr,
    /// Serve beyond the loopback though nothing guards it.
    pub insecure: bool,
}

impl Listen {
    /// Whether anybody may be let in while there has never been a key; where clients show certificates, nobody.
    pub(super) fn may_be_open(self, tls: Option<&Tls>) -> bool {
        let is_reached =
            [self.grpc_addr, self.http_addr].iter().any(|addr| !addr.ip().is_loopback());
        let is_guarded = tls.is_some_and(Tls::knows_clients);
        self.insecure || !is_reached && !is_guarded
    }
}

/// Whether a header means something else to HTTP, to gRPC or to a proxy.
fn is_taken(header: &HeaderName) -> bool {
    let name = header.as_str();
    TAKEN.contains(&name) || TAKEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl Config {
    /// The public URL, if others reach this server by it though it listens on a loopback address: a proxy stands before it.
    pub fn find_proxied_url(&self) -> Option<&str> {
        let url = self.web.public_url.as_str();
        (self.web.is_on_loopback && !is_loopback_url(url)).then_some(url)
    }

    /// How the address of the sidecar begins.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The name of a header that holds a key.
    pub(super) fn key_header(&mut self, name: &str) -> Option<HeaderName> {
        let text = self.text(name)?;
        let header: Option<HeaderName> = text.parse().ok();
        let header = header.filter(|header| !is_taken(header));
        if header.is_none() {
            self.mistake(&format!(
                "{name} must be the name of a header that holds nothing else, such as X-Longhaul-Key, is {text:?}"
            ));
        }
        header
    }

    /// The certificates; a pair goes together, and every fault of the files is told.
    pub(super) fn tls(&mut self) -> Option<Tls> {
        let client_ca = self.text(CLIENT_CA).map(PathBuf::from);
        let (cert, key) = match (self.text(CERT), self.text(KEY)) {
            (Some(cert), Some(key)) => (cert, key),
            (None, None) => {
                if client_ca.is_some() {
                    self.mistake(&format!("{CLIENT_CA} says nothing without {CERT} and {KEY}"));
                }
                return None;
            }
            (Some(_), None) | (None, Some(_)) => {
                self.mistake(&format!("{CERT} and {KEY} go together: set both or none"));
                return None;
            }
        };
        let loaded = Tls::load(TlsFiles { cert: cert.into(), key: key.into(), client_ca });
        for fault in loaded.as_ref().err().into_iter().flatten() {
            let name = match fault.file {
                TlsFile::Cert => CERT,
                TlsFile::Key => KEY,
                TlsFile::ClientCa => CLIENT_CA,
            };
            self.mistake(&format!("{name}: {fault}"));
        }
        loaded.ok()
    }

    /// How long a request may take, from its head to the beginning of its answer.
    pub(super) fn request_timeout(&mut self) -> Duration {
        Duration::from_secs(self.number("LONGHAUL_REQUEST_SECONDS", 30, 1, 3600))
    }

    /// How long a watcher may take nothing.
    pub(super) fn watch_patience(&mut self) -> Duration {
        Duration::from_secs(self.number("LONGHAUL_WATCH_PATIENCE_SECONDS", 60, 1, 3600))
    }

    pub(super) fn lines(&mut self, request_timeout: Duration) -> LineSettings {
        let default = LineSettings::default();
        let seconds = |reader: &mut Self, name, default: Duration| {
            Duration::from_secs(reader.number(name, default.as_secs(), 1, 86_400))
        };
        LineSettings {
            connections_max: self.number(
                "LONGHAUL_CONNECTIONS_MAX",
                default.connections_max,
                1,
                1_000_000,
            ),
            handshake_timeout: seconds(
                self,
                "LONGHAUL_HANDSHAKE_SECONDS",
                default.handshake_timeout,
            ),
            head_timeout: seconds(self, "LONGHAUL_HEAD_SECONDS", default.head_timeout),
            idle_timeout: seconds(self, "LONGHAUL_IDLE_SECONDS", default.idle_timeout),
            header_bytes_max: self.number(
                "LONGHAUL_HEADER_BYTES_MAX",
                default.header_bytes_max,
                8 << 10,
                1 << 20,
            ),
            call_timeout: request_timeout + BEYOND,
        }
    }

    pub(super) fn limits(&mut self) -> LimitSettings {
        let most = |reader: &mut Self, name| NonZeroU32::new(reader.number(name, 0, 0, 1_000_000));
        LimitSettings {
            per_second: most(self, "LONGHAUL_REQUESTS_PER_SECOND"),
            key_per_second: most(self, "LONGHAUL_KEY_REQUESTS_PER_SECOND"),
            key_max: most(self, "LONGHAUL_KEY_REQUESTS_MAX"),
        }
    }
}
