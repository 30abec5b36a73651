//! Batches as a client sees them, and what can be made to go wrong with them.

use super::{
    super::tests::{Site, question, refusal},
    *,
};

fn refused(body: &Value) -> String {
    let refusal = check_batch(body).unwrap_err();
    assert_eq!(refusal.status(), 400);
    refusal.body("")["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_batch_has_requests_with_ids_of_their_own_and_nothing_else() {
    let request = |id: &str| json!({"custom_id": id, "params": {}});
    check_batch(&json!({"requests": [request("a_-1"), request("b")]})).unwrap();
    for (body, message) in [
        (json!([]), "The request body is not valid JSON"),
        (json!({}), "requests: Field required"),
        (json!({"requests": []}), "requests: List should have 1 to"),
        (json!({"requests": [request("a")], "name": "x"}), "name: Extra inputs"),
        (json!({"requests": [request("a"), request("a")]}), "requests.1.custom_id: \"a\" is not"),
        (json!({"requests": [request("a b")]}), "requests.0.custom_id: String should match"),
        (json!({"requests": [request("")]}), "requests.0.custom_id: String should match"),
        (json!({"requests": [request(&"a".repeat(65))]}), "requests.0.custom_id: String"),
        (json!({"requests": [{"params": {}}]}), "requests.0.custom_id: Field required"),
        (json!({"requests": [{"custom_id": "a"}]}), "requests.0.params: Field required"),
    ] {
        let found = refused(&body);
        assert!(found.starts_with(message), "{found}");
    }
}

impl Site {
    async fn set(&self, settings: Value) {
        let url = format!("{}/_sandbox/settings", self.url);
        assert!(self.client.post(url).json(&settings).send().await.unwrap().status().is_success());
    }

    fn batch(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().unwrap();
        let url = format!("{}/v1/messages/batches{path}", self.url);
        let request = self.client.request(method, url).bearer_auth("k");
        request.header("anthropic-version", "2026-10-21")
    }

    async fn create(&self, requests: Value) -> Value {
        let request = self.batch("POST", "").json(&json!({"requests": requests}));
        request.send().await.unwrap().json().await.unwrap()
    }

    async fn look(&self, batch: &Value) -> Value {
        let path = format!("/{}", batch["id"].as_str().unwrap());
        self.batch("GET", &path).send().await.unwrap().json().await.unwrap()
    }

    async fn results(&self, batch: &Value) -> Vec<Value> {
        let path = format!("/{}/results", batch["id"].as_str().unwrap());
        let lines = self.batch("GET", &path).send().await.unwrap().text().await.unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn request(id: &str, more: &Value) -> Value {
    json!({"custom_id": id, "params": question(more)})
}

#[tokio::test]
async fn a_batch_is_answered_like_its_questions_but_at_the_price_of_a_batch() {
    let site = Site::open().await;
    site.set(json!({"batch_ms": 0})).await;
    let bad = json!({"max_tokens": 0});
    let streamed = json!({"stream": true});
    let created = site
        .create(json!([request("a", &json!({})), request("b", &bad), request("c", &streamed)]))
        .await;
    assert_eq!(created["processing_status"], "in_progress");
    assert_eq!(created["request_counts"]["processing"], 3);
    let ended = site.look(&created).await;
    assert_eq!(ended["processing_status"], "ended");
    assert_eq!(ended["request_counts"]["errored"], 2);
    let url = format!("{}/v1/messages/batches/{}/results", site.url, ended["id"].as_str().unwrap());
    assert_eq!(ended["results_url"], url);
    let results = site.results(&created).await;
    let ids: Vec<&Value> = results.iter().map(|line| &line["custom_id"]).collect();
    assert_eq!(ids, ["b", "a", "c"]);
    let now: Value = site.ask(&question(&json!({}))).send().await.unwrap().json().await.unwrap();
    let message = &results[1]["result"]["message"];
    assert_eq!(message["content"], now["content"]);
    assert_eq!(message["usage"]["service_tier"], "batch");
    assert_eq!(results[0]["result"]["error"]["error"]["type"], "invalid_request_error");
    assert_eq!(results, site.results(&created).await);
    let journal = site.get("/_sandbox/model/requests?path=/v1/messages/batches&matching=c").await;
    assert_eq!(journal["requests"][0]["status"], 200);
}

#[tokio::test]
async fn each_request_of_a_batch_can_meet_its_own_fate() {
    let site = Site::open().await;
    site.break_with(json!({"model": [
        {"on": "batch_request", "matching": "busy", "status": 529},
        {"on": "batch_request", "matching": "late", "expire": true},
        {"on": "batch_request", "matching": "odd", "stop_reason": "refusal"},
        {"on": "batch_create", "batch_ms": 0},
    ]}))
    .await;
    let batch =
        site.create(json!(["busy", "late", "odd", "good"].map(|id| request(id, &json!({}))))).await;
    let counts = site.look(&batch).await["request_counts"].clone();
    let expected = json!(
        {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 1}
    );
    assert_eq!(counts, expected);
    let results = site.results(&batch).await;
    assert_eq!(results[2]["result"]["error"]["error"]["type"], "overloaded_error");
    assert_eq!(results[3]["result"]["message"]["stop_reason"], "refusal");
}

#[tokio::test]
async fn a_held_batch_can_be_canceled_and_only_an_ended_one_deleted() {
    let site = Site::open().await;
    site.break_with(json!({"model": {"on": "batch_create", "batch_hold": true, "batch_done": 1}}))
        .await;
    let batch = site.create(json!([request("a", &json!({})), request("b", &json!({}))])).await;
    let id = batch["id"].as_str().unwrap();
    let path = format!("/{id}");
    assert_eq!(site.look(&batch).await["processing_status"], "in_progress");
    let early = site.batch("GET", &format!("{path}/results")).send().await.unwrap();
    assert_eq!(refusal(early).await.0, 404);
    assert_eq!(refusal(site.batch("DELETE", &path).send().await.unwrap()).await.0, 400);
    let canceling: Value =
        site.batch("POST", &format!("{path}/cancel")).send().await.unwrap().json().await.unwrap();
    assert_eq!(canceling["processing_status"], "canceling");
    let ended = site.look(&batch).await;
    assert_eq!(ended["processing_status"], "ended");
    assert_eq!(ended["request_counts"]["canceled"], 1);
    let again = site.batch("POST", &format!("{path}/cancel")).send().await.unwrap();
    assert_eq!(refusal(again).await.0, 400);
    let deleted: Value = site.batch("DELETE", &path).send().await.unwrap().json().await.unwrap();
    assert_eq!(deleted, json!({"id": id, "type": "message_batch_deleted"}));
    assert_eq!(refusal(site.batch("GET", &path).send().await.unwrap()).await.0, 404);
}

#[tokio::test]
async fn a_batch_can_be_made_without_its_sender_being_told_and_be_found_late() {
    let site = Site::open().await;
    let lost = json!({"on": "batch_create", "lose_reply": true, "batch_unseen": 2, "times": 1});
    site.break_with(json!({"model": lost})).await;
    let body = json!({"requests": [request("a", &json!({}))]});
    assert!(site.batch("POST", "").json(&body).send().await.is_err());
    let list: Value = site.batch("GET", "").send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    let path = format!("/{}", list["first_id"].as_str().unwrap());
    for status in [404, 404, 200] {
        assert_eq!(site.batch("GET", &path).send().await.unwrap().status(), status);
    }
    let second = site.create(json!([request("b", &json!({}))])).await;
    let page: Value = site.batch("GET", "?limit=1").send().await.unwrap().json().await.unwrap();
    assert_eq!((&page["first_id"], &page["has_more"]), (&second["id"], &json!(true)));
}

#[tokio::test]
async fn what_takes_a_day_can_be_seen_at_once() {
    let site = Site::open().await;
    site.break_with(json!({"model": {"on": "batch_create", "batch_hold": true}})).await;
    let batch = site.create(json!([request("a", &json!({}))])).await;
    site.set(json!({"clock_ahead_seconds": 24 * 3600 + 60})).await;
    let ended = site.look(&batch).await;
    assert_eq!(ended["request_counts"]["expired"], 1);
    assert_eq!(ended["ended_at"], batch["expires_at"]);
    site.set(json!({"clock_ahead_seconds": 29 * 24 * 3600 + 60})).await;
    assert_eq!(site.look(&batch).await["results_url"], Value::Null);
}
