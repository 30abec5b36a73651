//! The connection to a server: every command but the ones that are servers goes through it.
//!
//! In come an address and what the environment or a profile has to show; out goes a client that reconnects by itself
//! and notices a dead peer. A server that is not there is told as exactly that, before the first call.
//! A key never comes from a flag and is never printed; where it would be sent in clear text, a warning says so.

use std::{error::Error as _, net::IpAddr, path::PathBuf, time::Duration};

use anyhow::Result;
use clap::Args;
use http::Uri;
use secrecy::ExposeSecret as _;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use super::exit::CliError;
use super::format::FormatArgs;
use crate::config::{self, ClientSettings, ConfigError, Profile, Profiles};
use crate::rpc::proto::{GetJobRequest, GetJobResponse, job_service_client::JobServiceClient};

/// A client of the job service.
pub type Client = JobServiceClient<InterceptedService<Channel, Credential>>;

/// A reply is at most 3 MiB by the server's promise; this leaves room for a server that promises more.
const REPLY_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// Where the server is if nobody says it: where `longhaul dev` and `longhaul serve` listen.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:50051";

/// What the help puts the arguments of the connection under.
const CONNECTION: &str = "Connection";

/// What every command that calls a server takes.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// The server's gRPC address; where nothing else says it, 127.0.0.1:50051
    #[arg(long, env = "LONGHAUL_SERVER", value_name = "URL", help_heading = CONNECTION)]
    pub server: Option<String>,
    /// A file with the authorities to trust in place of the system's, as PEM, where the address is https
    #[arg(long, env = "LONGHAUL_CA_FILE", value_name = "FILE", help_heading = CONNECTION)]
    pub ca_file: Option<PathBuf>,
    /// The profile that says what no flag and no variable does: a server, its key, whom to trust
    #[arg(long, env = "LONGHAUL_PROFILE", value_name = "NAME", help_heading = CONNECTION)]
    pub profile: Option<String>,
    /// The file of the profiles; longhaul/config.toml in your folder of configuration where nothing else says it
    #[arg(long, env = "LONGHAUL_CLI_CONFIG", value_name = "FILE", help_heading = CONNECTION)]
    pub profiles: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs,
}

impl ClientArgs {
    /// Connects to the server with what the environment or a profile has to show, or says that nothing listens there.
    pub async fn connect(&self) -> Result<Client> {
        let profiles = self.read_profiles()?;
        let profile = self.choose(&profiles)?;
        let settings = config::client(self.ca_file.as_deref(), profile)?;
        if profile.is_some_and(|one| one.api_key.is_some()) && profiles.shows_a_key() {
            let path = profiles.path.display();
            eprintln!(
                "warning: others can read {path}, where a key stands; chmod 600 it, or use api_key_file"
            );
        }
        let server = self.address(profile);
        if settings.api_key.is_some() && sends_in_clear(&url_of(server)) {
            eprintln!(
                "warning: the key goes to {server} unencrypted; use an https:// address, or a tunnel"
            );
        }
        connect_with(server, &settings).await
    }

    /// Where the server is that it connects to.
    pub fn server(&self) -> Result<String> {
        let profiles = self.read_profiles()?;
        Ok(self.address(self.choose(&profiles)?).to_owned())
    }

    fn read_profiles(&self) -> Result<Profiles, ConfigError> {
        match config::profiles_file(self.profiles.as_deref()) {
            Some((path, is_named)) => Profiles::read(&path, is_named),
            None => Ok(Profiles::default()),
        }
    }

    /// The profile that is asked for, which must not contradict the server that is named; else the default one, unless
    /// another server is named than its own. No server is shown a key that is not for it.
    fn choose<'p>(&self, profiles: &'p Profiles) -> Result<Option<&'p Profile>> {
        let asked = said(self.profile.as_ref());
        let Some(name) = asked.or(profiles.default_profile.as_deref()) else { return Ok(None) };
        let profile = profiles.profile(name)?;
        let Some(server) = said(self.server.as_ref()) else { return Ok(Some(profile)) };
        match (&profile.server, asked) {
            (Some(own), _) if url_of(own) == url_of(server) => Ok(Some(profile)),
            (Some(own), Some(name)) => Err(CliError::Usage(format!(
                "the profile `{name}` is for {own}, and --server or LONGHAUL_SERVER says {server}; leave one of them out"
            ))
            .into()),
            // One without a server says what to show to the one that is named.
            (None, Some(_)) => Ok(Some(profile)),
            (_, None) => Ok(None),
        }
    }

    fn address<'a>(&'a self, profile: Option<&'a Profile>) -> &'a str {
        let of_profile = profile.and_then(|one| one.server.as_deref());
        said(self.server.as_ref()).or(of_profile).unwrap_or(DEFAULT_SERVER)
    }
}

/// A variable that is set to nothing says nothing.
fn said(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

/// What a client shows with each call.
#[derive(Clone, Debug)]
pub struct Credential(Option<MetadataValue<Ascii>>);

impl Credential {
    fn of(settings: &ClientSettings) -> Result<Self> {
        let Some(key) = &settings.api_key else { return Ok(Self(None)) };
        let value = format!("Bearer {}", key.expose_secret()).parse();
        let mut value: MetadataValue<Ascii> = value.map_err(|_why| {
            // The text is a secret, whatever is wrong with it.
            ConfigError(vec!["LONGHAUL_API_KEY must be a key, as it was printed".to_owned()])
        })?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Connects to a server given as a URL or as `host:port`, and shows nothing.
pub async fn connect(server: &str) -> Result<Client> {
    connect_with(server, &ClientSettings::default()).await
}

/// Connects to a server given as a URL or as `host:port`.
pub async fn connect_with(server: &str, settings: &ClientSettings) -> Result<Client> {
    let url = url_of(server);
    let wrong = |error: &dyn std::error::Error| {
        CliError::Usage(format!("`{server}` is not a server's address: {error}"))
    };
    let mut endpoint = Endpoint::from_shared(url.clone())
        .map_err(|error| wrong(&error))?
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true);
    if endpoint.uri().scheme_str() == Some("https") {
        let _already = rustls::crypto::ring::default_provider().install_default();
        endpoint = endpoint.tls_config(tls(settings)).map_err(|error| {
            let what = "the certificates for this server cannot be used";
            ConfigError(vec![format!("{what}: {}", root_cause(&error))])
        })?;
    }
    let credential = Credential::of(settings)?;
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| CliError::Unreachable { server: url, why: root_cause(&error) })?;
    let client = Client::new(InterceptedService::new(channel, credential));
    Ok(client.max_decoding_message_size(REPLY_LIMIT_BYTES))
}

fn tls(settings: &ClientSettings) -> ClientTlsConfig {
    let tls = ClientTlsConfig::new();
    let tls = match &settings.authorities {
        Some(authorities) => tls.ca_certificate(Certificate::from_pem(authorities)),
        None => tls.with_native_roots(),
    };
    match &settings.identity {
        Some((cert, key)) => tls.identity(Identity::from_pem(cert, key.expose_secret())),
        None => tls,
    }
}

fn url_of(server: &str) -> String {
    if server.contains("://") { server.to_owned() } else { format!("http://{server}") }
}

/// Whether what is sent there can be read by others.
fn sends_in_clear(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    url.scheme_str() == Some("http") && !is_here
}

/// Shows a job, with its submission where `include_spec` says so.
pub async fn get_job(
    client: &mut Client,
    job_id: &str,
    include_spec: bool,
) -> Result<GetJobResponse, Status> {
    let request =
        GetJobRequest { job_id: job_id.to_owned(), include_spec, ..GetJobRequest::default() };
    Ok(client.get_job(request).await?.into_inner())
}

/// Whether an error says that the server is away for now, rather than that it refused.
pub fn is_passing(status: &Status) -> bool {
    // Only an error that arose on this side carries a source: the connection broke.
    status.source().is_some()
        || matches!(
            status.code(),
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
        )
}

/// An error of a call: what the server refused, or that it went away.
pub fn call_error(status: Status) -> anyhow::Error {
    match status.source() {
        Some(source) => CliError::WentAway(root_cause(source)).into(),
        None => status.into(),
    }
}

/// What an error says, without its code.
pub fn in_words(status: &Status) -> String {
    match (status.source(), status.message()) {
        (Some(source), _) => root_cause(source),
        (None, "") => status.code().description().to_owned(),
        (None, message) => message.to_owned(),
    }
}

/// The innermost words of an error: the outer ones only say "transport error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::{Exit, report};

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_as_that() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        drop(listener);
        let error = connect(&address).await.expect_err("nothing listens");
        assert!(error.to_string().starts_with(&format!("no server answers at http://{address}:")));
        assert_eq!(report(&error), Exit::Unreachable);
    }

    #[test]
    fn a_key_is_safe_over_tls_and_on_this_machine() {
        for safe in [
            "https://jobs.example",
            "http://127.0.0.1:50051",
            "http://[::1]:1",
            "http://localhost:1",
        ] {
            assert!(!sends_in_clear(safe), "{safe}");
        }
        for clear in ["http://jobs.example", "http://10.0.0.1:50051", "http://[2001:db8::1]:1"] {
            assert!(sends_in_clear(clear), "{clear}");
        }
    }

    #[test]
    fn a_key_does_not_print() {
        let settings =
            ClientSettings { api_key: Some("lh_s3cret".to_owned().into()), ..Default::default() };
        let shown = format!("{:?}{settings:?}", Credential::of(&settings).expect("it is a key"));
        assert!(!shown.contains("s3cret"), "{shown}");
        let wrong =
            ClientSettings { api_key: Some("s3\ncret".to_owned().into()), ..Default::default() };
        assert_eq!(report(&Credential::of(&wrong).expect_err("no key")), Exit::Configuration);
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_wrong_usage() {
        let error = connect("http://").await.expect_err("no address");
        assert_eq!(report(&error), Exit::Usage);
    }
}
