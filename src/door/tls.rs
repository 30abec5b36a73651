//! TLS: certificates from files, for both faces, and whom clients' certificates name.
//!
//! In come the files, looked at every two seconds; out goes what new connections are agreed on with.
//! What is broken is told once and the old one kept; connections that are open go on with what they were agreed on.
//! With an authority for clients, the gRPC face takes nobody without a certificate, and the sidecar asks for one.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::PeerName;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(2);
/// The longest name of a peer that is told, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The files, each in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with what links it to an authority after it.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities whose certificates let clients in.
    pub client_ca: Option<PathBuf>,
}

/// Which of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// The certificate.
    Cert,
    /// Its key.
    Key,
    /// The authorities of clients.
    ClientCa,
}

/// What is wrong with one of the files.
#[derive(Clone, Debug)]
pub struct TlsFault {
    /// With which.
    pub file: TlsFile,
    /// What, in words that hold nothing secret.
    pub message: String,
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Which face is served.
#[derive(Clone, Copy, Debug)]
pub enum Port {
    /// gRPC: HTTP/2, and HTTP/1 where browsers may come.
    Grpc {
        /// Whether browsers may.
        speaks_http1: bool,
    },
    /// The sidecar, whose approvers have only phones.
    Http,
}

/// What is in the files.
#[derive(Clone, Debug)]
pub struct Tls {
    files: Arc<TlsFiles>,
    loaded: Arc<RwLock<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    /// Of what was looked at last, good or broken.
    digest: [u8; 32],
    grpc: Arc<ServerConfig>,
    web_grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

/// The bytes of the files.
struct Read {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files; all that is wrong with them is told at once.
    pub fn load(files: TlsFiles) -> Result<Self, Vec<TlsFault>> {
        let read = Read::of(&files)?;
        let loaded = Loaded::new(&files, &read)?;
        Ok(Self { files: Arc::new(files), loaded: Arc::new(RwLock::new(loaded)) })
    }

    /// Whether clients may show certificates.
    pub fn knows_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// What a face agrees on TLS with.
    pub fn acceptor(&self, port: Port) -> Acceptor {
        Acceptor { tls: self.clone(), port }
    }

    /// Looks at the files until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            let tls = self.clone();
            // Reading files blocks.
            if let Err(error) = tokio::task::spawn_blocking(move || tls.run_once()).await {
                tracing::error!(%error, "could not look at the certificates");
            }
        }
    }

    /// Looks once; answers whether there is something new and good.
    pub fn run_once(&self) -> bool {
        let read = match Read::of(&self.files) {
            Ok(read) => read,
            Err(faults) => {
                let seen = faults.iter().map(|fault| fault.message.as_str());
                return self.refuse(Sha256::digest(seen.collect::<String>()).into(), &faults);
            }
        };
        let digest = read.digest();
        if self.loaded.read().unwrap_or_else(PoisonError::into_inner).digest == digest {
            return false;
        }
        match Loaded::new(&self.files, &read) {
            Ok(loaded) => {
                *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                tracing::info!("new certificates are in force");
                true
            }
            Err(faults) => self.refuse(digest, &faults),
        }
    }

    /// Tells once what is wrong, and stays with what there was.
    fn refuse(&self, digest: [u8; 32], faults: &[TlsFault]) -> bool {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut loaded.digest, digest) != digest {
            for fault in faults {
                tracing::error!(%fault, "new certificates are broken: the old ones are kept");
            }
        }
        false
    }
}

/// Agrees on TLS with peers of one face, with the newest certificates.
#[derive(Clone, Debug)]
pub struct Acceptor {
    tls: Tls,
    port: Port,
}

impl Acceptor {
    /// Agrees on TLS with a peer.
    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = {
            let loaded = self.tls.loaded.read().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(match self.port {
                Port::Grpc { speaks_http1: false } => &loaded.grpc,
                Port::Grpc { speaks_http1: true } => &loaded.web_grpc,
                Port::Http => &loaded.http,
            })
        };
        TlsAcceptor::from(config).accept(socket).await
    }
}

impl Read {
    fn of(files: &TlsFiles) -> Result<Self, Vec<TlsFault>> {
        let mut faults = Vec::new();
        let mut read = |file: TlsFile, path: &Path| {
            fs::read(path).unwrap_or_else(|error| {
                faults.push(TlsFault::of(file, path, &format!("cannot be read: {error}")));
                Vec::new()
            })
        };
        let cert = read(TlsFile::Cert, &files.cert);
        let key = read(TlsFile::Key, &files.key);
        let client_ca = files.client_ca.as_deref().map(|path| read(TlsFile::ClientCa, path));
        if faults.is_empty() { Ok(Self { cert, key, client_ca }) } else { Err(faults) }
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()] {
            let part = part.map(Vec::as_slice).unwrap_or_default();
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

impl Loaded {
    fn new(files: &TlsFiles, read: &Read) -> Result<Self, Vec<TlsFault>> {
        let mut faults = Vec::new();
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(TlsFile::Cert, &files.cert, &read.cert);
        let chain = chain.map_err(|fault| faults.push(fault)).ok();
        let key = PrivateKeyDer::from_pem_slice(&read.key).map_err(|_why| {
            faults.push(TlsFault::of(TlsFile::Key, &files.key, "holds no private key in PEM"));
        });
        let authorities = files.client_ca.as_deref().zip(read.client_ca.as_deref());
        let roots = authorities.map(|(path, pem)| roots(path, pem));
        let roots = roots.transpose().map_err(|fault| faults.push(fault)).ok();
        let (Some(chain), Ok(key), Some(roots)) = (chain, key, roots) else { return Err(faults) };
        let required = roots.clone().map(|roots| verifier(files, &provider, roots, true));
        let asked = roots.map(|roots| verifier(files, &provider, roots, false));
        let (required, asked) = (required.transpose()?, asked.transpose()?);
        let config = |verifier: Option<Arc<dyn ClientCertVerifier>>, protocols: &[&[u8]]| {
            let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .map_err(|error| {
                    vec![TlsFault::of(TlsFile::Cert, &files.cert, &error.to_string())]
                })?;
            let builder = match verifier {
                Some(verifier) => builder.with_client_cert_verifier(verifier),
                None => builder.with_no_client_auth(),
            };
            let mut config =
                builder.with_single_cert(chain.clone(), key.clone_key()).map_err(|error| {
                    let message = format!("does not fit the certificate: {error}");
                    vec![TlsFault::of(TlsFile::Key, &files.key, &message)]
                })?;
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            // Whoever comes back is looked at again, since an authority may have gone meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            Ok::<_, Vec<TlsFault>>(Arc::new(config))
        };
        Ok(Self {
            digest: read.digest(),
            grpc: config(required.clone(), &[b"h2"])?,
            web_grpc: config(required, &[b"h2", b"http/1.1"])?,
            http: config(asked, &[b"h2", b"http/1.1"])?,
        })
    }
}

impl TlsFault {
    fn of(file: TlsFile, path: &Path, what: &str) -> Self {
        Self { file, message: format!("{} {what}", path.display()) }
    }
}

fn certificates(
    file: TlsFile,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(TlsFault::of(file, path, "holds no certificate in PEM")),
    }
}

fn roots(path: &Path, pem: &[u8]) -> Result<Arc<RootCertStore>, TlsFault> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(TlsFile::ClientCa, path, pem)? {
        roots.add(authority).map_err(|error| {
            TlsFault::of(TlsFile::ClientCa, path, &format!("holds no authority: {error}"))
        })?;
    }
    Ok(Arc::new(roots))
}

fn verifier(
    files: &TlsFiles,
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, Vec<TlsFault>> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| {
        let path = files.client_ca.as_deref().unwrap_or(Path::new(""));
        vec![TlsFault::of(TlsFile::ClientCa, path, &error.to_string())]
    })
}

/// Whom a certificate names: its common name, or the first other one, as far as both can be told.
pub(super) fn name_of(certificate: &CertificateDer<'_>) -> PeerName {
    let name = X509Certificate::from_der(certificate).ok().and_then(|(_, certificate)| {
        let common = certificate.subject().iter_common_name().find_map(|name| name.as_str().ok());
        let common = common.map(plain).filter(|name| !name.is_empty());
        common.or_else(|| {
            let others = certificate.subject_alternative_name().ok().flatten()?;
            let mut names = others.value.general_names.iter().filter_map(|name| match name {
                GeneralName::DNSName(name)
                | GeneralName::RFC822Name(name)
                | GeneralName::URI(name) => Some(plain(name)),
                GeneralName::OtherName(..)
                | GeneralName::X400Address(_)
                | GeneralName::DirectoryName(_)
                | GeneralName::EDIPartyName(_)
                | GeneralName::IPAddress(_)
                | GeneralName::RegisteredID(_)
                | GeneralName::Invalid(..) => None,
            });
            names.find(|name| !name.is_empty())
        })
    });
    PeerName(name.unwrap_or_else(|| "unnamed".to_owned()).into())
}

/// A name as it may stand in a history.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}
