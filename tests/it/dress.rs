//! The headers of the approval page, on every answer that it can give: whatever went wrong, nothing caches, frames,
//! lists or runs it.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul::web::page_headers;
use reqwest::{Method, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::ask::{ask, asking, form};
use crate::harness::{Gate, PATIENCE, Process, Rig};

/// Fails unless the answer wears every header exactly, once, and nothing that a browser would keep.
fn wears_everything(what: &str, answer: &Response) -> u16 {
    for (name, value) in page_headers() {
        let found: Vec<_> = answer.headers().get_all(&name).iter().collect();
        assert_eq!(found, [&value], "{what}: {} {name}", answer.status());
    }
    for name in ["set-cookie", "etag", "last-modified", "access-control-allow-origin"] {
        assert!(!answer.headers().contains_key(name), "{what}: {name}");
    }
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let is_page = kind.is_none_or(|kind| kind == "text/html; charset=utf-8");
    assert!(is_page || answer.status() == 303, "{what}: {kind:?}");
    answer.status().as_u16()
}

/// The largest form that is read.
const FORM_BYTES_MAX: usize = (3 << 20) + (32 << 10);

/// A form that is too large is refused before its end has come, in the same dress.
async fn is_refused_unread(rig: &Rig, link: &str) {
    let address = rig.http_url.strip_prefix("http://").unwrap();
    let path = link.strip_prefix(&rig.http_url).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = 4 << 20;
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // Just too much, so that none of it lies unread when the answer comes, and breaks that off.
    stream.write_all(&vec![b'c'; FORM_BYTES_MAX + 1]).await.unwrap();
    let (mut told, mut some) = (String::new(), [0; 4096]);
    while !told.contains("\r\n\r\n") {
        let count = stream.read(&mut some).await.unwrap();
        assert_ne!(count, 0, "it breaks off: {told}");
        told.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    assert!(told.starts_with("HTTP/1.1 413 "), "{told}");
    for (name, value) in page_headers() {
        let line = format!("\r\n{name}: {}\r\n", value.to_str().unwrap());
        assert!(told.contains(&line), "no {line:?} in {told}");
    }
}

/// What is sent: a method, what is added to the link, an origin, and a body.
type Sent<'s> = (&'s str, &'s str, Option<&'s str>, String);

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_wears_the_headers_of_the_page() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("dressed")).await;
    let (approve, reject) =
        (form(&rig, "dressed", "approve", "").await, form(&rig, "dressed", "reject", "").await);
    let long = form(&rig, "dressed", "approve", &"c".repeat(4097)).await;
    let foreign = Some("https://evil.example");
    let none = String::new;
    let cases: [(u16, Sent<'_>); 24] = [
        (200, ("GET", "", None, none())),
        (200, ("HEAD", "", None, none())),
        (200, ("GET", "?utm_source=x", None, none())),
        (404, ("GET", "A", None, none())),
        (404, ("HEAD", "A", None, none())),
        (404, ("GET", "/", None, none())),
        (404, ("GET", "/more/and/more", None, none())),
        (405, ("PUT", "/more", None, none())),
        (404, ("GET", "%FF", None, none())),
        (404, ("GET", "/../", None, none())),
        (404, ("POST", "A", None, approve.clone())),
        (405, ("OPTIONS", "", None, none())),
        (405, ("PUT", "", None, approve.clone())),
        (405, ("DELETE", "", None, none())),
        (405, ("PATCH", "", None, none())),
        (405, ("TRACE", "", None, none())),
        (405, ("PROPFIND", "", None, none())),
        (403, ("POST", "", foreign, approve.clone())),
        (405, ("DELETE", "", foreign, none())),
        (400, ("POST", "", None, none())),
        (400, ("POST", "", None, "verdict=approve&approval_id=x".to_owned())),
        (413, ("POST", "", None, long)),
        (303, ("POST", "", None, approve)),
        (409, ("POST", "", None, reject)),
    ];
    for (expected, (method, more, origin, body)) in cases {
        let what = format!("{method} {more:?} from {origin:?} with {} bytes", body.len());
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = rig.http.request(method, format!("{}{more}", links.approve));
        request = request.header("content-type", "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(wears_everything(&what, &answer), expected, "{what}");
    }
    is_refused_unread(&rig, &links.approve).await;
    // What is left of a link whose token was cut off is a person's too.
    for cut in ["/approvals", "/approvals/"] {
        let answer = rig.http.get(format!("{}{cut}", rig.http_url)).send().await.unwrap();
        assert_eq!(wears_everything(cut, &answer), 404);
        let page = answer.text().await.unwrap();
        assert!(page.contains("<main"), "{cut} is answered with a page: {page}");
    }
    // Decided, and looked at again.
    let decided = rig.http.get(&links.approve).send().await.unwrap();
    assert_eq!(wears_everything("decided", &decided), 200);
    // A row that does not fit.
    let spoil = sqlx::query("update longhaul.job_spec set spec = '{}'");
    assert_eq!(spoil.execute(&rig.db.pool).await.unwrap().rows_affected(), 1);
    for method in [Method::GET, Method::HEAD] {
        let answer = rig.http.request(method, &links.approve).send().await.unwrap();
        assert_eq!(wears_everything("spoilt", &answer), 500);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_room_or_database_answers_in_the_same_dress() {
    let rig = Rig::without_server(&[("LONGHAUL_REQUESTS_MAX", "1")]).await;
    let gate = Gate::open(&rig.db.url).await;
    let rig = rig.start_at(&gate.url).await;
    let links = ask(&rig, asking("crowded")).await;
    // A form that never comes to its end takes the only place of those who send one.
    let address = rig.http_url.strip_prefix("http://").unwrap();
    let mut stuck = TcpStream::connect(address).await.unwrap();
    let path = links.approve.strip_prefix(&rig.http_url).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 9\r\n\r\na");
    stuck.write_all(head.as_bytes()).await.unwrap();
    let mut seen = BTreeSet::new();
    let look = async {
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        while !seen.contains(&429) {
            pace.tick().await;
            let answer = rig.http.post(&links.approve).body("").send().await.unwrap();
            seen.insert(wears_everything("full", &answer));
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the place is taken");
    let looked = rig.http.get(&links.approve).send().await.unwrap();
    assert_eq!(wears_everything("beside it", &looked), 200, "who looks has room of their own");
    drop(stuck);
    drop(gate);
    let mut seen = BTreeSet::new();
    let look = async {
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        while !seen.contains(&503) {
            pace.tick().await;
            let answer = rig.http.get(&links.approve).send().await.unwrap();
            seen.insert(wears_everything("without database", &answer));
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the database is away");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_its_database_answers_in_the_same_dress() {
    let rig = Rig::without_server(&[]).await;
    let nowhere = ("DATABASE_URL", "postgres://user@127.0.0.1:1/nowhere");
    let starting = Process::begin(&rig, &[nowhere]).await;
    let (_, http) = starting.waiting_at().await;
    let link = format!("http://{http}/approvals/AAAAAAAAAAAAAAAAAAAAAAA");
    for method in [Method::GET, Method::HEAD, Method::POST] {
        let answer = crate::harness::http_client().request(method, &link).send().await.unwrap();
        assert_eq!(wears_everything("waiting", &answer), 503);
    }
    starting.terminate().await;
}
