//! Floods: thousands of connections that do next to nothing, and callers who ask for far more than they may.
//!
//! Health stays as it is, running jobs keep their leases, who asks for too much hears so at once, and who is honest is served.
//! The short form runs with all tests; `scripts/flood` runs it for longer, and both print what an honest client feels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul::rpc::proto::{GetJobRequest, JobStatus};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::{Client, Process, Rig, Told, job, run, wait};
use crate::limit::{is_healthy, make_key, shown};
use crate::tls::authority::{Authority, Files};

/// How many jobs run while it floods, and how many are submitted to be timed.
const RUNNING: usize = 20;
const SUBMITS: usize = 200;
/// How many ask for too much, and how often each of them asks.
const FLOODERS: usize = 8;
const EVERY: Duration = Duration::from_millis(5);
/// How many requests a second they may make.
const ALLOWED: u32 = 20;

const HEAD: &[u8] = b"POST /webhook/durable-job HTTP/1.1\r\nhost: longhaul\r\n";
const BODY: &[u8] = b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The beginning of a hello over TLS, which is never finished.
const HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";

#[expect(clippy::disallowed_methods, reason = "this configures the tests and not the product")]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Opens so many connections, each of which says the beginning of something, and holds them.
async fn open(addr: &str, count: usize, begins: &[&[u8]], held: &mut Vec<TcpStream>) {
    for at in 0..count {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        let begin = begins[at % begins.len()];
        // One that was closed at once cannot be written to, and counts as closed below.
        let _ = socket.write_all(begin).await;
        held.push(socket);
    }
}

/// Goes on saying a byte now and then, on connections whose peer still listens.
async fn trickle(held: &mut [TcpStream], byte: u8) {
    for socket in held.iter_mut() {
        let _ = socket.try_write(&[byte]);
    }
}

/// Submits jobs one after the other; answers how long they took, in order of length.
async fn submits(client: &Client, key: &str, name: &str) -> Vec<Duration> {
    let mut took = Vec::new();
    for at in 0..SUBMITS {
        let began = Instant::now();
        let submission = job(&format!("{name}-{at}"), [wait(3600)]);
        client.grpc.clone().submit_job(shown(key, submission)).await.unwrap();
        took.push(began.elapsed());
    }
    took.sort();
    took
}

fn at_99(took: &[Duration]) -> Duration {
    took[took.len() * 99 / 100]
}

/// Asks for too much until told to stop; answers how long refusals took, in order of length.
async fn flood(
    client: Client,
    key: String,
    is_over: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
) -> Vec<Duration> {
    let (mut tick, mut took) = (tokio::time::interval(EVERY), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        tick.tick().await;
        let request = GetJobRequest { job_id: "running-0".to_owned(), ..GetJobRequest::default() };
        let began = Instant::now();
        match client.grpc.clone().get_job(shown(&key, request)).await {
            Ok(_) => {
                served.fetch_add(1, Ordering::Relaxed);
            }
            Err(refused) => {
                assert_eq!(Told::from(&refused).reason, "RATE_LIMITED");
                took.push(began.elapsed());
            }
        }
    }
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_slow_connections_and_a_flood_of_calls_disturb_nobody() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let fits = usize::try_from(hard).unwrap_or(usize::MAX).saturating_sub(2000);
    let count = usize::try_from(number("FLOOD_CONNECTIONS", 5000)).unwrap().min(fits);
    let seconds = number("FLOOD_SECONDS", 3);

    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "5")]).await;
    let honest = make_key(&rig, "honest", None, None).await;
    let greedy = make_key(&rig, "greedy", Some(ALLOWED), None).await;
    let authority = Authority::new("one");
    let files = Files::of(&authority.server());
    let plain = Process::serve(&rig, &[]).await;
    let secure = Process::serve(&rig, &files.variables(&[])).await;
    rig.sandbox.hold("Write").await;
    for at in 0..RUNNING {
        let submission = job(&format!("running-{at}"), [run("Write a line.")]);
        plain.client.grpc.clone().submit_job(shown(&honest, submission)).await.unwrap();
    }
    rig.sandbox.wait_for("Write", "held", RUNNING).await;
    let calm = submits(&plain.client, &honest, "calm").await;

    let http = |client: &Client| client.http_url.split_once("://").unwrap().1.to_owned();
    let mut held = Vec::new();
    let began = Instant::now();
    open(&http(&secure.client), count / 5, &[b"", HELLO], &mut held).await;
    open(&secure.client.grpc_addr, count / 5, &[b"", HELLO], &mut held).await;
    let body = [HEAD, BODY].concat();
    open(&http(&plain.client), count * 2 / 5, &[HEAD, &body, PREFACE], &mut held).await;
    open(&plain.client.grpc_addr, count / 5, &[PREFACE, &PREFACE[..20]], &mut held).await;
    println!("{} slow connections were opened in {:?}", held.len(), began.elapsed());

    let (is_over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut flooders = JoinSet::new();
    for _ in 0..FLOODERS {
        let (client, key) = (plain.client.clone(), greedy.clone());
        flooders.spawn(flood(client, key, Arc::clone(&is_over), Arc::clone(&served)));
    }
    let began = Instant::now();
    let (mut looks, mut under_flood) = (0, Vec::new());
    for round in 0.. {
        trickle(&mut held, b'x').await;
        assert!(is_healthy(&plain.client).await, "health is looked at over a new connection");
        looks += 1;
        under_flood.extend(submits(&plain.client, &honest, &format!("flood-{round}")).await);
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    let lasted = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let mut refused: Vec<Duration> = flooders.join_all().await.into_iter().flatten().collect();
    refused.sort();
    under_flood.sort();
    println!(
        "in {lasted:?}: {looks} looks at health, all SERVING; {} calls refused, p50 {:?}, p99 {:?}, {} served; \
         submits of an honest client p50 {:?}, p99 {:?} (calm: {:?}, {:?})",
        refused.len(),
        refused[refused.len() / 2],
        at_99(&refused),
        served.load(Ordering::Relaxed),
        under_flood[under_flood.len() / 2],
        at_99(&under_flood),
        calm[calm.len() / 2],
        at_99(&calm),
    );
    let most = f64::from(ALLOWED) * (lasted.as_secs_f64() + 2.0);
    assert!((served.load(Ordering::Relaxed) as f64) < most, "the limit holds");
    assert!(refused.len() > 100, "there was a flood");
    assert!(at_99(&refused) < Duration::from_secs(1), "who is refused hears so at once");
    assert!(at_99(&under_flood) < Duration::from_secs(1), "who is honest is served");

    rig.sandbox.mend().await;
    for at in 0..RUNNING {
        let request = GetJobRequest {
            job_id: format!("running-{at}"),
            wait_seconds: 20,
            ..GetJobRequest::default()
        };
        let done = plain.client.grpc.clone().get_job(shown(&honest, request)).await.unwrap();
        assert_eq!(done.into_inner().job.unwrap().status(), JobStatus::Completed);
    }
    let lost =
        "select count(*) from longhaul.event where kind in ('attempt_lost', 'attempt_released')";
    assert_eq!(rig.db.number(lost).await, 0, "every running job kept its lease");
    plain.terminate().await;
    secure.terminate().await;
}
