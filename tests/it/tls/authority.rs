//! An authority of a test, the certificates it gives, the files they are in, and clients that trust it.

use std::fs;

use longhaul::rpc::proto::job_service_client::JobServiceClient;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::harness::Client;
use crate::program::Folder;

/// An authority that only a test trusts.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Pair {
    pub cert: String,
    pub key: String,
}

/// The files that a server reads.
pub struct Files {
    folder: Folder,
    paths: [String; 3],
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Pair {
        let key = KeyPair::generate().unwrap();
        params.extended_key_usages = vec![usage];
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }

    /// A certificate for a server on this machine.
    pub fn server(&self) -> Pair {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned).to_vec();
        self.sign(CertificateParams::new(names).unwrap(), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client of this name.
    pub fn member(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(vec!["other.example".to_owned()]).unwrap();
        params.distinguished_name = named(name);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A certificate for a client that has only another name.
    pub fn nameless(&self, other: &str) -> Pair {
        let mut params = CertificateParams::new(vec![other.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A client of a server that trusts this authority, and shows a certificate if it has one.
    pub fn client(&self, server: &Client, shown: Option<&Pair>) -> Client {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.pem));
        if let Some(Pair { cert, key }) = shown {
            tls = tls.identity(Identity::from_pem(cert, key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", server.grpc_addr)).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
        let http_url = server.http_url.replacen("http://", "https://", 1);
        Client {
            grpc: JobServiceClient::new(channel),
            http: self.http(shown, false),
            http_url,
            grpc_addr: server.grpc_addr.clone(),
        }
    }

    /// An HTTP client of the same kind.
    pub fn http(&self, shown: Option<&Pair>, http2: bool) -> reqwest::Client {
        let trusted = reqwest::Certificate::from_pem(self.pem.as_bytes()).unwrap();
        let mut builder = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]);
        if !http2 {
            builder = builder.http1_only();
        }
        if let Some(Pair { cert, key }) = shown {
            let both = format!("{cert}{key}");
            builder = builder.identity(reqwest::Identity::from_pem(both.as_bytes()).unwrap());
        }
        builder.build().unwrap()
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

impl Files {
    /// Files with this in them.
    pub fn of(pair: &Pair) -> Self {
        let folder = Folder::make();
        let paths = ["cert.pem", "key.pem", "ca.pem"];
        let paths = paths.map(|name| folder.0.join(name).to_str().unwrap().to_owned());
        let files = Self { folder, paths };
        files.write(pair);
        files
    }

    /// Puts another pair into them.
    pub fn write(&self, pair: &Pair) {
        fs::write(&self.paths[0], &pair.cert).unwrap();
        fs::write(&self.paths[1], &pair.key).unwrap();
    }

    /// Puts an authority of clients beside them.
    pub fn write_client_ca(&self, pem: &str) {
        fs::write(self.folder.0.join("ca.pem"), pem).unwrap();
    }

    /// The variables that name them.
    pub fn variables(&self, more: &[&str]) -> Vec<(&'static str, &str)> {
        let [cert, key, client_ca] = &self.paths;
        let mut variables =
            vec![("LONGHAUL_TLS_CERT_FILE", cert.as_str()), ("LONGHAUL_TLS_KEY_FILE", key)];
        if more.contains(&"client_ca") {
            variables.push(("LONGHAUL_TLS_CLIENT_CA_FILE", client_ca));
        }
        variables
    }
}
