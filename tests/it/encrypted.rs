//! A provider over TLS, whose certificate is not known to the world but named by `SSL_CERT_FILE`, and which takes only
//! so many calls on a connection: a gateway within a company, as a server process meets it.

use longhaul::rpc::proto::JobStatus;

use crate::harness::{Process, Rig, job, run};

#[path = "../../src/model/tests/provider.rs"]
#[expect(dead_code, reason = "the client's own tests put it to more uses")]
mod provider;

use provider::{Provider, Speech};

/// A certificate for this machine that signs itself.
pub const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fixture/provider.pem");

const ANSWER: &str = r#"event: message_start
data: {"type":"message_start","message":{"model":"claude-sonnet-5-5","usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_certificate_and_a_limit_of_its_own_answers_all_jobs_at_once() {
    let mut provider = Provider::serve(Speech::Http2, 10).await;
    let rig = Rig::without_server(&[]).await;
    let url = format!("https://localhost:{}", provider.address.port());
    let variables = [
        ("LONGHAUL_MODEL_BASE_URL", url.as_str()),
        ("SSL_CERT_FILE", CERTIFICATE),
        ("LONGHAUL_MODEL_STREAMS", "10"),
    ];
    let server = Process::serve(&rig, &variables).await;
    let job_ids: Vec<String> = (0..25).map(|number| format!("job-{number}")).collect();
    for job_id in &job_ids {
        server.client.submit(job(job_id, [run("Write a line.")])).await;
    }
    // The first finds out what the provider speaks; none of the others is answered before all of them have asked.
    provider.asked().await.answer(ANSWER).await;
    for asked in provider.many(24).await {
        asked.answer(ANSWER).await;
    }
    for job_id in &job_ids {
        let done = server.client.settled_as(job_id, JobStatus::Completed).await;
        assert_eq!(done.output, "Hello");
    }
    assert_eq!(provider.opened(), 4);
}
