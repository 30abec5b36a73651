//! What the command line says about a server, before everything else.
//!
//! In come flags, out go the addresses: those of the flags, else of the environment, else of the file, else the usual ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::source::{Source, all_or_mistakes};
use super::{ConfigError, Listen, Reader};

const GRPC_PORT: u16 = 50051;
const HTTP_PORT: u16 = 8080;
const SANDBOX_PORT: u16 = 8090;

/// The flags that are variables as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// Where the gRPC face listens.
    pub grpc_addr: Option<SocketAddr>,
    /// Where the sidecar listens.
    pub http_addr: Option<SocketAddr>,
    /// Whether to serve beyond the loopback though nothing guards it.
    pub insecure: Option<bool>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// Where a server listens.
    pub(super) fn listen(&mut self, flags: Flags) -> Listen {
        let insecure = flags.insecure.unwrap_or_else(|| self.switch("LONGHAUL_INSECURE"));
        Listen {
            grpc_addr: self.address_of("LONGHAUL_GRPC_ADDR", flags.grpc_addr, GRPC_PORT),
            http_addr: self.address_of("LONGHAUL_HTTP_ADDR", flags.http_addr, HTTP_PORT),
            insecure,
        }
    }

    fn address_of(&mut self, name: &str, flag: Option<SocketAddr>, port: u16) -> SocketAddr {
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let Some(text) = flag.is_none().then(|| self.text(name)).flatten() else {
            return flag.unwrap_or(usual);
        };
        text.parse().unwrap_or_else(|_why| {
            self.mistake(&format!("{name} must be HOST:PORT with an IP address, is {text:?}"));
            usual
        })
    }
}

/// Where the sandbox of `longhaul dev` listens.
pub fn sandbox_addr(flag: Option<SocketAddr>, source: &Source) -> Result<SocketAddr, ConfigError> {
    let mut reader = Reader::new(|name: &str| source.find(name));
    let addr = reader.address_of("LONGHAUL_SANDBOX_ADDR", flag, SANDBOX_PORT);
    all_or_mistakes(source, addr, reader.mistakes)
}

/// The file that gets the addresses once a server serves.
pub fn ready_file(flag: Option<PathBuf>, source: &Source) -> Option<PathBuf> {
    flag.or_else(|| source.find("LONGHAUL_READY_FILE").map(PathBuf::from))
}

/// The folder of the embedded Postgres, if one is named.
pub fn data_dir(flag: Option<PathBuf>, source: &Source) -> Option<PathBuf> {
    flag.or_else(|| source.find("LONGHAUL_DATA_DIR").map(PathBuf::from))
}
