//! The table of what each call and each route needs, walked row by row with every key that is not enough.
//!
//! Whatever is refused changes no row of any table, and its answer is the same whether there is such a job or not.
//! The table itself is held against the proto, and against the routes that the sidecar's sources name.

mod outline;
mod prefix;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use longhaul::domain::key::{KeyText, Scope};
use longhaul::door::table::{Need, ROUTES, RPCS, need_of_route, need_of_rpc};
use longhaul::rpc::proto::{
    self, ApproveAction, ControlRequest, GetJobRequest, JobStatus, RejectAction,
    RequestChangesAction, StatusAction, control_request::Action,
};
use prost::Message;
use prost_types::FileDescriptorSet;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::harness::{Client, Node, Rig, Told, approval, cancel, job, pause, resume, retry};
use crate::key::{by, make};

const SERVICE: &str = "longhaul.v1.JobService";
/// What no refusal may tell anything of.
const SECRET: &str = "Budget of the merger";
const SEEN: &str = "seen-job";
const UNSEEN: &str = "unseen-job";

/// Any request, as far as it names a job.
#[derive(Clone, PartialEq, Message)]
struct OfAJob {
    #[prost(string, tag = "1")]
    job_id: String,
}

/// A way to be nobody, and how each face says so.
struct Nobody {
    what: &'static str,
    headers: Vec<(&'static str, String)>,
    reason: &'static str,
    http: u16,
}

/// A server with a job, and keys of all kinds.
struct House {
    rig: Rig,
    client: Client,
    _node: Node,
    nobodies: Vec<Nobody>,
    /// A key for each scope alone.
    keys: BTreeMap<Scope, String>,
}

impl House {
    async fn open() -> Self {
        Self::open_with(&[]).await
    }

    async fn open_with(variables: &[(&str, &str)]) -> Self {
        let rig = Rig::without_server(&[&[("LONGHAUL_NOTIFY", "")], variables].concat()).await;
        let mut keys = BTreeMap::new();
        for scope in Scope::ALL {
            keys.insert(scope, make(&rig, &format!("only-{scope:?}"), &[scope], None).await);
        }
        let revoked = make(&rig, "revoked", &[Scope::Admin], None).await;
        let store = crate::key::store(&rig).await;
        store.revoke_key("revoked").await.unwrap();
        store.close().await;
        let expired = make(&rig, "expired", &[Scope::Admin], Some(Duration::ZERO)).await;
        let unknown = KeyText::mint(&mut rand::rng()).reveal().to_owned();
        let bearer = |key: &str| vec![("authorization", format!("Bearer {key}"))];
        let two = vec![
            ("x-api-key", keys[&Scope::Admin].clone()),
            ("authorization", format!("Bearer {unknown}")),
        ];
        let nobodies = [
            ("no key", vec![], "KEY_REQUIRED", 401),
            ("an unknown key", bearer(&unknown), "KEY_INVALID", 403),
            ("no key at all", bearer("sk-ant-1"), "KEY_INVALID", 403),
            ("another scheme", vec![("authorization", "Digest x".to_owned())], "KEY_INVALID", 403),
            ("two keys", two, "KEY_INVALID", 403),
            ("a revoked key", bearer(&revoked), "KEY_INVALID", 403),
            ("an expired key", bearer(&expired), "KEY_INVALID", 403),
        ];
        let nobodies = nobodies.into_iter().map(|(what, headers, reason, http)| Nobody {
            what,
            headers,
            reason,
            http,
        });
        let nobodies = nobodies.collect();
        let node = rig.serve().await;
        let house = Self { client: node.client.clone(), rig, _node: node, nobodies, keys };
        let asked = job(SEEN, [approval(SECRET)]);
        let asked = proto::SubmitJobRequest { task: SECRET.to_owned(), ..asked };
        house.client.grpc.clone().submit_job(by(house.admin(), asked)).await.unwrap();
        house
    }

    fn admin(&self) -> &str {
        &self.keys[&Scope::Admin]
    }

    /// Every row of every table, but for signs of life and of use.
    async fn every_row(&self) -> BTreeMap<String, String> {
        let tables = sqlx::query_scalar::<_, String>(
            "select table_name::text from information_schema.tables
             where table_schema = 'longhaul' and table_type = 'BASE TABLE'",
        );
        let mut rows = BTreeMap::new();
        for table in tables.fetch_all(&self.rig.db.pool).await.unwrap() {
            let read = format!(
                "select coalesce(string_agg(row, e'\\n' order by row), '') from (
                   select (to_jsonb(t) - array['last_used_at', 'lease_expires_at', 'missing_since',
                     'presence_key'])::text as row
                   from longhaul.{table} t) r"
            );
            let read = sqlx::query_scalar(AssertSqlSafe(read));
            rows.insert(table, read.fetch_one(&self.rig.db.pool).await.unwrap());
        }
        assert!(rows.len() >= 12 && rows.contains_key("api_key"), "{:?}", rows.keys());
        rows
    }

    /// Calls a method with a message, showing these headers.
    async fn call(
        &self,
        method: &str,
        job_id: &str,
        headers: &[(&str, String)],
    ) -> Result<(), Status> {
        let channel = tonic::transport::Endpoint::from_shared(self.client.grpc_url()).unwrap();
        let mut grpc = tonic::client::Grpc::new(channel.connect_lazy());
        grpc.ready().await.unwrap();
        let mut request = Request::new(OfAJob { job_id: job_id.to_owned() });
        for (name, value) in headers {
            let name: tonic::metadata::AsciiMetadataKey = name.parse().unwrap();
            request.metadata_mut().append(name, value.parse().unwrap());
        }
        let path = PathAndQuery::try_from(format!("/{SERVICE}/{method}")).unwrap();
        grpc.unary(request, path, ProstCodec::<OfAJob, ()>::default()).await.map(|_| ())
    }

    /// Posts to a route, and answers with the status and the body.
    async fn post(&self, route: &str, body: &Value, headers: &[(&str, String)]) -> (u16, String) {
        let url = format!("{}{}", self.client.http_url, route);
        let mut request = self.client.http.request(Method::POST, url).json(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

fn shown(key: &str) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {key}"))]
}

/// The scopes that are enough, each alone.
fn enough(need: Need) -> Option<BTreeSet<Scope>> {
    match need {
        Need::Nothing => None,
        Need::AnyOf(scopes) => Some(scopes.iter().copied().chain([Scope::Admin]).collect()),
    }
}

/// Fails if an answer says anything of the job, or of keys that there are.
fn assert_tells_nothing(answer: &str, house: &House) {
    for secret in [SECRET, SEEN, UNSEEN] {
        assert!(!answer.contains(secret), "{secret} is told: {answer}");
    }
    for key in house.keys.values() {
        assert!(!answer.contains(&key[3..]), "a key is told: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_lets_in_who_has_not_what_it_needs_and_none_tells_or_changes_anything() {
    let house = House::open().await;
    let before = house.every_row().await;
    for (method, need) in RPCS {
        let Some(enough) = enough(need) else { panic!("{method} needs nothing") };
        let mut tries: Vec<(String, _, Code, &str)> = Vec::new();
        for nobody in &house.nobodies {
            let what = nobody.what.to_owned();
            tries.push((what, nobody.headers.clone(), Code::Unauthenticated, nobody.reason));
        }
        for (scope, key) in house.keys.iter().filter(|(scope, _)| !enough.contains(scope)) {
            let what = format!("only {scope:?}");
            tries.push((what, shown(key), Code::PermissionDenied, "SCOPE_REQUIRED"));
        }
        for (what, headers, code, reason) in tries {
            let seen = house.call(method, SEEN, &headers).await.unwrap_err();
            let unseen = house.call(method, UNSEEN, &headers).await.unwrap_err();
            let told = Told::from(&seen);
            assert_eq!((told.code, told.reason.as_str()), (code, reason), "{method}, {what}");
            assert_eq!((seen.message(), seen.details()), (unseen.message(), unseen.details()));
            let all = format!("{} {}", seen.message(), String::from_utf8_lossy(seen.details()));
            assert_tells_nothing(&all, &house);
        }
        for scope in enough {
            let answer = house.call(method, "", &shown(&house.keys[&scope])).await;
            let code = answer.map_or_else(|status| status.code(), |()| Code::Ok);
            let refused = [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented];
            // What the action decides is walked below; an empty request has none.
            assert!(!refused.contains(&code), "{method} with {scope:?}: {code:?}");
        }
    }
    // What is in no row needs an admin, whether there is such a method or not.
    assert_eq!(need_of_rpc("DropEverything"), Need::AnyOf(&[Scope::Admin]));
    let read = house.call("DropEverything", SEEN, &shown(&house.keys[&Scope::Read])).await;
    assert_eq!(read.unwrap_err().code(), Code::PermissionDenied);
    let admin = house.call("DropEverything", SEEN, &shown(house.admin())).await;
    assert_eq!(admin.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(house.every_row().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_lets_in_who_has_not_what_it_needs_and_none_tells_or_changes_anything() {
    let house = House::open().await;
    let before = house.every_row().await;
    for (route, need) in ROUTES {
        let Some(enough) = enough(need) else {
            let path = route.replace("{token}", "token").replace("{*more}", "more");
            let url = format!("{}{path}", house.client.http_url);
            let answer = house.client.http.get(url).send().await.unwrap();
            let text = answer.text().await.unwrap();
            let told: Value = serde_json::from_str(&text).unwrap_or_default();
            let reason = told["reason"].as_str().unwrap_or_default();
            assert!(
                !["KEY_REQUIRED", "KEY_INVALID", "SCOPE_REQUIRED"].contains(&reason),
                "{route}"
            );
            assert_tells_nothing(&text, &house);
            continue;
        };
        let body = |job_id: &str| json!({"job_id": job_id, "action": "cancel"});
        let mut tries: Vec<(String, _, u16, &str)> = Vec::new();
        for nobody in &house.nobodies {
            tries.push((
                nobody.what.to_owned(),
                nobody.headers.clone(),
                nobody.http,
                nobody.reason,
            ));
        }
        for (scope, key) in house.keys.iter().filter(|(scope, _)| !enough.contains(scope)) {
            tries.push((format!("only {scope:?}"), shown(key), 403, "SCOPE_REQUIRED"));
        }
        for (what, headers, status, reason) in tries {
            let seen = house.post(route, &body(SEEN), &headers).await;
            let unseen = house.post(route, &body(UNSEEN), &headers).await;
            assert_eq!(seen, unseen, "{route}, {what}");
            let told: Value = serde_json::from_str(&seen.1).unwrap();
            assert_eq!((seen.0, &told["reason"]), (status, &json!(reason)), "{route}, {what}");
            assert_tells_nothing(&seen.1, &house);
        }
        for scope in enough {
            let (status, text) = house.post(route, &json!({}), &shown(&house.keys[&scope])).await;
            assert!(![401, 403, 404].contains(&status), "{route} with {scope:?}: {status} {text}");
        }
    }
    assert_eq!(need_of_route("/prefix/nowhere"), Need::AnyOf(&[Scope::Admin]));
    assert_eq!(house.every_row().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_action_needs_its_own_scope_at_both_doors() {
    let house = House::open().await;
    let before = house.every_row().await;
    let request_changes =
        RequestChangesAction { comment: "More.".to_owned(), ..RequestChangesAction::default() };
    for (word, action, needed) in [
        ("status", Action::Status(StatusAction {}), Scope::Read),
        ("pause", pause(), Scope::Control),
        ("resume", resume(), Scope::Control),
        ("cancel", cancel(), Scope::Control),
        ("retry", retry(0), Scope::Control),
        ("approve", Action::Approve(ApproveAction::default()), Scope::Approve),
        ("reject", Action::Reject(RejectAction::default()), Scope::Approve),
        ("request_changes", Action::RequestChanges(request_changes), Scope::Approve),
    ] {
        for (scope, key) in &house.keys {
            let is_enough = [needed, Scope::Admin].contains(scope);
            let mut answers = BTreeSet::new();
            // With what is enough only a job that is not there, so that nothing happens.
            for job_id in if is_enough { &[UNSEEN][..] } else { &[SEEN, UNSEEN] } {
                let request = ControlRequest {
                    job_id: (*job_id).to_owned(),
                    request_id: String::new(),
                    action: Some(action.clone()),
                };
                let answer = house.client.grpc.clone().control(by(key, request)).await;
                let told = Told::by(answer);
                let mut body = json!({"job_id": job_id, "action": word});
                if word == "request_changes" {
                    body["comment"] = json!("More.");
                }
                let (status, text) =
                    house.post("/webhook/durable-job-control", &body, &shown(key)).await;
                let reasons = if is_enough {
                    (Code::NotFound, "JOB_NOT_FOUND", 404)
                } else {
                    (Code::PermissionDenied, "SCOPE_REQUIRED", 403)
                };
                assert_eq!((told.code, told.reason.as_str(), status), reasons, "{word} {scope:?}");
                answers.insert(text);
            }
            assert_eq!(answers.len(), 1, "{word} with {scope:?}: {answers:?}");
        }
    }
    assert_eq!(house.every_row().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_need_the_right_to_decide_as_well() {
    let house = House::open().await;
    let approver = make(&house.rig, "approver", &[Scope::Read, Scope::Approve], None).await;
    let node = house.rig.serve().await;
    let before = house.every_row().await;
    let get = |key: &str| {
        let (job_id, include_links) = (SEEN.to_owned(), true);
        by(key, GetJobRequest { job_id, include_links, ..GetJobRequest::default() })
    };
    let body = json!({"job_id": SEEN, "action": "status", "include_links": true});
    let route = "/webhook/durable-job-control";
    for scope in [Scope::Submit, Scope::Control, Scope::Approve, Scope::Read] {
        let key = &house.keys[&scope];
        let told = Told::by(house.client.grpc.clone().get_job(get(key)).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::PermissionDenied, "SCOPE_REQUIRED"));
        assert_eq!(house.post(route, &body, &shown(key)).await.0, 403, "{scope:?}");
    }
    // The rows of this other server are the only ones that are new.
    assert_eq!(house.every_row().await, before);
    for key in [&approver, house.admin()] {
        let job = node.client.grpc.clone().get_job(get(key)).await.unwrap().into_inner().job;
        assert_eq!(job.unwrap().status(), JobStatus::AwaitingApproval);
        let url = format!("{}{route}", node.client.http_url);
        let sent = node.client.http.post(url).header("x-api-key", key).json(&body).send().await;
        assert_eq!(sent.unwrap().status(), 200);
    }
}

#[test]
fn the_table_has_a_row_for_each_method_of_the_proto_and_no_other() {
    let set = FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.iter().filter(|file| file.package() == "longhaul.v1");
    let services = services.flat_map(|file| &file.service);
    let methods: BTreeSet<&str> = services
        .flat_map(|service| service.method.iter().map(prost_types::MethodDescriptorProto::name))
        .collect();
    let rows: BTreeSet<&str> = RPCS.iter().map(|(method, _)| *method).collect();
    assert_eq!(rows, methods);
    assert_eq!(rows.len(), RPCS.len(), "no method has two rows");
}

#[test]
fn the_table_has_a_row_for_each_route_of_the_sidecar_and_no_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web");
    let mut served = BTreeSet::new();
    for file in walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap) {
        if file.path().extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let source = fs::read_to_string(file.path()).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        for rest in source.split(".route(").skip(1) {
            // The two webhooks of the template are served under another prefix as well.
            let rest = rest.trim_start().trim_start_matches("&format!(");
            let route = rest.strip_prefix('"').expect("a route is a literal");
            let route = route.split('"').next().unwrap();
            served.insert(route.replace("/{prefix}/", "/webhook/"));
        }
    }
    let rows: BTreeSet<String> = ROUTES.iter().map(|(route, _)| (*route).to_owned()).collect();
    assert_eq!(rows, served);
    assert_eq!(rows.len(), ROUTES.len(), "no route has two rows");
}
