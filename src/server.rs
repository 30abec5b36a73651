//! The whole server: everything built bottom-up, run, and drained; the only place that knows all parts.
//!
//! Every loop runs on one tracker and stops by one token; a loop that dies stops the server with an error.
//! A stop takes no new work, lets steps in flight finish for a while, gives back the rest, and ends every watch.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError};
use crate::door::{self, Keyring, Limits, Port, Tls, Wire};
use crate::engine::Engine;
use crate::engine::batcher::Batcher;
use crate::engine::count::Counter;
use crate::engine::executor::Executor;
use crate::engine::gauge::Gauger;
use crate::engine::lease::LeaseKeeper;
use crate::engine::price::PriceReader;
use crate::engine::prune::Pruner;
use crate::engine::sweeper::Sweeper;
use crate::model::Model;
use crate::notify::endpoint::Endpoints;
use crate::notify::{Listener, Notifier};
use crate::store::Store;
use crate::{rpc, web};

/// Said where others can reach a server and there is nobody to let in.
const NO_KEYS: &str = "others can reach this server, and there is no key to let them in by: make one with \
    `longhaul key create NAME --scope …` on the same DATABASE_URL, let clients show certificates with \
    LONGHAUL_TLS_CLIENT_CA_FILE, listen on loopback addresses, or say --insecure";

/// A server that serves.
pub struct Server {
    /// Where the gRPC face listens.
    pub grpc_addr: SocketAddr,
    /// Where the sidecar listens.
    pub http_addr: SocketAddr,
    /// The same as an address for clients on this machine.
    pub http_url: String,
    store: Store,
    stop: CancellationToken,
    /// The writer and wake-ups outlive the loops, so that what a stop gives back is written, and others hear of it.
    stop_waking: CancellationToken,
    loops: JoinSet<(&'static str, Result<()>)>,
    waking: JoinSet<()>,
    /// How long a stop may take in all.
    patience: Duration,
}

impl Server {
    /// Binds both faces, waits for the database, brings its schema up to date, and starts every loop.
    ///
    /// Until then health says `NOT_SERVING`, and every other call is told to come again.
    pub async fn start(mut config: Config) -> Result<Self> {
        // Once per process; that another server of this process has done it is no fault.
        let _already = rustls::crypto::ring::default_provider().install_default();
        allow_many_files(config.lines.connections_max);
        let (grpc, http) = (bind(config.grpc_addr).await?, bind(config.http_addr).await?);
        let (grpc_addr, http_addr) = (grpc.local_addr()?, http.local_addr()?);
        config.know_http_addr(http_addr);

        let store = Store::new(&config.store).context("could not open the database")?;
        let model =
            Model::new(config.model.clone()).context("could not set up the model client")?;
        let (stop, settings) = (CancellationToken::new(), config.engine.clone());
        let lease = LeaseKeeper::new(store.clone(), settings.lease, &host_name());
        let executor =
            Executor::new(store.clone(), model.clone(), settings, lease.clone(), stop.clone());
        let lister = model.clone();
        let prices = PriceReader::new(store.clone(), model.clone());
        let batcher =
            Batcher::new(store.clone(), model.clone(), lease.clone(), config.engine.batch);
        let engine = Engine::new(store.clone(), model, executor.clone(), config.engine.clone());
        let mut server = Self {
            grpc_addr,
            http_addr,
            http_url: format!("{}://{http_addr}", config.scheme()),
            store: store.clone(),
            stop,
            stop_waking: CancellationToken::new(),
            loops: JoinSet::new(),
            waking: JoinSet::new(),
            patience: config.engine.drain + Duration::from_secs(20),
        };
        let keyring = Keyring::new(store.clone(), config.may_be_open);
        server.serve(grpc, http, engine, &keyring, &config);
        tracing::info!(grpc = %grpc_addr, http = %http_addr, "listening");
        store.open_when_it_answers().await.context("could not open the database")?;
        server.watch_keys(keyring, &config).await?;
        server.run_loops(lease, executor, prices, &config).await?;
        let counter = Counter::new(store);
        server.spawn("counter", |stop| async move { counter.run(stop).await });
        server.spawn("batches", |stop| async move { batcher.run(stop).await });
        server.spawn("list of models", |stop| async move { lister.keep_catalog(stop).await });
        Ok(server)
    }

    /// Serves both faces until the stop.
    fn serve(
        &mut self,
        grpc: TcpListener,
        http: TcpListener,
        engine: Engine,
        keyring: &Keyring,
        config: &Config,
    ) {
        let (limits, served) = (
            Limits::new(config.limits),
            rpc::routes(engine.clone(), &config.rpc, self.stop.clone()),
        );
        let wire = |port: Port, speaks_http1: bool| Wire {
            lines: config.lines.clone(),
            tls: config.tls.as_ref().map(|tls| tls.acceptor(port)),
            speaks_http1,
        };
        let speaks_http1 = config.rpc.web_origins.is_some();
        let of_grpc = wire(Port::Grpc { speaks_http1 }, speaks_http1);
        let of_http = wire(Port::Http, true);
        let router =
            web::router(engine, &config.web, keyring.clone(), limits.clone(), self.stop.clone());
        let (settings, guards) = (config.rpc.clone(), (keyring.clone(), limits));
        self.spawn("gRPC face", |stop| async move {
            rpc::serve(grpc, served, &settings, guards, of_grpc, stop).await;
        });
        self.spawn("HTTP face", |stop| door::serve(http, router, of_http, stop));
        if let Some(tls) = config.tls.clone() {
            self.spawn("certificates", |stop| async move { tls.run(stop).await });
        }
    }

    /// Reads the keys, and refuses to serve others where nothing guards it.
    async fn watch_keys(&mut self, keyring: Keyring, config: &Config) -> Result<()> {
        let store = self.store.clone();
        let read =
            store.when_it_answers(async || keyring.run_once().await.map(|_changed| ())).await;
        read.context("could not read the keys")?;
        let knows_clients = config.tls.as_ref().is_some_and(Tls::knows_clients);
        if !keyring.lets_anybody_in() && !config.may_be_open && !knows_clients {
            return Err(ConfigError(vec![NO_KEYS.to_owned()]).into());
        }
        if keyring.is_open() {
            tracing::warn!(
                "there is no key, so whoever reaches this server can do everything; `longhaul key create` closes it"
            );
            if let Some(public_url) = config.find_proxied_url() {
                tracing::warn!(
                    public_url,
                    "LONGHAUL_PUBLIC_URL leads others here through a proxy, and there is no key to keep them out"
                );
            }
        } else if !keyring.lets_anybody_in() && !knows_clients {
            tracing::warn!("no key is good, so nobody is let in; `longhaul key create` makes one");
        }
        self.spawn("keys", |stop| async move { keyring.run(stop).await });
        Ok(())
    }

    /// Gives signs of life, takes the lease, and starts what moves jobs and notices.
    async fn run_loops(
        &mut self,
        lease: LeaseKeeper,
        executor: Executor,
        prices: PriceReader,
        config: &Config,
    ) -> Result<()> {
        let store = &self.store;
        let (writer, sender, waker) = (store.clone(), store.clone(), store.clone());
        let stop_writing = self.stop_waking.clone();
        let (stop_sending, stop_listening) = (self.stop_waking.clone(), self.stop_waking.clone());
        self.waking.spawn(async move { writer.write_batches(stop_writing).await });
        self.waking.spawn(async move { sender.notify_others(stop_sending).await });
        self.waking.spawn(async move { waker.listen_to_others(stop_listening).await });
        // From its first job on, its death is to be noticed; where it cannot be, the lease has to do.
        let _ = tokio::time::timeout(Duration::from_secs(1), store.presence().settled()).await;

        // Nothing is asked before it is known what it costs; it may have gone away again.
        let read = store.when_it_answers(async || prices.run_once().await.map(|_count| ())).await;
        read.context("could not read the imported prices")?;
        let registered = store.when_it_answers(|| lease.register()).await;
        registered.context("could not register the executor")?;
        let every = config.engine.sweep;
        let sweeper = Sweeper::new(store.clone(), every, config.notify.book.clone());
        let pruner = Pruner::new(store.clone(), config.engine.retention, every);
        let (watchdog, gauger) = (sweeper.clone(), Gauger::new(store.clone()));
        let notifier = Notifier::new(store.clone(), &config.notify)
            .context("could not set up the channels to people")?;
        let notifier = Arc::new(notifier);
        let listener = Listener::new(Arc::clone(&notifier), &config.notify);
        let endpoints = Endpoints::new(store.clone(), &config.notify)
            .context("could not set up the endpoints")?;
        let (comparer, allowance) = (executor.clone(), executor.allowance().clone());
        let (answers, answer_store) = (executor.answers().clone(), store.clone());
        // Until the executor has drained, its lease is renewed, or others would take what is still in flight,
        // and what was cancelled is let go. However it ends, the others end after it.
        let drained = CancellationToken::new();
        let (renewing, comparing) = (drained.clone(), drained.clone());
        self.spawn("executor", |_| async move {
            let _drained = drained.drop_guard();
            executor.run().await;
        });
        self.spawn("renewal", |_| async move { lease.run(renewing).await });
        self.spawn("comparison", |_| async move { comparer.compare(comparing).await });
        self.spawn("sweeper", |stop| async move { sweeper.run(stop).await });
        self.spawn("pruner", |stop| async move { pruner.run(stop).await });
        self.spawn("prices", |stop| async move { prices.run(stop).await });
        self.spawn("allowance", |stop| async move { allowance.run(stop).await });
        self.spawn("gauges", |stop| async move { gauger.run(stop).await });
        self.spawn("watchdog", |stop| async move { watchdog.watch(stop).await });
        self.spawn("answers", |stop| async move { answers.run(&answer_store, stop).await });
        // What people write may come in through another server, which has no number to answer from.
        self.spawn("listener", |stop| async move { listener.run(stop).await });
        self.spawn("endpoints", |stop| async move { endpoints.run(stop).await });
        self.spawn("notifier", |stop| async move { notifier.run(stop).await });
        Ok(())
    }

    /// A handle that tells the server to stop.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs until told to stop, or until a loop dies, and then drains.
    pub async fn run(mut self) -> Result<()> {
        let died = tokio::select! {
            // Told to stop, every loop ends, and none of them has died.
            biased;
            () = self.stop.cancelled() => None,
            ended = self.loops.join_next() => ended,
            ended = self.waking.join_next() => {
                ended.map(|ended| ended.map(|()| ("waking", Ok(()))))
            }
        };
        self.stop.cancel();
        let mut result = Ok(());
        if let Some(ended) = died {
            result = judge(ended);
            if result.is_ok() {
                result = Err(anyhow::anyhow!("a loop of the server ended by itself"));
            }
        }
        // A loop that hangs on a database that is gone must not hold up the end.
        let ended = tokio::time::timeout(self.patience, async {
            while let Some(ended) = self.loops.join_next().await {
                result = std::mem::replace(&mut result, Ok(())).and(judge(ended));
            }
            self.stop_waking.cancel();
            while self.waking.join_next().await.is_some() {}
        });
        if ended.await.is_err() {
            tracing::warn!("some loops did not end in time");
        }
        // A connection that hangs must not hold up the end.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.store.close()).await;
        result
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &'static str,
        run: impl FnOnce(CancellationToken) -> F,
    ) {
        let run = run(self.stop.clone());
        self.loops.spawn(async move {
            run.await;
            (name, Ok(()))
        });
    }
}

/// Each connection is an open file, of which the system allows few unless it is asked for more.
fn allow_many_files(connections_max: usize) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let allowed = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files could not be raised");
            soft
        }
    };
    // Both faces, and the other ends.
    let needed = connections_max.saturating_mul(2).saturating_add(1000);
    if u64::try_from(needed).is_ok_and(|needed| allowed < needed) {
        tracing::warn!(
            allowed,
            connections_max,
            "more connections may come than files may be open"
        );
    }
}

async fn bind(addr: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("could not listen on {addr}"))
}

fn judge(ended: Result<(&'static str, Result<()>), tokio::task::JoinError>) -> Result<()> {
    match ended {
        Ok((name, ended)) => ended.with_context(|| format!("the {name} failed")),
        Err(error) => bail!("a loop of the server died: {error}"),
    }
}

fn host_name() -> String {
    nix::sys::utsname::uname()
        .map(|name| name.nodename().to_string_lossy().into_owned())
        .unwrap_or_default()
}
