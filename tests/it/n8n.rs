//! n8n as a client: requests as its HTTP Request node sends them, of each credential and each body, against a server with keys.
//!
//! What is sent is in `fixture/n8n`, a file a request, with where that is known from and what its user should see.
//! Bytes go over a bare connection, so that no library sets right what n8n would not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::domain::key::{Key, KeyText, Scopes};
use longhaul::store::key::NewKey;
use longhaul::store::{Store, StoreSettings};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, Rig};

/// A request of n8n.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    source: String,
    note: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    framing: Framing,
    body: String,
    expects: Expected,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Framing {
    None,
    Length,
    Chunked,
}

/// What the user of n8n should see.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    status: u16,
    #[serde(default)]
    ok: Option<bool>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    hint: String,
}

impl Sent {
    /// The request as it goes over the wire.
    fn bytes(&self, name: &str, key: &str) -> Vec<u8> {
        let basic = STANDARD.encode(format!("n8n:{key}"));
        let fill = |text: &str| {
            text.replace("{{name}}", name).replace("{{key}}", key).replace("{{basic}}", &basic)
        };
        let body = fill(&self.body);
        let mut lines = vec![format!("{} {} HTTP/1.1", self.method, fill(&self.path))];
        lines.push("Host: longhaul.example".to_owned());
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {}", fill(value))));
        let framed = match self.framing {
            Framing::None => String::new(),
            Framing::Length => {
                lines.push(format!("Content-Length: {}", body.len()));
                body
            }
            Framing::Chunked => {
                lines.push("Transfer-Encoding: chunked".to_owned());
                // In two pieces, the second of which begins anywhere.
                let middle =
                    (0..=body.len() / 2).rev().find(|at| body.is_char_boundary(*at)).unwrap();
                let (one, two) = body.split_at(middle);
                format!("{:x}\r\n{one}\r\n{:X}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len())
            }
        };
        format!("{}\r\n\r\n{framed}", lines.join("\r\n")).into_bytes()
    }
}

/// The status, the head and the body of the answer.
async fn play(rig: &Rig, request: &[u8]) -> (u16, String, Value) {
    let address = rig.http_url.strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request).await.unwrap();
    let mut heard = Vec::new();
    let listening = async {
        loop {
            let text = String::from_utf8_lossy(&heard).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if length.is_some_and(|length| length.parse::<usize>().unwrap() == body.len()) {
                    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                    return (status, head.to_owned(), serde_json::from_str(body).unwrap());
                }
            }
            assert!(connection.read_buf(&mut heard).await.unwrap() > 0, "it hung up: {text}");
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.unwrap()
}

/// A rig whose server knows one key, and the key.
async fn rig_with_key() -> (Rig, String) {
    let mut rig = Rig::without_server(&[("LONGHAUL_KEY_HEADER", "X-N8N-Key")]).await;
    let text = KeyText::mint(&mut rand::rng());
    let key = Key {
        key_id: text.key_id(),
        name: "n8n".to_owned(),
        scopes: Scopes::all(),
        requests_per_second: None,
        requests_max: None,
    };
    let settings = StoreSettings {
        database_url: rig.db.url.clone().into(),
        direct_url: None,
        connections_max: 4,
    };
    let store = Store::new(&settings).unwrap();
    let made = store.create_key(&NewKey { key, hash: text.hash(), lifetime: None }).await;
    assert!(made.unwrap());
    rig.start_server_again().await;
    (rig, text.reveal().to_owned())
}

fn all() -> Vec<(String, Sent)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fixture/n8n");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, Sent)> = files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let sent = serde_json::from_str(&std::fs::read_to_string(&path).unwrap());
            (name.clone(), sent.unwrap_or_else(|error| panic!("{name}: {error}")))
        })
        .collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_n8n_gets_the_answer_that_its_user_expects() {
    let (rig, key) = rig_with_key().await;
    let all = all();
    assert!(all.len() >= 20, "the requests are there");
    for (name, sent) in all {
        assert!(!sent.source.is_empty() && !sent.note.is_empty(), "{name}");
        let (status, head, answer) = play(&rig, &sent.bytes(&name, &key)).await;
        let Expected { status: expected, ok, reason, message, hint } = &sent.expects;
        assert_eq!(status, *expected, "{name}: {answer}");
        assert!(head.contains("content-type: application/json"), "{name}: {head}");
        assert_eq!(answer["ok"].as_bool(), *ok, "{name}: {answer}");
        assert_eq!(answer["reason"].as_str(), reason.as_deref(), "{name}: {answer}");
        let says =
            |field: &str, part: &str| answer[field].as_str().unwrap_or_default().contains(part);
        assert!(says("message", message) && says("hint", hint), "{name}: {answer}");
        let is_refused = matches!(status, 401 | 403);
        let challenge = "www-authenticate: Basic realm=\"Webhook\"";
        assert_eq!(head.contains(challenge), is_refused, "{name}: {head}");
        assert!(!head.contains(&key) && !answer.to_string().contains(&key), "{name}");
        if ok == &Some(true) {
            assert_eq!(answer["message"], "Workflow was started", "{name}");
            assert_eq!(answer["job_id"], name.as_str(), "{name}");
            let actor =
                "select actor = 'key:n8n' from longhaul.event where job_id = $1 and sequence = 1";
            rig.db.wait_until(actor, &name).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_server_takes_the_same_requests_without_a_key() {
    let rig = Rig::start().await;
    for (name, sent) in all().into_iter().filter(|(_, sent)| sent.expects.ok == Some(true)) {
        let (status, _, answer) = play(&rig, &sent.bytes(&name, "")).await;
        assert_eq!((status, &answer["created"]), (200, &Value::Bool(true)), "{name}: {answer}");
    }
    let (name, none) = all().into_iter().find(|(name, _)| name == "none_json").unwrap();
    assert_eq!(play(&rig, &none.bytes(&name, "")).await.0, 200);
}
