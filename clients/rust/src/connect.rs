//! How a server is reached.

use std::{fmt, fs, time::Duration};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::{Interceptor, interceptor::InterceptedService};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Code, Request, Status};

use crate::{Client, Error, Result, v1::job_service_client::JobServiceClient};

/// The generated stub, as it is behind a [`Client`].
pub type Stub = JobServiceClient<InterceptedService<Channel, ApiKey>>;

/// Puts the API key into each call.
#[derive(Clone, Debug)]
pub struct ApiKey(Option<MetadataValue<Ascii>>);

impl ApiKey {
    fn new(key: &str) -> Result<Self> {
        if key.is_empty() {
            return Ok(Self(None));
        }
        let value = format!("Bearer {key}").parse();
        let mut value: MetadataValue<Ascii> =
            value.map_err(|_why| invalid("the API key is not one line of ASCII"))?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for ApiKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("authorization", key.clone());
        }
        Ok(request)
    }
}

/// Says how to reach a server; what it does not say is taken from the environment.
#[derive(Clone, Default)]
#[must_use]
pub struct ClientBuilder {
    server: Option<String>,
    api_key: Option<String>,
    ca_pem: Option<Vec<u8>>,
    identity: Option<Identity>,
    timeout: Option<Duration>,
    give_up_after: Option<Duration>,
}

impl ClientBuilder {
    /// The server: `host:port`, `http://…` or `https://…`, where the port may be left out: it is then 80, or 443.
    /// Unset: `LONGHAUL_SERVER`, else `http://127.0.0.1:50051`.
    pub fn server(self, address: impl Into<String>) -> Self {
        Self { server: Some(address.into()), ..self }
    }

    /// The API key; empty: none. Unset: `LONGHAUL_API_KEY`.
    pub fn api_key(self, key: impl Into<String>) -> Self {
        Self { api_key: Some(key.into()), ..self }
    }

    /// The authorities to trust, as PEM; empty: those of the system. Unset: the file `LONGHAUL_CA_FILE`.
    pub fn ca_pem(self, certificates: impl Into<Vec<u8>>) -> Self {
        Self { ca_pem: Some(certificates.into()), ..self }
    }

    /// The certificate to show and its key, as PEM. Unset: none is shown.
    pub fn identity_pem(self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        Self { identity: Some(Identity::from_pem(certificate, key)), ..self }
    }

    /// How long a call may take, with all its tries. Unset: 30 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// How long a watch, or a wait that may last however long, tries to get through to the server. Unset: 5 minutes.
    pub fn give_up_after(self, patience: Duration) -> Self {
        Self { give_up_after: Some(patience), ..self }
    }

    /// Makes the client, which connects with its first call, and again whenever it has to. Only within a Tokio runtime.
    /// What is said about TLS is refused for an address that is not `https://…`.
    pub fn connect(self) -> Result<Client> {
        let server = self.server.clone().or_else(|| env("LONGHAUL_SERVER"));
        let uri = parse(server.as_deref().unwrap_or("http://127.0.0.1:50051"))?;
        let is_secure = uri.scheme_str() == Some("https");
        let trusts = self.ca_pem.as_ref().is_some_and(|pem| !pem.is_empty());
        if !is_secure && (trusts || self.identity.is_some()) {
            return Err(invalid(format!("TLS is spoken at https://…, not at {uri}")));
        }
        let mut endpoint = Endpoint::from(uri)
            .connect_timeout(Duration::from_secs(10))
            .http2_keep_alive_interval(Duration::from_secs(30));
        if is_secure {
            let tls = endpoint.tls_config(self.tls()?);
            endpoint = tls.map_err(|why| invalid(format!("TLS cannot be set up: {why:?}")))?;
        }
        let key = self.api_key.or_else(|| env("LONGHAUL_API_KEY"));
        let key = ApiKey::new(&key.unwrap_or_default())?;
        let stub = JobServiceClient::with_interceptor(endpoint.connect_lazy(), key);
        Ok(Client {
            stub: stub.max_decoding_message_size(16 << 20),
            timeout: self.timeout.unwrap_or(Duration::from_secs(30)),
            give_up_after: self.give_up_after.unwrap_or(Duration::from_secs(300)),
        })
    }

    fn tls(&self) -> Result<ClientTlsConfig> {
        let tls = ClientTlsConfig::new();
        let ca_pem = match (&self.ca_pem, env("LONGHAUL_CA_FILE")) {
            (Some(pem), _) => pem.clone(),
            (None, Some(file)) => {
                fs::read(&file).map_err(|why| invalid(format!("{file}: {why}")))?
            }
            (None, None) => Vec::new(),
        };
        let tls = if ca_pem.is_empty() {
            tls.with_native_roots()
        } else {
            tls.ca_certificate(Certificate::from_pem(ca_pem))
        };
        Ok(match &self.identity {
            Some(identity) => tls.identity(identity.clone()),
            None => tls,
        })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("server", &self.server).finish_non_exhaustive()
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

pub(crate) fn parse(address: &str) -> Result<Uri> {
    let is_full = address.contains("://");
    let uri = if is_full { address.into() } else { format!("http://{address}") };
    let is_address = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && (is_full || uri.port().is_some())
    };
    uri.parse()
        .ok()
        .filter(is_address)
        .ok_or_else(|| invalid(format!("`{address}` is no host:port, http://… or https://…")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the environment may say of this client is read here"
)]
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
