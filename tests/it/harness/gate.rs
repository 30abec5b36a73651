//! A gate between a server and its database: a stand-in for a connection pooler, or a way that can be closed.
//!
//! Poolers drop start-up options that they do not know, which is all that a server can tell from outside.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

const SSL_REQUEST: i32 = 80_877_103;

/// A way to a database that is open until it is dropped.
pub struct Gate {
    /// The same database, through the gate.
    pub url: String,
    shut: CancellationToken,
    full: CancellationToken,
}

impl Gate {
    /// Passes everything on.
    pub async fn open(database_url: &str) -> Self {
        Self::start(database_url, false).await
    }

    /// Passes everything on but the mark by which a server knows its own session.
    pub async fn pool(database_url: &str) -> Self {
        Self::start(database_url, true).await
    }

    async fn start(database_url: &str, drops_mark: bool) -> Self {
        let (address, host) = database_url.split_once("?host=").unwrap();
        let socket = format!("{}/.s.PGSQL.5432", host.replace("%2F", "/"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = address.replacen("localhost:5432", &format!("127.0.0.1:{port}"), 1);
        let shut = CancellationToken::new();
        let is_shut = shut.clone();
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                let pass = pass(client, socket.clone(), drops_mark);
                tokio::spawn(is_shut.clone().run_until_cancelled_owned(pass));
            }
        };
        let full = shut.child_token();
        tokio::spawn(full.clone().run_until_cancelled_owned(accept));
        Self { url, shut, full }
    }

    /// Lets nobody else in; whoever is inside stays.
    pub fn admit_nobody(&self) {
        self.full.cancel();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shut.cancel();
    }
}

async fn pass(mut client: TcpStream, socket: String, drops_mark: bool) -> std::io::Result<()> {
    let mut server = UnixStream::connect(socket).await?;
    let startup = loop {
        let length = client.read_i32().await?;
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        client.read_exact(&mut body).await?;
        if body[..4] != SSL_REQUEST.to_be_bytes() {
            break body;
        }
        client.write_all(b"N").await?;
    };
    let (version, options) = startup.split_at(4);
    let options = std::str::from_utf8(options).unwrap();
    let options = if drops_mark { without_mark(options) } else { options.to_owned() };
    server.write_i32(i32::try_from(options.len() + 8).unwrap()).await?;
    server.write_all(version).await?;
    server.write_all(options.as_bytes()).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Names and values, each with a zero behind it; among the options, `-c longhaul.presence=…` up to a blank or a zero.
fn without_mark(options: &str) -> String {
    let Some((before, mark)) = options.split_once("-c longhaul.presence") else {
        return options.to_owned();
    };
    let end = mark.find([' ', '\0']).unwrap();
    format!("{}{}", before.trim_end(), &mark[end..])
}
