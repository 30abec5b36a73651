//! Commands that call a server with something to show: a key, whom they trust, and a certificate of their own.

use std::fs;
use std::sync::Arc;

use longhaul::domain::key::Scope;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::encrypted::CERTIFICATE;
use crate::harness::{Node, Rig, job, wait};
use crate::key::{Said, by, command, make};
use crate::program::Folder;

/// A closed server with a job, and who may do what.
struct Closed {
    rig: Rig,
    node: Node,
    reader: String,
}

impl Closed {
    async fn open() -> Self {
        let rig = Rig::without_server(&[]).await;
        let reader = make(&rig, "reader", &[Scope::Read], None).await;
        let submitter = make(&rig, "submitter", &[Scope::Submit], None).await;
        let node = rig.serve().await;
        node.client
            .grpc
            .clone()
            .submit_job(by(&submitter, job("there", [wait(3600)])))
            .await
            .unwrap();
        Self { rig, node, reader }
    }

    async fn run(&self, server: &str, args: &[&str], variables: &[(&str, &str)]) -> Said {
        let server = ("LONGHAUL_SERVER", server);
        command(&self.rig, args, &[&[server], variables].concat()).await
    }

    /// A way to its gRPC face over TLS; `asks` whether it wants to see a certificate.
    async fn over_tls(&self, asks: bool) -> String {
        // Only the first of a process counts; the others find theirs installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let plain = self.node.client.grpc_addr.clone();
        let pem = fs::read(CERTIFICATE).unwrap();
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(&pem).unwrap();
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(chain[0].clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
            ServerConfig::builder().with_client_cert_verifier(verifier)
        } else {
            ServerConfig::builder().with_no_client_auth()
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptor.clone(), plain.clone());
                tokio::spawn(async move {
                    // Who does not believe the certificate, or has none, goes away.
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut server = TcpStream::connect(plain).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        url
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_shows_its_key_and_says_what_to_do_where_it_has_none_or_not_enough() {
    let closed = Closed::open().await;
    let server = closed.node.client.grpc_url();
    let folder = Folder::make();
    let file = folder.0.join("key");
    fs::write(&file, format!("{}\n", closed.reader)).unwrap();
    let file = ("LONGHAUL_API_KEY_FILE", file.to_str().unwrap());
    let key = ("LONGHAUL_API_KEY", closed.reader.as_str());
    for shown in [key, file] {
        let said = closed.run(&server, &["list"], &[shown]).await;
        assert!(said.code == 0 && said.out.contains("there"), "{said:?}");
        assert_eq!(said.err, "", "on this machine nobody has to be warned");
        let said = closed.run(&server, &["cancel", "there"], &[shown]).await;
        assert_eq!(said.code, 77, "{said:?}");
        assert!(said.err.contains("the API key lacks the scope control"), "{said:?}");
    }
    let said = closed.run(&server, &["list"], &[]).await;
    assert_eq!(said.code, 77, "{said:?}");
    for part in ["an API key is needed", "set LONGHAUL_API_KEY", "longhaul key create"] {
        assert!(said.err.contains(part), "{said:?}");
    }
    let wrong = ("LONGHAUL_API_KEY", "lh_s3cret");
    let said = closed.run(&server, &["watch", "there"], &[wrong]).await;
    assert!(said.code == 77 && said.err.contains("the API key is not valid"), "{said:?}");
    assert!(!said.err.contains("s3cret"), "{said:?}");
    for (name, value, words) in [
        ("LONGHAUL_API_KEY_FILE", "/nowhere", "LONGHAUL_API_KEY_FILE names /nowhere, which cannot"),
        ("LONGHAUL_API_KEY", "lh_s3\ncret", "LONGHAUL_API_KEY must be a key"),
        ("LONGHAUL_CA_FILE", "/nowhere", "LONGHAUL_CA_FILE names /nowhere, which cannot be read"),
        ("LONGHAUL_CA_FILE", "/dev/null", "LONGHAUL_CA_FILE names /dev/null, which is no PEM"),
        ("LONGHAUL_CLIENT_CERT_FILE", "/dev/null", "LONGHAUL_CLIENT_KEY_FILE go together"),
    ] {
        let said = closed.run(&server, &["list"], &[(name, value)]).await;
        assert!(said.code == 78 && said.err.contains(words), "{said:?}");
        assert!(!said.err.contains("s3"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_would_go_over_the_network_in_clear_text_is_warned_of() {
    let closed = Closed::open().await;
    // Nobody answers there: documentation addresses lead nowhere, and the name is refused at once.
    let key = ("LONGHAUL_API_KEY", closed.reader.as_str());
    let said = closed.run("http://server.invalid:50051", &["list"], &[key]).await;
    assert!(said.code == 69 && said.err.starts_with("warning: the key goes to http"), "{said:?}");
    assert!(!said.err.contains(&closed.reader), "{said:?}");
    let said = closed.run("https://server.invalid:50051", &["list"], &[key]).await;
    assert!(said.code == 69 && !said.err.contains("warning"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_speaks_tls_to_whom_it_trusts_and_shows_its_certificate() {
    let closed = Closed::open().await;
    let (plain, asking) = (closed.over_tls(false).await, closed.over_tls(true).await);
    let key = ("LONGHAUL_API_KEY", closed.reader.as_str());
    let (ca, system) = (("LONGHAUL_CA_FILE", CERTIFICATE), ("SSL_CERT_FILE", CERTIFICATE));
    for trusted in [ca, system] {
        let said = closed.run(&plain, &["list"], &[key, trusted]).await;
        assert!(said.code == 0 && said.out.contains("there"), "{trusted:?}: {said:?}");
    }
    let flag = ["list", "--ca-file", CERTIFICATE];
    assert_eq!(closed.run(&plain, &flag, &[key]).await.code, 0);
    let said = closed.run(&plain, &["list"], &[key]).await;
    assert!(said.code == 69 && said.err.contains("certificate"), "{said:?}");
    let own =
        [("LONGHAUL_CLIENT_CERT_FILE", CERTIFICATE), ("LONGHAUL_CLIENT_KEY_FILE", CERTIFICATE)];
    let said = closed.run(&asking, &["list"], &[&[key, ca], &own[..]].concat()).await;
    assert!(said.code == 0 && said.out.contains("there"), "{said:?}");
    assert_eq!(closed.run(&asking, &["list"], &[key, ca]).await.code, 69);
}
