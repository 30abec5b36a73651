//! The workflow to import, played as n8n plays it: from its trigger along its connections, with its expressions filled
//! in, against a server, and with what that server really calls back.
//!
//! Only what this workflow has is known here. Whatever else comes ends the test, so that nothing is passed over.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::rpc::proto::JobStatus;
use serde_json::{Map, Value, json};

use crate::harness::{Client, Rig, cancel, job, run};
use crate::receiver::{Book, Heard, Receiver};
use crate::walk::read;

/// The nodes that n8n has, in the versions whose parameters are used.
const KNOWN: [(&str, f64); 7] = [
    ("manualTrigger", 1.0),
    ("webhook", 2.0),
    ("set", 3.4),
    ("httpRequest", 4.2),
    ("if", 2.2),
    ("respondToWebhook", 1.1),
    ("noOp", 1.0),
];
/// Where the workflow finds its server.
const BASE_URL: &str = "http://127.0.0.1:8080";
const HEADER: (&str, &str) = ("x-longhaul-callback", "s3cret-of-a-test");

struct Flow {
    nodes: BTreeMap<String, Value>,
    connections: Value,
}

/// What became of one execution.
struct Played {
    /// The nodes that ran, in order.
    ran: Vec<String>,
    /// What each gave, the last time it ran.
    items: BTreeMap<String, Value>,
    execution_id: String,
    answered: Option<u64>,
}

impl Flow {
    fn read() -> Self {
        let flow: Value = serde_json::from_str(&read("docs/n8n-workflow.json")).unwrap();
        let nodes = flow["nodes"].as_array().unwrap().iter();
        let nodes = nodes.map(|node| (word(&node["name"]), node.clone())).collect();
        Self { nodes, connections: flow["connections"].clone() }
    }

    /// The nodes behind an output of a node.
    fn behind(&self, name: &str, output: usize) -> Vec<String> {
        let ends = self.connections[name]["main"][output].as_array().cloned().unwrap_or_default();
        ends.iter().map(|end| word(&end["node"])).collect()
    }

    /// Plays it from a trigger that gives this item.
    async fn play(&self, client: &Client, trigger: &str, item: Value, id: &str) -> Played {
        let mut played = Played::new(id);
        self.play_on(client, trigger, item, &mut played).await;
        played
    }

    /// Goes on with an execution at a node that this item comes to.
    async fn play_on(&self, client: &Client, node: &str, item: Value, played: &mut Played) {
        let mut next = vec![(node.to_owned(), item)];
        while let Some((name, item)) = next.pop() {
            assert!(played.ran.len() < 40, "it goes round and round: {:?}", played.ran);
            let (output, item) = self.run(client, &name, item, played).await;
            next.extend(self.behind(&name, output).into_iter().map(|end| (end, item.clone())));
            played.ran.push(name.clone());
            played.items.insert(name, item);
        }
    }

    /// Runs a node: the number of its output, and the item on it.
    async fn run(
        &self,
        client: &Client,
        name: &str,
        item: Value,
        played: &mut Played,
    ) -> (usize, Value) {
        let node = &self.nodes[name];
        let given = &node["parameters"];
        match node["type"].as_str().unwrap().trim_start_matches("n8n-nodes-base.") {
            "manualTrigger" | "webhook" | "noOp" => (0, item),
            "respondToWebhook" => {
                assert_eq!(given["respondWith"], "noData");
                played.answered = given["options"]["responseCode"].as_u64();
                (0, item)
            }
            "set" => {
                let fields = given["assignments"]["assignments"].as_array().unwrap();
                let fields = fields.iter().map(|field| {
                    let value = played.fill(&field["value"], &item);
                    assert!(value.is_string() && field["type"] == "string", "{field}: {value}");
                    (word(&field["name"]), value)
                });
                (0, Value::Object(fields.collect::<Map<_, _>>()))
            }
            "if" => (usize::from(!played.holds(&given["conditions"], &item)), item),
            "httpRequest" => {
                assert_eq!(
                    (&given["method"], &given["specifyBody"]),
                    (&json!("POST"), &json!("json"))
                );
                let url = word(&played.fill(&given["url"], &item));
                let body = played.fill(&given["jsonBody"], &item);
                let (status, answer) =
                    client.post(url.strip_prefix(BASE_URL).unwrap(), &body).await;
                assert_eq!(status, 200, "{name} sends {body}: {answer}");
                (0, answer)
            }
            other => panic!("{other} is not known"),
        }
    }

    /// What the Webhook node makes of a request, if it lets it in.
    fn hear(&self, heard: &Heard) -> Value {
        let webhook = &self.nodes["Longhaul calls back"]["parameters"];
        assert_eq!(webhook["httpMethod"], "POST");
        assert_eq!(heard.path, format!("/webhook/{}", word(&webhook["path"])));
        // n8n compares the header that its credential names.
        assert_eq!(webhook["authentication"], "headerAuth");
        assert_eq!(heard.header(HEADER.0), HEADER.1);
        let headers = heard
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), Value::from(value.to_str().unwrap())));
        let headers: Map<_, _> = headers.collect();
        json!({"headers": headers, "params": {}, "query": {}, "body": heard.json()})
    }
}

impl Played {
    fn new(execution_id: &str) -> Self {
        let execution_id = execution_id.to_owned();
        Self { ran: Vec::new(), items: BTreeMap::new(), execution_id, answered: None }
    }

    /// Whether the conditions of an If node hold, compared strictly.
    fn holds(&self, given: &Value, item: &Value) -> bool {
        let mut held = given["conditions"].as_array().unwrap().iter().map(|condition| {
            let (left, right) =
                (self.fill(&condition["leftValue"], item), &condition["rightValue"]);
            let operator = &condition["operator"];
            match (operator["type"].as_str().unwrap(), operator["operation"].as_str().unwrap()) {
                ("string", "equals") => {
                    left.as_str().expect("a text") == right.as_str().expect("a text")
                }
                ("number", "lte") => {
                    left.as_u64().expect("a number") <= right.as_u64().expect("a number")
                }
                other => panic!("{other:?} is not known"),
            }
        });
        match given["combinator"].as_str().unwrap() {
            "and" => held.all(|held| held),
            "or" => held.any(|held| held),
            other => panic!("{other} is not known"),
        }
    }

    /// A parameter with its expressions filled in.
    fn fill(&self, parameter: &Value, item: &Value) -> Value {
        let Some(template) = parameter.as_str().and_then(|text| text.strip_prefix('=')) else {
            return parameter.clone();
        };
        let mut parts = template.split("{{ ");
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            // n8n ends an expression at the first of these, also within an object.
            let (expression, after) = part.split_once(" }}").unwrap();
            let value = self.value(expression, item);
            if text.is_empty() && after.is_empty() {
                return value;
            }
            text += value.as_str().expect("a part of a text is a text");
            text += after;
        }
        Value::from(text)
    }

    fn value(&self, expression: &str, item: &Value) -> Value {
        if expression.starts_with('{') {
            return self.object(expression, item);
        }
        let choices = expression.split(" ?? ").map(|choice| {
            let mut terms = choice.split(" + ").map(|term| self.term(term, item));
            let first = terms.next().unwrap();
            terms.fold(first, |sum, term| Value::from(word(&sum) + &word(&term)))
        });
        choices.into_iter().find(|value| !value.is_null()).unwrap_or_default()
    }

    /// An object in which values are paths.
    fn object(&self, expression: &str, item: &Value) -> Value {
        let mut filled = String::new();
        let mut rest = expression;
        while let Some(at) = rest.find(['"', '$']) {
            let (before, found) = rest.split_at(at);
            filled += before;
            let is_path = found.starts_with('$');
            let end = if is_path {
                found.find([' ', ','])
            } else {
                found[1..].find('"').map(|at| at + 2)
            };
            let (found, after) = found.split_at(end.unwrap());
            filled += &if is_path { self.term(found, item).to_string() } else { found.to_owned() };
            rest = after;
        }
        serde_json::from_str(&(filled + rest))
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// A text between quotes, or a path such as `$json.a['b'].length`.
    fn term(&self, term: &str, item: &Value) -> Value {
        if let Some(text) = term.strip_prefix('\'') {
            return Value::from(text.strip_suffix('\'').unwrap());
        }
        if term == "$execution.id" {
            return Value::from(self.execution_id.as_str());
        }
        let (mut value, mut rest) = if let Some(rest) = term.strip_prefix("$json") {
            (item.clone(), rest)
        } else {
            let (name, rest) =
                term.strip_prefix("$('").unwrap().split_once("').item.json").unwrap();
            (self.items[name].clone(), rest)
        };
        while !rest.is_empty() {
            let (key, after) = if let Some(quoted) = rest.strip_prefix("['") {
                quoted.split_once("']").unwrap()
            } else {
                let named = rest.strip_prefix('.').unwrap_or_else(|| panic!("{term}"));
                named.split_at(named.find(['.', '[']).unwrap_or(named.len()))
            };
            value = match (&value, key) {
                (Value::String(text), "length") => json!(text.encode_utf16().count()),
                _ => value[key].clone(),
            };
            rest = after;
        }
        value
    }

    fn last(&self) -> (&str, &Value) {
        let last = self.ran.last().unwrap();
        (last, &self.items[last])
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A server that calls this receiver back as the tour has it, and asks nobody else.
async fn rig(receiver: &Receiver) -> (Rig, Book) {
    let book = Book::new(&format!(
        "[endpoints.n8n]\nurl = '{}/webhook/longhaul-callback'\nheader = '{}: {}'\nalways = true\n",
        receiver.url, HEADER.0, HEADER.1
    ));
    (Rig::start_with(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await, book)
}

#[test]
fn the_workflow_can_be_imported() {
    let flow = Flow::read();
    let mut ids = BTreeSet::new();
    for (name, node) in &flow.nodes {
        let kind = word(&node["type"]);
        let kind = kind.strip_prefix("n8n-nodes-base.").unwrap();
        let version = node["typeVersion"].as_f64().unwrap();
        assert!(KNOWN.contains(&(kind, version)), "{name}: {kind} {version}");
        assert!(ids.insert(word(&node["id"])) && node["position"].as_array().unwrap().len() == 2);
        assert_eq!(node["webhookId"].is_string(), kind == "webhook", "{name}");
        assert!(node.get("credentials").is_none(), "{name} names a credential of another n8n");
    }
    // Everything runs from one of the two triggers, and nothing leads nowhere.
    let mut reached = BTreeSet::new();
    let mut next = vec!["Start".to_owned(), "Longhaul calls back".to_owned()];
    while let Some(name) = next.pop() {
        assert!(flow.nodes.contains_key(&name), "there is no node {name}");
        next.extend((0..2).flat_map(|output| flow.behind(&name, output)));
        if !reached.insert(name) {
            next.retain(|name| !reached.contains(name));
        }
    }
    assert!(reached.iter().eq(flow.nodes.keys()), "{reached:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workflow_submits_waits_is_called_back_approves_and_hears_of_the_end() {
    let receiver = Receiver::start().await;
    let (rig, _book) = rig(&receiver).await;
    let flow = Flow::read();
    let started = flow.play(&rig, "Start", json!({}), "17").await;
    assert_eq!(started.last().0, "The callback goes on", "{:?}", started.ran);

    let asked = receiver.heard(1).await.remove(0);
    assert_eq!(asked.about(), ("approval.requested".to_owned(), "n8n-17".to_owned()));
    let asked = flow.hear(&asked);
    // What is too long for a machine is left to a person.
    let mut long = asked.clone();
    long["body"]["data"]["draft"] = "字".repeat(81).into();
    let left = flow.play(&rig, "Longhaul calls back", long, "18").await;
    assert_eq!((left.last().0, left.answered), ("A person decides", Some(204)));
    let approved = flow.play(&rig, "Longhaul calls back", asked.clone(), "19").await;
    assert_eq!((approved.last().0, approved.answered), ("Approve it", Some(204)));
    assert_eq!(approved.last().1["changed"], true);
    let ended = rig.settled_as("n8n-17", JobStatus::Completed).await;
    assert_eq!(ended.steps[1].decisions[0].comment, "short enough");

    // The same callback again, in an execution of its own, gets the same answer.
    let again = flow.play(&rig, "Longhaul calls back", asked, "20").await;
    assert_eq!(again.last().1["changed"], true, "{}", again.last().1);
    let told = receiver.heard(2).await.remove(1);
    let told = flow.play(&rig, "Longhaul calls back", flow.hear(&told), "21").await;
    let (node, told) = told.last();
    assert_eq!(
        (node, &told["status"], &told["text"]),
        ("It has ended", &json!("completed"), &json!(ended.output))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workflow_asks_again_while_the_job_runs_and_ends_with_what_came_of_it() {
    let rig = Rig::start().await;
    rig.sandbox.hold("Think long.").await;
    rig.submit(job("slow", [run("Think long.")])).await;
    rig.sandbox.wait_for("Think long.", "held", 1).await;
    let running = json!({"job_id": "slow", "status": "running"});
    let mut played = Played::new("22");
    played.items.insert("Longhaul".to_owned(), json!({"base_url": BASE_URL}));
    let flow = Flow::read();
    let play = flow.play_on(&rig, "Does it still run?", running, &mut played);
    let end = async { assert!(rig.control("slow", cancel()).await) };
    tokio::join!(play, end);
    assert_eq!(played.ran[..2], ["Does it still run?", "How does it stand?"]);
    let (node, told) = played.last();
    assert_eq!((node, &told["status"]), ("What came of it", &json!("cancelled")));
}
