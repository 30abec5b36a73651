//! The door that Meta comes through: it is opened by two secrets, takes what they sign, and nothing else.

use longhaul::notify::signature::sign;
use longhaul::rpc::proto::Delivery;

use crate::delivery::{
    OLD_SECRET, OPEN, SECRET, VERIFY_TOKEN, body, post, sent_message, shown, status,
};
use crate::harness::{Client, Process, Rig};

/// Asks as Meta does whether the address is ours; answers status, type and text.
async fn ask(client: &Client, query: &[(&str, &str)]) -> (u16, String, String) {
    let mut url = reqwest::Url::parse(&format!("{}/webhook/whatsapp", client.http_url)).unwrap();
    url.query_pairs_mut().extend_pairs(query);
    let answer = client.http.get(url).send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), kind, answer.text().await.unwrap())
}

/// Posts a body under a signature, or none.
async fn post_signed(client: &Client, body: &str, signature: Option<&str>) -> u16 {
    let mut request = client.http.post(format!("{}/webhook/whatsapp", client.http_url));
    if let Some(signature) = signature {
        request = request.header("x-hub-signature-256", signature);
    }
    request.body(body.to_owned()).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_is_verified_with_the_word_that_was_agreed_on() {
    let rig = Rig::start_with(OPEN).await;
    let mode = ("hub.mode", "subscribe");
    let token = ("hub.verify_token", VERIFY_TOKEN);
    let challenge = ("hub.challenge", "1158201444");
    let (code, kind, text) = ask(&rig, &[mode, challenge, token]).await;
    assert_eq!((code, text.as_str()), (200, "1158201444"));
    assert!(kind.starts_with("text/plain"), "{kind}");
    for refused in [
        &[mode, challenge, ("hub.verify_token", "a guess")][..],
        &[mode, challenge, ("hub.verify_token", "")],
        &[mode, challenge],
        &[("hub.mode", "unsubscribe"), challenge, token],
        &[challenge, token],
        &[mode, token],
        &[mode, token, ("hub.challenge", "<script>1</script>")],
        &[mode, token, ("hub.challenge", &"1".repeat(129))],
        &[],
    ] {
        let (code, kind, text) = ask(&rig, refused).await;
        assert_eq!((code, kind.as_str()), (403, "application/json"), "{refused:?}");
        assert!(!text.contains("script") && !text.contains("guess"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_one_of_the_two_secrets_signed_is_taken() {
    let rig = Rig::start_with(OPEN).await;
    let message = sent_message(&rig, "signed").await;
    let read = body(&[status(&message, "read")]);
    let right = sign(&SECRET.into(), read.as_bytes());
    for signature in [
        None,
        Some(""),
        Some("sha256="),
        Some(&right[7..]),
        Some(&sign(&VERIFY_TOKEN.into(), read.as_bytes())),
        // The same, but for a space.
        Some(&sign(&SECRET.into(), format!("{read} ").as_bytes())),
    ] {
        assert_eq!(post_signed(&rig, &read, signature).await, 401, "{signature:?}");
        assert_eq!(shown(&rig, "signed").await.0, Delivery::Sent);
    }
    let delivered = body(&[status(&message, "delivered")]);
    let old = sign(&OLD_SECRET.into(), delivered.as_bytes());
    assert_eq!(post_signed(&rig, &delivered, Some(&old)).await, 200);
    assert_eq!(shown(&rig, "signed").await.0, Delivery::Delivered);
    assert_eq!(post_signed(&rig, &read, Some(&right)).await, 200);
    assert_eq!(shown(&rig, "signed").await.0, Delivery::Read);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_are_signed_and_not_what_they_mean() {
    let rig = Rig::start_with(OPEN).await;
    let message = sent_message(&rig, "任务/ü").await;
    let plain = body(&[status(&message, "read")]);
    // As Meta writes it; whoever reads and writes it anew before checking has other bytes.
    let escaped = plain.replace('任', r"\u4efb").replace('务', r"\u52a1").replace('ü', r"\u00fc");
    let escaped = escaped.replace('/', r"\/");
    assert_ne!(plain, escaped);
    assert_eq!(post(&rig, &escaped).await, 200);
    assert_eq!(shown(&rig, "任务/ü").await.0, Delivery::Read);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_three_mebibytes_is_taken_and_a_longer_one_is_not() {
    let rig = Rig::start_with(OPEN).await;
    let message = sent_message(&rig, "large").await;
    let fill = |word: &str, bytes: usize| {
        let body = body(&[status(&message, word)]);
        format!("{body}{}", " ".repeat(bytes - body.len()))
    };
    assert_eq!(post(&rig, &fill("delivered", (3 << 20) + 1)).await, 413);
    assert_eq!(shown(&rig, "large").await.0, Delivery::Sent);
    assert_eq!(post(&rig, &fill("delivered", 3 << 20)).await, 200);
    assert_eq!(shown(&rig, "large").await.0, Delivery::Delivered);
    let many: Vec<_> = std::iter::repeat_n(status(&message, "read"), 1000).collect();
    assert_eq!(post(&rig, &body(&many)).await, 200);
    assert_eq!(shown(&rig, "large").await.0, Delivery::Read);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signature_counts_and_not_the_page_that_a_browser_would_name() {
    let rig = Rig::start_with(OPEN).await;
    let message = sent_message(&rig, "foreign").await;
    let read = body(&[status(&message, "read")]);
    let request = rig.http.post(format!("{}/webhook/whatsapp", rig.http_url));
    let request = request
        .header("origin", "https://business.example")
        .header("sec-fetch-site", "cross-site")
        .header("x-hub-signature-256", sign(&SECRET.into(), read.as_bytes()));
    assert_eq!(request.body(read).send().await.unwrap().status(), 200);
    assert_eq!(shown(&rig, "foreign").await.0, Delivery::Read);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_secrets_the_door_is_closed_and_the_log_says_why_once() {
    let rig = Rig::without_server(&[]).await;
    let server = Process::serve(&rig, &[]).await;
    for _ in 0..3 {
        assert_eq!(post(&server.client, "{}").await, 404);
        let query = [("hub.mode", "subscribe"), ("hub.challenge", "1"), ("hub.verify_token", "")];
        assert_eq!(ask(&server.client, &query).await.0, 404);
    }
    server.wait_to_say("LONGHAUL_WHATSAPP_APP_SECRET").await;
    let said = server.said();
    assert_eq!(said.matches("LONGHAUL_WHATSAPP_APP_SECRET").count(), 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_number_or_secret_reaches_the_log() {
    let rig = Rig::without_server(OPEN).await;
    let server = Process::serve(&rig, &[("RUST_LOG", "info,longhaul=trace")]).await;
    let inbound = r#"{"entry":[{"changes":[{"field":"messages","value":{"messages":[{"from":"15550199",
      "type":"text","text":{"body":"what a person wrote"}}],"statuses":[{"id":7}]}}]}]}"#;
    assert_eq!(post(&server.client, inbound).await, 200);
    assert_eq!(post_signed(&server.client, inbound, Some("sha256=00")).await, 401);
    let query =
        [("hub.mode", "subscribe"), ("hub.challenge", "7"), ("hub.verify_token", "guess-5")];
    assert_eq!(ask(&server.client, &query).await.0, 403);
    server.wait_to_say("could not read all").await;
    server.wait_to_say("is not signed").await;
    let said = server.said();
    for secret in ["15550199", "a person wrote", SECRET, OLD_SECRET, VERIFY_TOKEN, "guess-5"] {
        assert!(!said.contains(secret), "{secret}");
    }
}
