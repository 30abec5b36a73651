//! The wire between a server and Postgres, which can lose what Postgres answers to a commit.
//!
//! A commit is one that is said, or a write outside a transaction, which commits by itself.
//! It forwards bytes from a TCP port to the socket of the database. Told to lose the next commit, it lets that through,
//! waits until Postgres has answered, and breaks the connection instead of passing the answer on:
//! what was committed has happened, and whoever asked does not know it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// A wire to a database.
pub struct Wire {
    /// Where the database is at the other end of it.
    pub url: String,
    losing: Arc<Losing>,
}

/// What is still to be lost.
#[derive(Default)]
struct Losing {
    commits: AtomicUsize,
    undone: AtomicUsize,
    /// One commit of a transaction that says this.
    saying: Mutex<Option<&'static str>>,
}

impl Losing {
    fn saying(&self) -> MutexGuard<'_, Option<&'static str>> {
        self.saying.lock().unwrap()
    }
}

impl Wire {
    /// A wire to the database at this URL, which is reached through a socket.
    pub async fn to(url: &str) -> Self {
        let (database, folder) = url.split_once("?host=").unwrap();
        let name = database.rsplit('/').next().unwrap();
        let socket = format!("{}/.s.PGSQL.5432", folder.replace("%2F", "/"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("postgres://postgres@127.0.0.1:{port}/{name}?sslmode=disable");
        let losing = Arc::new(Losing::default());
        let to_lose = Arc::clone(&losing);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(carry(client, server, Arc::clone(&to_lose)));
            }
        });
        Self { url, losing }
    }

    /// Loses the answers to the next commits, so many of them.
    pub fn lose_commits(&self, count: usize) {
        self.losing.commits.store(count, Ordering::SeqCst);
    }

    /// Loses the answer to the next commit of a transaction that says this.
    pub fn lose_commit_saying(&self, what: &'static str) {
        *self.losing.saying() = Some(what);
    }

    /// Breaks before the next commits get there, so many of them: what they should commit does not happen.
    pub fn undo_commits(&self, count: usize) {
        self.losing.undone.store(count, Ordering::SeqCst);
    }

    /// How many answers are still to be lost.
    pub fn left_to_lose(&self) -> usize {
        self.losing.commits.load(Ordering::SeqCst) + usize::from(self.losing.saying().is_some())
    }
}

/// Carries bytes both ways until one side ends, or an answer is lost.
async fn carry(mut client: TcpStream, mut server: UnixStream, losing: Arc<Losing>) {
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let (mut has_said, mut talk) = (false, Talk::default());
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                let says = |what: &[u8]| asked[..count].windows(what.len()).any(|at| at == what);
                has_said |= losing.saying().is_some_and(|what| says(what.as_bytes()));
                let one_less = |left: usize| left.checked_sub(1);
                let loses = |left: &AtomicUsize| {
                    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
                };
                let commits = talk.commits(&asked[..count]);
                if commits && loses(&losing.undone) || server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
                let is_said = commits && has_said && losing.saying().take().is_some();
                if is_said || commits && loses(&losing.commits) {
                    // Its answer: the commit has happened. Returning breaks both ends.
                    let _ = server.read(&mut answered).await;
                    return;
                }
                has_said &= !commits;
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What is known of a session from what was said in it.
#[derive(Default)]
struct Talk {
    is_in_transaction: bool,
    /// The names of its statements that write.
    writing: Vec<Vec<u8>>,
}

impl Talk {
    /// Whether this commits, which it may only do once it has been prepared.
    fn commits(&mut self, said: &[u8]) -> bool {
        let find = |what: &[u8]| said.windows(what.len()).position(|at| at == what);
        if let Some(at) = find(b"\0-- write_") {
            // A message to prepare: its kind, its length in four bytes, the name of the statement, its end, the text.
            let begins =
                |start: usize| start >= 5 && said[start - 5] == b'P' && said[start - 4] == 0;
            let Some(start) = (0..=at).rev().find(|start| begins(*start)) else { return false };
            let name = &said[start..at];
            self.writing.push([b"\0", name, b"\0"].concat());
            return false;
        }
        if find(b"COMMIT").is_some() {
            self.is_in_transaction = false;
            return true;
        }
        if find(b"ROLLBACK").is_some() {
            self.is_in_transaction = false;
        } else if find(b"BEGIN").is_some() {
            self.is_in_transaction = true;
        }
        !self.is_in_transaction && self.writing.iter().any(|name| find(name).is_some())
    }
}
