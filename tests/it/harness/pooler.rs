//! A stand-in for a connection pooler: it passes everything on but the mark by which a server knows its own session.
//!
//! Poolers drop start-up options that they do not know, which is all that a server can tell from outside.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};

const SSL_REQUEST: i32 = 80_877_103;

/// Serves on a free port until the test ends; answers the URL of the same database behind it.
pub async fn pool(database_url: &str) -> String {
    let (address, host) = database_url.split_once("?host=").unwrap();
    let socket = format!("{}/.s.PGSQL.5432", host.replace("%2F", "/"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, socket.clone()));
        }
    });
    address.replacen("localhost:5432", &format!("127.0.0.1:{port}"), 1)
}

async fn pass(mut client: TcpStream, socket: String) -> std::io::Result<()> {
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
    let text = String::from_utf8(startup[4..].to_vec()).unwrap();
    let kept: Vec<&str> =
        text.split(" -c ").filter(|part| !part.starts_with("longhaul.presence")).collect();
    // The mark may have been the last option, and with it the end of the list went.
    let mut kept = kept.join(" -c ");
    if !kept.ends_with("\0\0") {
        kept.push_str("\0\0");
    }
    let length = i32::try_from(kept.len() + 8).unwrap();
    server.write_i32(length).await?;
    server.write_all(&startup[..4]).await?;
    server.write_all(kept.as_bytes()).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
