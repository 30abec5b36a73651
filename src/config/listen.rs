//! How the faces are reached: their addresses, and how a key may be shown.

use std::net::SocketAddr;

use http::HeaderName;

use super::Reader;

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
    /// Whether anybody may be let in while there has never been a key.
    pub(super) fn may_be_open(self) -> bool {
        let is_reached =
            [self.grpc_addr, self.http_addr].iter().any(|addr| !addr.ip().is_loopback());
        self.insecure || !is_reached
    }
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The name of a header that holds a key.
    pub(super) fn key_header(&mut self, name: &str) -> Option<HeaderName> {
        let header = self.text(name)?;
        let header = header.parse();
        if header.is_err() {
            self.mistake(&format!("{name} must be the name of a header, such as X-Longhaul-Key"));
        }
        header.ok()
    }
}
