//! Moves: a link that somebody has opens and decides after the server was restarted under another address.

use longhaul::rpc::proto::JobStatus;

use crate::ask::{NOTE, ask, asking, form};
use crate::harness::{Asked, PERSON, Pass, Process, Proxy, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_link_outlives_the_address_it_was_made_for() {
    let old = "https://old.example/jobs";
    let mut rig = Rig::start_with(&[("LONGHAUL_PUBLIC_URL", old)]).await;
    let links = ask(&rig, asking("moved")).await;
    let path = links.approve.strip_prefix(old).unwrap_or_else(|| panic!("{links:?}")).to_owned();
    rig.stop_server().await;

    // Another address and path, another process, and a proxy that strips the path.
    let strip = |asked: &Asked| {
        Pass::On(asked.path.strip_prefix("/elsewhere").unwrap_or(&asked.path).to_owned())
    };
    let proxy = Proxy::start(strip, |_headers| {}).await;
    let public = format!("{}/elsewhere", proxy.url);
    let server = Process::serve(&rig, &[("LONGHAUL_PUBLIC_URL", &public)]).await;
    proxy.lead_to(&server.client.http_url);
    // Under the new address, and where an installation keeps the old path, under that as well.
    for link in [format!("{public}{path}"), format!("{}{path}", server.client.http_url)] {
        let page = server.client.http.get(&link).send().await.unwrap();
        assert_eq!(page.status(), 200);
        assert!(page.text().await.unwrap().contains(NOTE));
    }
    let press = form(&server.client, "moved", "approve", "").await;
    let link = format!("{public}{path}");
    let post = server.client.http.post(&link).body(press).header("origin", &proxy.url);
    let answer = post.header("content-type", "application/x-www-form-urlencoded").send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 303);
    let back = answer.headers()["location"].to_str().unwrap();
    assert_eq!(reqwest::Url::parse(&link).unwrap().join(back).unwrap().as_str(), link);
    server.client.settled_as("moved", JobStatus::Completed).await;
    // A message that goes out now names the new address.
    server.client.submit(asking("after")).await;
    server.client.settled_as("after", JobStatus::AwaitingApproval).await;
    let message = rig.sandbox.messages(PERSON, 3).await.remove(2);
    assert!(message["text"].as_str().unwrap().contains(&public), "{message}");
}
