//! Links that are taken back: they open what an unknown link opens, and decide nothing.

use longhaul::rpc::proto::{ApprovalStep, JobStatus, RevokeLinksRequest};

use crate::ask::{ask, form, links};
use crate::harness::{PERSON, Rig, Told, approval_step, job, run};
use crate::link::{everything, post, read};

async fn revoke(rig: &Rig, job_id: &str, approver: &str) -> Result<i32, tonic::Status> {
    let (job_id, approver) = (job_id.to_owned(), approver.to_owned());
    let request = RevokeLinksRequest { job_id, approver };
    Ok(rig.grpc.clone().revoke_links(request).await?.into_inner().revoked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_link_opens_what_an_unknown_one_does_and_decides_nothing() {
    let rig = Rig::start().await;
    let approvers = vec![PERSON.to_owned(), "+15550177".to_owned()];
    let step = ApprovalStep { approvers, ..Default::default() };
    let hers = ask(&rig, job("revoked", [run("Say something."), approval_step(step)])).await;
    let theirs = links(&rig.sandbox, "+15550177", 1).await;
    let press = form(&rig, "revoked", "approve", "").await;
    let (base, token) = hers.approve.rsplit_once('/').unwrap();
    let last = if token.ends_with('A') { 'Q' } else { 'A' };
    let unknown = format!("{base}/{}{last}", &token[..token.len() - 1]);
    let unknown = read(rig.http.get(unknown).send().await.unwrap(), 404).await;

    assert_eq!(revoke(&rig, "revoked", PERSON).await.unwrap(), 2);
    assert_eq!(revoke(&rig, "revoked", PERSON).await.unwrap(), 0, "they are revoked already");
    assert_eq!(revoke(&rig, "revoked", "+15550123").await.unwrap(), 0, "who was never asked");
    let before = everything(&rig).await;
    for link in [&hers.approve, &hers.reject] {
        assert_eq!(read(rig.http.get(link).send().await.unwrap(), 404).await, unknown);
        let pressed = post(&rig, link, press.clone()).send().await.unwrap();
        assert_eq!(read(pressed, 404).await, unknown);
    }
    assert_eq!(everything(&rig).await, before);
    read(rig.http.get(&theirs.approve).send().await.unwrap(), 200).await;

    assert_eq!(revoke(&rig, "revoked", "").await.unwrap(), 2, "everybody's");
    read(post(&rig, &theirs.approve, press).send().await.unwrap(), 404).await;
    assert_eq!(rig.job("revoked").await.status(), JobStatus::AwaitingApproval);
    let nowhere = Told::from(&revoke(&rig, "nowhere", "").await.unwrap_err());
    assert_eq!(nowhere.reason, "JOB_NOT_FOUND");
    let faulty = Told::from(&revoke(&rig, " ", "a\0").await.unwrap_err());
    assert_eq!(faulty.reason, "INVALID_REQUEST");
}
