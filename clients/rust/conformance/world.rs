//! Whom the scenario runs against, and the JSON of its messages.

use longhaul_client::{Client, Result};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");

pub struct World {
    control: String,
    pool: DescriptorPool,
}

impl World {
    pub fn new() -> Self {
        let files = protox::compile(["longhaul/v1/job_service.proto"], [PROTO]);
        let files = files.expect("the proto compiles");
        Self {
            control: env("LONGHAUL_CONFORMANCE").replace("http://", ""),
            pool: DescriptorPool::from_file_descriptor_set(files).expect("the proto is whole"),
        }
    }

    /// The scenario with the names of this client.
    pub async fn scenario(&self) -> Value {
        let scenario = self.ask("GET", "/scenario?client=rust").await;
        serde_json::from_str(&scenario).expect("the scenario is JSON")
    }

    /// Has something happen to clients.
    pub async fn suffer(&self, what: &str) {
        self.ask("POST", &format!("/{what}")).await;
    }

    async fn ask(&self, method: &str, path: &str) -> String {
        let mut line = TcpStream::connect(&self.control).await.expect("the world is there");
        let request = format!("{method} {path} HTTP/1.0\r\ncontent-length: 0\r\n\r\n");
        line.write_all(request.as_bytes()).await.expect("the world listens");
        let mut answer = String::new();
        line.read_to_string(&mut answer).await.expect("the world answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
        assert!(head.contains(" 200 "), "{method} {path}: {head}");
        body.to_owned()
    }

    /// The message that is written as JSON.
    pub fn message<M: Message + Default>(&self, name: &str, json: &Value) -> M {
        let nothing = json!({});
        let json = if json.is_null() { &nothing } else { json };
        let message = DynamicMessage::deserialize(self.descriptor(name), json);
        let message = message.expect("the scenario fits the proto");
        message.transcode_to().expect("stubs fit the proto")
    }

    /// A message as JSON.
    pub fn json<M: Message>(&self, name: &str, message: &M) -> Value {
        let bytes = message.encode_to_vec();
        let message = DynamicMessage::decode(self.descriptor(name), &*bytes);
        serde_json::to_value(message.expect("stubs fit the proto")).expect("it is JSON")
    }

    fn descriptor(&self, name: &str) -> MessageDescriptor {
        let name = format!("longhaul.v1.{name}");
        self.pool.get_message_by_name(&name).expect("the proto has it")
    }
}

/// The client that a step is called with.
pub fn connect(step: &Value) -> Result<Client> {
    let mut builder = Client::builder();
    if let Some(key) = step["api_key"].as_str() {
        builder = builder.api_key(key);
    }
    if step["silent"] == true {
        builder = builder.server(env("LONGHAUL_SILENT_SERVER"));
    }
    if let Some(tls) = step["tls"].as_str() {
        builder = builder.server(env("LONGHAUL_TLS_SERVER"));
        if tls == "untrusted" {
            builder = builder.ca_pem("");
        }
    }
    let client = builder.connect()?;
    let deadline = step["deadline_ms"].as_u64().map(std::time::Duration::from_millis);
    Ok(deadline.map(|deadline| client.with_timeout(deadline)).unwrap_or(client))
}

#[expect(
    clippy::disallowed_methods,
    reason = "clients/conformance/run.py says by it where everything is"
)]
fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}
