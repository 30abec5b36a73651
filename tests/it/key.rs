//! Keys: made and revoked by an operator's command, in force on every server within seconds, shown in every usual way.

mod watch;

use std::collections::BTreeMap;
use std::process::Output;
use std::time::{Duration, Instant};

use longhaul::domain::key::{Key, KeyText, Scope};
use longhaul::rpc::proto::GetUsageRequest;
use longhaul::store::key::NewKey;
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};
use tonic::{Code, Request, Status};

use crate::doctor::examine;
use crate::harness::{Client, Ending, OwnPostgres, PATIENCE, Process, Rig, Told};
use crate::program::{Program, SERVE};

/// The store of a rig's database.
pub async fn store(rig: &Rig) -> Store {
    let settings = StoreSettings {
        database_url: rig.db.url.clone().into(),
        direct_url: None,
        connections_max: 4,
    };
    Store::connect(&settings).await.unwrap()
}

/// Keeps a new key; one whose lifetime is nothing has expired already.
pub async fn make(rig: &Rig, name: &str, scopes: &[Scope], lifetime: Option<Duration>) -> String {
    let text = KeyText::mint(&mut rand::rng());
    keep(rig, &text, name, scopes, lifetime).await;
    text.reveal().to_owned()
}

/// Keeps a key of this text.
pub async fn keep(
    rig: &Rig,
    text: &KeyText,
    name: &str,
    scopes: &[Scope],
    lifetime: Option<Duration>,
) {
    let key = Key {
        key_id: text.key_id(),
        name: name.to_owned(),
        scopes: scopes.iter().copied().collect(),
        requests_per_second: None,
        requests_max: None,
    };
    let store = store(rig).await;
    assert!(store.create_key(&NewKey { key, hash: text.hash(), lifetime }).await.unwrap());
    store.close().await;
}

/// A message of a caller with a key.
pub fn by<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

/// Whether a server lets in whoever shows this, or nothing.
async fn look(client: &Client, key: Option<&str>) -> Result<(), Status> {
    let nothing = GetUsageRequest::default();
    let request = match key {
        Some(key) => by(key, nothing),
        None => Request::new(nothing),
    };
    client.grpc.clone().get_usage(request).await.map(|_| ())
}

/// Waits until a server answers so; a key wakes nobody.
pub async fn wait_until(client: &Client, key: Option<&str>, code: Code) {
    let now = async || look(client, key).await.map_or_else(|status| status.code(), |()| Code::Ok);
    let again = async {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        while now().await != code {
            pace.tick().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, again).await;
    waited.unwrap_or_else(|_| panic!("it is never answered with {code:?}"));
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs a command with the rig's variables and these.
pub async fn command(rig: &Rig, args: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut all: BTreeMap<String, String> = rig.variables().clone();
    all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let Output { status, stdout, stderr } = Program::run(args, &all, PATIENCE).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_made_before_any_server_ran_shown_once_listed_and_revoked() {
    let rig = Rig::on_an_empty_database().await;
    let args = ["key", "create", "ci", "--scope", "submit,read", "--scope", "control"];
    let said = command(&rig, &[&args[..], &["--expires-in", "90d"]].concat(), &[]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let key = said.out.strip_suffix('\n').unwrap();
    assert!(KeyText::find_hash(key).is_some() && !said.err.contains(key), "{said:?}");
    assert!(said.err.contains("submit,control,read until ") && said.err.contains("first key"));
    let machine = ["key", "create", "machine", "--scope", "admin", "--requests-max", "3", "--json"];
    let made: Value = serde_json::from_str(&command(&rig, &machine, &[]).await.out).unwrap();
    assert_eq!((&made["scopes"], &made["requests_max"]), (&json!(["admin"]), &json!(3)));
    assert!(KeyText::find_hash(made["key"].as_str().unwrap()).is_some(), "{made}");

    let list = command(&rig, &["key", "list"], &[]).await;
    assert_eq!(list.out.lines().count(), 3, "{list:?}");
    for word in ["ci", "submit,control,read", "good", "never", "machine", "admin"] {
        assert!(list.out.contains(word), "{word}: {list:?}");
    }
    let listed = command(&rig, &["key", "list", "--json"], &[]).await;
    let json: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(json["keys"][0]["state"], "good", "{json}");
    assert!(!list.out.contains("lh_") && !listed.out.contains("lh_"), "{listed:?}");
    let hash: String = sqlx::query_scalar("select encode(key_hash, 'hex') from longhaul.api_key")
        .fetch_one(&rig.db.pool)
        .await
        .unwrap();
    assert!(!listed.out.contains(&hash[12..]), "{listed:?}");

    // A server that starts on it is closed, though only this machine reaches it.
    let node = rig.serve().await;
    let told = Told::by(look(&node.client, None).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::Unauthenticated, "KEY_REQUIRED"));
    look(&node.client, Some(key)).await.unwrap();

    let said = command(&rig, &["key", "revoke", "ci"], &[]).await;
    assert!(said.code == 0 && said.out.contains("is revoked"), "{said:?}");
    wait_until(&node.client, Some(key), Code::Unauthenticated).await;
    let said = command(&rig, &["key", "revoke", "ci"], &[]).await;
    assert!(said.code == 0 && said.out.contains("was revoked already, at 2"), "{said:?}");
    let id = made["key_id"].as_str().unwrap();
    let said = command(&rig, &["key", "revoke", id, "--json"], &[]).await;
    let revoked: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&revoked["changed"], &revoked["key"]["state"]), (&json!(true), &json!("revoked")));
    // Its name may be given again; and without a good key a server of one's own stays closed.
    assert_eq!(command(&rig, &args, &[]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_made_or_found_is_told_why() {
    let rig = Rig::without_server(&[]).await;
    make(&rig, "taken", &[Scope::Read], None).await;
    for (args, code, words) in [
        (&["create", "taken", "--scope", "read"][..], 6, "there is a key taken already"),
        (&["create", "a b", "--scope", "read"], 2, "must be 1 to 64 letters"),
        (&["create", "0123456789ab", "--scope", "read"], 2, "must not look like the id"),
        (&["create", "x"], 2, "--scope"),
        (&["create", "x", "--scope", "write"], 2, "must be one of submit, control, approve"),
        (&["create", "x", "--scope", "read", "--expires-in", "90"], 2, "must be such as 90d"),
        (&["create", "x", "--scope", "read", "--expires-in", "0s"], 2, "must be from 1s"),
        (&["create", "x", "--scope", "read", "--requests-max", "0"], 2, "0 is not in 1..=1000000"),
        (&["revoke", "nobody"], 5, "there is no key nobody"),
    ] {
        let said = command(&rig, &[&["key"], args].concat(), &[]).await;
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{args:?}: {said:?}");
        assert!(said.err.contains(words), "{args:?}: {said:?}");
    }
    assert_eq!(rig.db.number("select count(*) from longhaul.api_key").await, 1);
    let nowhere = [("DATABASE_URL", "postgres://user:s3cret@127.0.0.1:1/nowhere")];
    let said = command(&rig, &["key", "list"], &nowhere).await;
    assert!(said.code == 1 && said.err.contains("could not open the database"), "{said:?}");
    assert!(!said.err.contains("s3cret"), "{said:?}");
}

/// Calls without pause until refused; answers when that was. Once refused, nobody gets in by chance again.
async fn until_refused(client: Client, key: Option<String>) -> Instant {
    let again = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        loop {
            match look(&client, key.as_deref()).await {
                Ok(()) => pace.tick().await,
                Err(status) if status.code() == Code::Unauthenticated => break Instant::now(),
                Err(status) => panic!("{status:?}"),
            };
        }
    };
    let refused_at = tokio::time::timeout(PATIENCE, again).await.expect("it is refused");
    for _ in 0..20 {
        look(&client, key.as_deref()).await.unwrap_err();
    }
    refused_at
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_changes_is_in_force_on_every_server_within_seconds_while_calls_go_on() {
    let rig = Rig::without_server(&[]).await;
    let (one, two) = (rig.serve().await, rig.serve().await);
    for server in [&one, &two] {
        look(&server.client, None).await.unwrap();
    }
    let closing =
        [&one, &two].map(|server| tokio::spawn(until_refused(server.client.clone(), None)));
    let args = ["key", "create", "first", "--scope", "read"];
    let key = command(&rig, &args, &[]).await.out.trim().to_owned();
    let made_at = Instant::now();
    for closed in closing {
        let after = closed.await.unwrap().saturating_duration_since(made_at);
        assert!(after < Duration::from_secs(5), "closed after {after:?}");
        println!("closed after {after:?}");
    }
    for server in [&one, &two] {
        look(&server.client, Some(&key)).await.unwrap();
        let told = Told::by(look(&server.client, None).await);
        assert_eq!(told.reason, "KEY_REQUIRED");
    }
    let shutting = [&one, &two]
        .map(|server| tokio::spawn(until_refused(server.client.clone(), Some(key.clone()))));
    assert_eq!(command(&rig, &["key", "revoke", "first"], &[]).await.code, 0);
    let revoked_at = Instant::now();
    for shut in shutting {
        let after = shut.await.unwrap().saturating_duration_since(revoked_at);
        assert!(after < Duration::from_secs(5), "shut after {after:?}");
        println!("shut after {after:?}");
    }
    // A server that has had a key is never open again.
    look(&one.client, None).await.unwrap_err();
    look(&rig.serve().await.client, None).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_postgres_is_away_the_known_keys_count_and_no_others() {
    let mut postgres = OwnPostgres::start().await;
    let rig = Rig::on(postgres.url.clone(), &[]).await;
    let server = Process::serve(&rig, &[]).await;
    let key = make(&rig, "known", &[Scope::Read], None).await;
    wait_until(&server.client, None, Code::Unauthenticated).await;
    look(&server.client, Some(&key)).await.unwrap();
    postgres.stop(Ending::Immediate).await;
    let other = KeyText::mint(&mut rand::rng());
    for _ in 0..3 {
        let let_in = look(&server.client, Some(&key)).await.unwrap_err();
        assert_eq!(let_in.code(), Code::Unavailable, "{let_in:?}");
        let told = Told::by(look(&server.client, Some(other.reveal())).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::Unauthenticated, "KEY_INVALID"));
        assert_eq!(Told::by(look(&server.client, None).await).reason, "KEY_REQUIRED");
    }
    postgres.start_again().await;
    wait_until(&server.client, Some(&key), Code::Ok).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_be_shown_in_every_usual_way_at_both_doors() {
    let rig = Rig::without_server(&[("LONGHAUL_KEY_HEADER", "X-Longhaul-Key")]).await;
    let key = make(&rig, "any-way", &[Scope::Read], None).await;
    let node = rig.serve().await;
    node.client.grpc.clone().get_usage(by(&key, GetUsageRequest::default())).await.unwrap();
    let pair = |text: &str| {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
    };
    let ways = |key: &str| {
        [
            ("authorization", format!("Bearer {key}")),
            ("authorization", format!("bearer {key}")),
            ("authorization", pair(&format!("anybody:{key}"))),
            ("authorization", pair(&format!(":{key}"))),
            ("x-api-key", key.to_owned()),
            ("x-longhaul-key", key.to_owned()),
        ]
    };
    let other = KeyText::mint(&mut rand::rng());
    for (shown, grpc, http) in
        [(key.as_str(), Code::Ok, 404), (other.reveal(), Code::Unauthenticated, 403)]
    {
        for (header, value) in ways(shown) {
            let mut request = Request::new(GetUsageRequest::default());
            request.metadata_mut().insert(header, value.parse().unwrap());
            let answer = node.client.grpc.clone().get_usage(request).await;
            assert_eq!(answer.map_or_else(|status| status.code(), |_| Code::Ok), grpc, "{header}");
            let url = format!("{}/webhook/durable-job-control", node.client.http_url);
            let body = json!({"job_id": "nobody", "action": "status"});
            let request = node.client.http.post(url).header(header, value).json(&body);
            assert_eq!(request.send().await.unwrap().status(), http, "{header}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_can_reach_does_not_start_without_a_good_key_unless_told_so() {
    let rig = Rig::without_server(&[]).await;
    let refused = async |args: &[&str]| {
        let said = command(&rig, args, &[]).await;
        assert_eq!(said.code, 78, "{args:?}: {said:?}");
        for part in ["others can reach this server", "longhaul key create", "--insecure"] {
            assert!(said.err.contains(part), "{said:?}");
        }
    };
    let grpc = ["serve", "--grpc-addr", "0.0.0.0:0", "--http-addr", "127.0.0.1:0"];
    let http = ["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "0.0.0.0:0"];
    refused(&grpc).await;
    refused(&http).await;
    let open = Program::start(&[&grpc[..], &["--insecure"]].concat(), rig.variables()).await;
    assert_eq!(open.stop().await.matches("there is no key, so whoever").count(), 1);
    make(&rig, "short", &[Scope::Read], Some(Duration::ZERO)).await;
    refused(&grpc).await;
    let key = make(&rig, "long", &[Scope::Read], None).await;
    let closed = Program::start(&http, rig.variables()).await;
    let client = closed.client();
    look(&client, Some(&key)).await.unwrap();
    look(&client, None).await.unwrap_err();
    let said = closed.stop().await;
    assert!(!said.contains("there is no key") && !said.contains(&key), "{said}");
    // On loopback it starts, and lets nobody in.
    command(&rig, &["key", "revoke", "long"], &[]).await;
    let nobody = Program::start(&SERVE, rig.variables()).await;
    look(&nobody.client(), Some(&key)).await.unwrap_err();
    assert!(nobody.stop().await.contains("no key is good, so nobody is let in"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_use_of_a_key_is_noted_and_at_most_once_a_minute() {
    const USED: &str = "select last_used_at is not null from longhaul.api_key where name = $1";
    const TIMES: &str = "select count(*) from longhaul.api_key where last_used_at = longhaul.now()";
    let rig = Rig::without_server(&[]).await;
    let key = make(&rig, "used", &[Scope::Read], None).await;
    make(&rig, "unused", &[Scope::Read], None).await;
    let node = rig.serve().await;
    look(&node.client, Some(&key)).await.unwrap();
    rig.db.wait_until(USED, "used").await;
    assert_eq!(rig.db.number("select count(last_used_at) from longhaul.api_key").await, 1);
    node.stop().await;
    // Several servers note it, and only the first of them within a minute writes.
    let store = store(&rig).await;
    let read = "select key_id, last_used_at::text from longhaul.api_key where name = 'used'";
    let row = || sqlx::query_as::<_, (String, String)>(read).fetch_one(&rig.db.pool);
    let (id, before) = row().await.unwrap();
    rig.db.shift_clock(50).await;
    store.note_key_use(std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(row().await.unwrap().1, before);
    rig.db.shift_clock(20).await;
    store.note_key_use(std::slice::from_ref(&id)).await.unwrap();
    assert_ne!(row().await.unwrap().1, before);
    assert_eq!(rig.db.number(TIMES).await, 0, "the clock goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_how_the_doors_stand() {
    let rig = Rig::start().await;
    let reached = [("LONGHAUL_GRPC_ADDR", "0.0.0.0:50051")];
    examine(&rig, &[]).await.tells("keys", "ok", "no key was ever made, so the server is open");
    examine(&rig, &reached).await.tells("keys", "fault", "longhaul key create");
    // A proxy leads others to a server that listens to this machine alone.
    let proxied = [("LONGHAUL_PUBLIC_URL", "https://longhaul.invalid/jobs")];
    let found = examine(&rig, &proxied).await;
    found.tells("keys", "warning", "https://longhaul.invalid/jobs leads others here");
    let mut variables = rig.variables().clone();
    variables.extend(proxied.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let said = Program::start(&SERVE, &variables).await.stop().await;
    assert!(said.contains("LONGHAUL_PUBLIC_URL leads others here"), "{said}");
    assert!(said.contains("https://longhaul.invalid/jobs"), "{said}");
    let said = Program::start(&SERVE, rig.variables()).await.stop().await;
    assert!(!said.contains("leads others here"), "{said}");
    make(&rig, "old", &[Scope::Read], Some(Duration::ZERO)).await;
    examine(&rig, &[]).await.tells("keys", "warning", "none of 1 is good, so nobody is let in");
    make(&rig, "ci", &[Scope::Read], None).await;
    examine(&rig, &reached).await.tells("keys", "ok", "1 key is good");
    examine(&rig, &proxied).await.tells("keys", "ok", "1 key is good");
}
