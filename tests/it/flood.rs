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
/// So that heads that trickle are cut while it floods.
const HASTE: (&str, &str) = ("LONGHAUL_HEAD_SECONDS", "1");
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

/// How many of these connections their peer has ended.
fn count_cut(held: &[TcpStream]) -> usize {
    let is_cut = |socket: &&TcpStream| match socket.try_read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    held.iter().filter(is_cut).count()
}

/// Whether the sidecar says that all is well.
async fn is_well(client: &Client) -> bool {
    let look = client.http.get(format!("{}/healthz", client.http_url)).send().await;
    look.is_ok_and(|answer| answer.status() == 200)
}

/// Goes on saying a byte now and then, on connections whose peer still listens.
fn trickle(held: &mut [TcpStream], byte: u8) {
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

/// How many there were and how long they took, in words.
fn told(what: &str, took: &[Duration]) -> String {
    format!("{} {what} (p50 {:?}, p99 {:?})", took.len(), took[took.len() / 2], at_99(took))
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

/// Two servers on one database, one of them over TLS, and jobs that run on them.
struct Scene {
    rig: Rig,
    plain: Process,
    secure: Process,
    honest: String,
    greedy: String,
}

impl Scene {
    async fn set() -> Self {
        let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "5")]).await;
        let honest = make_key(&rig, "honest", None, None).await;
        let greedy = make_key(&rig, "greedy", Some(ALLOWED), None).await;
        let authority = Authority::new("one");
        let files = Files::of(&authority.server());
        let plain = Process::serve(&rig, &[HASTE]).await;
        let secure = [&[HASTE][..], &files.variables(&[])].concat();
        let secure = Process::serve(&rig, &secure).await;
        rig.sandbox.hold("Write").await;
        for at in 0..RUNNING {
            let submission = job(&format!("running-{at}"), [run("Write a line.")]);
            plain.client.grpc.clone().submit_job(shown(&honest, submission)).await.unwrap();
        }
        rig.sandbox.wait_for("Write", "held", RUNNING).await;
        Self { rig, plain, secure, honest, greedy }
    }

    /// Opens so many connections of all kinds, and holds them: those that begin a head, and the others.
    async fn besiege(&self, count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let http = |client: &Client| client.http_url.split_once("://").unwrap().1.to_owned();
        let (plain, secure) = (&self.plain.client, &self.secure.client);
        let (mut heads, mut held) = (Vec::new(), Vec::new());
        open(&http(secure), count / 5, &[b"", HELLO], &mut held).await;
        open(&secure.grpc_addr, count / 5, &[b"", HELLO], &mut held).await;
        let (body, key) = ([HEAD, BODY].concat(), format!("x-api-key: {}\r\n", self.honest));
        // It is let in and takes a place, as long as it lasts.
        let let_in = [HEAD, key.as_bytes(), BODY].concat();
        open(&http(plain), count / 5, &[HEAD], &mut heads).await;
        open(&http(plain), count / 5, &[&body, &let_in, PREFACE, PREFACE], &mut held).await;
        open(&plain.grpc_addr, count / 5, &[PREFACE, &PREFACE[..20]], &mut held).await;
        (heads, held)
    }

    /// Every running job goes on to its end, and none was lost on the way.
    async fn end(self) {
        self.rig.sandbox.mend().await;
        for at in 0..RUNNING {
            let job_id = format!("running-{at}");
            let request = GetJobRequest { job_id, wait_seconds: 20, ..GetJobRequest::default() };
            let request = shown(&self.honest, request);
            let done = self.plain.client.grpc.clone().get_job(request).await.unwrap();
            assert_eq!(done.into_inner().job.unwrap().status(), JobStatus::Completed);
        }
        let lost = "select count(*) from longhaul.event
            where kind in ('attempt_lost', 'attempt_released')";
        assert_eq!(self.rig.db.number(lost).await, 0, "every running job kept its lease");
        self.plain.terminate().await;
        self.secure.terminate().await;
    }
}

/// As many open files as the system allows, and how many connections that leaves room for.
fn room() -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    usize::try_from(hard).unwrap_or(usize::MAX).saturating_sub(2000)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_slow_connections_and_a_flood_of_calls_disturb_nobody() {
    let count = usize::try_from(number("FLOOD_CONNECTIONS", 5000)).unwrap().min(room());
    let seconds = Duration::from_secs(number("FLOOD_SECONDS", 3));
    let scene = Scene::set().await;
    let client = &scene.plain.client;
    let calm = submits(client, &scene.honest, "calm").await;
    let began = Instant::now();
    let (mut heads, mut held) = scene.besiege(count).await;
    let opened = heads.len() + held.len();
    println!("{opened} slow connections were opened in {:?}", began.elapsed());
    // Of each of five kinds the same, so that a few may be missing.
    assert!(opened > 0 && opened + 5 > count.min(4000), "{count} were to be opened");

    let (is_over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut flooders = JoinSet::new();
    for _ in 0..FLOODERS {
        let (client, key) = (client.clone(), scene.greedy.clone());
        flooders.spawn(flood(client, key, Arc::clone(&is_over), Arc::clone(&served)));
    }
    let began = Instant::now();
    let (mut looks, mut flooded) = (0, Vec::new());
    while began.elapsed() < seconds {
        trickle(&mut heads, b'x');
        trickle(&mut held, b'x');
        assert!(is_well(client).await, "the sidecar is looked at");
        assert!(is_healthy(client).await, "health is looked at over a new connection");
        looks += 1;
        flooded.extend(submits(client, &scene.honest, &format!("flood-{looks}")).await);
    }
    let lasted = began.elapsed();
    let cut = count_cut(&heads);
    println!("of {} heads that trickled {cut} were cut", heads.len());
    assert_eq!(cut, heads.len(), "a head that trickles is cut");
    is_over.store(true, Ordering::Relaxed);
    let mut refused: Vec<Duration> = flooders.join_all().await.into_iter().flatten().collect();
    refused.sort();
    flooded.sort();
    let served = served.load(Ordering::Relaxed);
    println!("in {lasted:?}: {looks} looks at health, all SERVING");
    println!("of one caller {served} calls were served and {}", told("refused", &refused));
    println!("an honest client's {}, {}", told("calm submits", &calm), told("others", &flooded));
    let most = f64::from(ALLOWED) * (lasted.as_secs_f64() + 2.0);
    assert!((served as f64) < most, "the limit holds");
    assert!(refused.len() > 100, "there was a flood");
    assert!(at_99(&refused) < Duration::from_secs(1), "who is refused hears so at once");
    assert!(at_99(&flooded) < Duration::from_secs(1), "who is honest is served");
    scene.end().await;
}
