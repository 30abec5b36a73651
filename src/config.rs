//! Configuration: what the environment and a file say, read once at start.
//!
//! Each module owns its settings; this file only puts them together.
//! All mistakes are found before any is reported, so that one start tells them all; none of them shows a secret.
//! Every secret may come from a file instead: `NAME_FILE` names it.

mod source;

mod flags;

mod part;

mod client;

mod profile;

mod book;

mod endpoint;

mod import;
mod listen;
mod retention;
mod secret;

mod service;

mod web;

mod whatsapp;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use chrono_tz::Tz;
use http::Uri;

pub use self::client::{ClientSettings, client};
pub use self::flags::{Flags, data_dir, ready_file, sandbox_addr};
pub use self::import::{import_url, webhook_defaults};
pub use self::listen::Listen;
pub use self::part::{database, has_public_url, names_a_database, telemetry};
pub use self::profile::{Profile, Profiles, chosen_profile, name_fault, profiles_file};
pub use self::retention::{days, retention};
use self::source::all_or_mistakes;
pub use self::source::{Source, VARIABLES};
use crate::domain::book::Book;
use crate::domain::language::{SPOKEN, is_spoken};
use crate::domain::money::Usd;
use crate::domain::spec::Defaults;
use crate::domain::submission::ContextMode;
use crate::domain::validate::{Faults, Violation, check_budget, check_model, check_people};
use crate::door::{LimitSettings, LineSettings, REQUESTS_MAX, Tls};
use crate::engine::{BatchSettings, EngineSettings};
use crate::model::ModelSettings;
use crate::notify::NotifySettings;
use crate::rpc::RpcSettings;
use crate::store::StoreSettings;
use crate::web::WebSettings;

/// Everything a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the gRPC face listens.
    pub grpc_addr: SocketAddr,
    /// Where the sidecar listens.
    pub http_addr: SocketAddr,
    /// Whether anybody is let in while there has never been a key.
    pub may_be_open: bool,
    /// TLS on both faces, if it is spoken.
    pub tls: Option<Tls>,
    /// How much is taken of connections.
    pub lines: LineSettings,
    /// How much each caller may ask for.
    pub limits: LimitSettings,
    /// The database.
    pub store: StoreSettings,
    /// The model provider.
    pub model: ModelSettings,
    /// How jobs are run.
    pub engine: EngineSettings,
    /// The channels to people.
    pub notify: NotifySettings,
    /// The gRPC face.
    pub rpc: RpcSettings,
    /// The sidecar.
    pub web: WebSettings,
}

/// What is wrong with the configuration, a line each.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is not valid")?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

impl ConfigError {
    /// All that is wrong in several of them, each told once.
    pub fn of(errors: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Vec::new();
        for mistake in errors.into_iter().flat_map(|error| error.0) {
            if !all.contains(&mistake) {
                all.push(mistake);
            }
        }
        Self(all)
    }
}

impl Config {
    /// Reads everything, flags before all.
    pub fn read(flags: Flags, source: &Source) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(|name: &str| source.find(name));
        let listen = reader.listen(flags);
        let config = reader.config(listen);
        all_or_mistakes(source, config, reader.mistakes)
    }

    /// Reads variables from anywhere.
    pub fn from_variables(
        listen: Listen,
        find: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(find);
        let config = reader.config(listen);
        if reader.mistakes.is_empty() { Ok(config) } else { Err(ConfigError(reader.mistakes)) }
    }
}

impl Config {
    /// Fills in the sidecar's own address where no public one is configured and its port was left to the system.
    pub fn know_http_addr(&mut self, http_addr: SocketAddr) {
        let scheme = self.scheme();
        let own = format!("{scheme}://{}", self.http_addr);
        let urls =
            [&mut self.notify.public_url, &mut self.web.public_url, &mut self.engine.public_url];
        for public_url in urls {
            if *public_url == own {
                *public_url = format!("{scheme}://{http_addr}");
            }
        }
        self.http_addr = http_addr;
    }
}

/// An environment variable; an empty one is the same as none.
#[expect(clippy::disallowed_methods, reason = "this is where configuration enters")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

struct Reader<F> {
    find: F,
    mistakes: Vec<String>,
    /// An address book is named, and there is none.
    has_faulty_book: bool,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn new(find: F) -> Self {
        Self { find, mistakes: Vec::new(), has_faulty_book: false }
    }

    fn config(&mut self, listen: Listen) -> Config {
        let key_header = self.key_header("LONGHAUL_KEY_HEADER");
        let tls = self.tls();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let public_url = self
            .url("LONGHAUL_PUBLIC_URL")
            .unwrap_or_else(|| format!("{scheme}://{}", listen.http_addr));
        let request_timeout = self.request_timeout();
        let whatsapp = self.whatsapp();
        let requests_max = self.number("LONGHAUL_REQUESTS_MAX", REQUESTS_MAX, 1, 100_000);
        let webhook = self.whatsapp_webhook();
        let ((book, endpoints), time_zone) = (self.book(), self.time_zone("LONGHAUL_TIME_ZONE"));
        let mut engine = self.engine(whatsapp.is_some(), webhook.is_some(), &book);
        engine.public_url.clone_from(&public_url);
        Config {
            grpc_addr: listen.grpc_addr,
            http_addr: listen.http_addr,
            may_be_open: listen.may_be_open(tls.as_ref()),
            tls,
            lines: self.lines(request_timeout),
            limits: self.limits(),
            store: self.store(),
            model: self.model(),
            notify: NotifySettings {
                public_url: public_url.clone(),
                language: engine.defaults.language.clone(),
                time_zone,
                book: Arc::clone(&book),
                whatsapp,
                endpoints,
                poll: Duration::from_secs(1),
            },
            engine,
            rpc: RpcSettings {
                request_timeout,
                requests_max,
                message_bytes_max: 4 << 20,
                key_header: key_header.clone(),
                watch_patience: self.watch_patience(),
                web_origins: self.web_origins("LONGHAUL_GRPC_WEB_ORIGINS"),
            },
            web: WebSettings {
                public_url,
                is_on_loopback: listen.http_addr.ip().is_loopback(),
                request_timeout,
                body_bytes_max: self.number("LONGHAUL_BODY_BYTES_MAX", 4 << 20, 1024, 64 << 20),
                requests_max,
                whatsapp: webhook,
                time_zone,
                book,
                key_header,
                webhook_prefix: self.webhook_prefix("LONGHAUL_WEBHOOK_PREFIX"),
                cors_origins: self.origins("LONGHAUL_CORS_ORIGINS"),
                is_lenient: self.switch("LONGHAUL_LENIENT"),
            },
        }
    }

    fn engine(&mut self, can_notify: bool, has_webhook: bool, book: &Arc<Book>) -> EngineSettings {
        let defaults = Defaults {
            model: self.model_id("LONGHAUL_MODEL", "claude-sonnet-5-5"),
            max_tokens: self.number("LONGHAUL_MODEL_MAX_TOKENS", 4096, 1, 128_000),
            notify: self.people("LONGHAUL_NOTIFY", book),
            language: self.language("LONGHAUL_LANGUAGE"),
            context: ContextMode::Conversation,
            book: Arc::clone(book),
        };
        EngineSettings {
            defaults,
            public_url: String::new(),
            can_notify,
            hears_deliveries: can_notify && has_webhook,
            daily_budget_usd: self.budget("LONGHAUL_DAILY_BUDGET_USD"),
            operators: self.people("LONGHAUL_OPERATORS", book),
            slots: self.number("LONGHAUL_SLOTS", 64, 1, 10_000),
            lease: Duration::from_secs(self.number("LONGHAUL_LEASE_SECONDS", 30, 1, 3600)),
            drain: Duration::from_secs(self.number("LONGHAUL_DRAIN_SECONDS", 25, 0, 3600)),
            poll: Duration::from_secs(1),
            retention: self.retention(),
            sweep: Duration::from_millis(self.number("LONGHAUL_SWEEP_MS", 400, 20, 60_000)),
            batch: BatchSettings {
                linger: Duration::from_millis(self.number(
                    "LONGHAUL_BATCH_LINGER_MS",
                    5000,
                    0,
                    3_600_000,
                )),
                poll: Duration::from_millis(self.number(
                    "LONGHAUL_BATCH_POLL_MS",
                    30_000,
                    20,
                    3_600_000,
                )),
            },
        }
    }

    fn people(&mut self, name: &str, book: &Book) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        let people: Vec<String> = text
            .split(',')
            .map(str::trim)
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect();
        if self.has_faulty_book {
            // Whom it would have named cannot be known, and is no mistake of this one.
            return people;
        }
        self.check(|faults| check_people(name, &people, book, faults));
        people.iter().map(|person| book.known_as(person).to_owned()).collect()
    }

    fn time_zone(&mut self, name: &str) -> Tz {
        let Some(text) = self.text(name) else { return Tz::UTC };
        text.parse().unwrap_or_else(|_| {
            self.mistake(&format!("{name} must be a time zone such as `America/Sao_Paulo`"));
            Tz::UTC
        })
    }

    fn budget(&mut self, name: &str) -> Option<Usd> {
        let text = self.text(name)?;
        let budget = text.parse();
        match budget {
            Ok(budget) => self.check(|faults| check_budget(name, Some(budget), faults)),
            Err(_) => self.mistake(&format!("{name} must be a plain decimal number, is {text:?}")),
        }
        budget.ok()
    }

    fn model_id(&mut self, name: &str, default: &str) -> String {
        let model = self.text(name);
        self.check(|faults| check_model(name, model.as_deref(), faults));
        model.unwrap_or_else(|| default.to_owned())
    }

    fn language(&mut self, name: &str) -> Option<String> {
        let language = self.text(name);
        if language.as_deref().is_some_and(|language| !is_spoken(language)) {
            self.mistake(&format!("{name} must be one of {}", SPOKEN.join(", ")));
        }
        language
    }

    /// Holds a default to the rule that the same field of a submission is held to.
    fn check(&mut self, check: impl FnOnce(&mut Faults)) {
        let mut faults = Faults::default();
        check(&mut faults);
        for Violation { field, message } in faults.into_result().err().unwrap_or_default() {
            self.mistake(&format!("{field} {message}"));
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        (self.find)(name)
    }

    fn url(&mut self, name: &str) -> Option<String> {
        let url = self.text(name)?;
        // Braces and what is not ASCII would be written in another way by browsers.
        let is_plain = url.is_ascii() && !url.contains(['{', '}', '?', '#']);
        let is_web = url.parse::<Uri>().is_ok_and(|url| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some()
        });
        if !is_web || !is_plain {
            // It may hold a password, so it is not repeated.
            self.mistake(&format!("{name} must be a plain http or https address without query"));
        }
        Some(url.trim_end_matches('/').to_owned())
    }

    fn number<N: FromStr + PartialOrd + Copy + fmt::Display>(
        &mut self,
        name: &str,
        default: N,
        least: N,
        most: N,
    ) -> N {
        let Some(text) = self.text(name) else { return default };
        match text.parse() {
            Ok(number) if number >= least && number <= most => number,
            Ok(_) | Err(_) => {
                self.mistake(&format!(
                    "{name} must be a number from {least} to {most}, is {text:?}"
                ));
                default
            }
        }
    }

    fn mistake(&mut self, text: &str) {
        self.mistakes.push(text.to_owned());
    }
}

#[cfg(test)]
mod tests;
