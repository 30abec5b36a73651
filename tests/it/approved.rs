//! `longhaul doctor` and the templates: what is configured is held to what Meta has approved.

use serde_json::json;

use crate::doctor::{behind, examine};
use crate::harness::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn the_templates_are_held_to_what_meta_has_approved() {
    let proxy = Proxy::plain().await;
    let (rig, public) = behind(&proxy, "").await;
    let request = ("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE", "approval_request");
    let notice = ("LONGHAUL_WHATSAPP_NOTICE_TEMPLATE", "job_notice");
    let account = ("LONGHAUL_WHATSAPP_ACCOUNT_ID", "102290129340398");
    examine(&rig, &[]).await.tells("whatsapp templates", "skipped", "none is configured");
    let unset = examine(&rig, &[request, notice]).await;
    unset.tells("whatsapp templates", "skipped", "set LONGHAUL_WHATSAPP_ACCOUNT_ID");
    // The buttons lead elsewhere, until the sandbox knows the address.
    rig.sandbox.set(json!({"public_url": "https://old.example"})).await;
    let elsewhere = examine(&rig, &[request, notice, account]).await;
    elsewhere.tells("whatsapp templates", "fault", "do not open");
    rig.sandbox.set(json!({"public_url": public})).await;
    let found = examine(&rig, &[request, notice, account]).await;
    assert!(found.ok, "{}", found.text);
    for name in ["approval_request", "job_notice"] {
        let words = format!("{name} can be sent in en_US, zh_CN, pt_BR");
        found.tells("whatsapp templates", "ok", &words);
    }
    let missing = ("LONGHAUL_WHATSAPP_NOTICE_TEMPLATE", "longhaul_other");
    let found = examine(&rig, &[request, missing, account]).await;
    found.tells("whatsapp templates", "fault", "longhaul_other is not there in en_US");
}
