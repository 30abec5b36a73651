//! `longhaul key`: who may call a server that others can reach.
//!
//! In comes the database that `DATABASE_URL` names; keys are an operator's, so no server is asked, and none has to run.
//! A new key goes to stdout, alone on its line and this once, so that `KEY=$(longhaul key create …)` works.
//! Servers take up what is changed here within seconds; nothing here ever shows a key again, or its hash.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Local, SecondsFormat, Utc};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::columns::{Columns, Give};
use super::exit::{CliError, Exit};
use super::format::FormatArgs;
use super::render::{self, Paint};
use crate::config::{self, Source};
use crate::domain::key::{Key, KeyText, Scope, find_name_fault};
use crate::domain::word::Word as _;
use crate::store::Store;
use crate::store::key::{KeyList, NewKey, StoredKey};

/// The longest that a key can be made for: ten years, beyond which it may as well be for ever.
const LIFETIME_MAX: Duration = Duration::from_hours(24 * 3650);

/// Make, list and revoke the keys by which programs are let in
#[derive(Args, Debug)]
pub struct KeyArgs {
    #[command(subcommand)]
    action: Action,
    /// The file of the configuration, which may name the database [env: `LONGHAUL_CONFIG`]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a key and print it, this once
///
/// The first key closes a server that was open to everybody on its machine.
#[derive(Args, Debug)]
struct CreateArgs {
    /// What it is called; the history of a job names whoever shows it as key:NAME
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// What it is good for: submit, control, approve, read, or admin for everything;
    /// may be repeated, or be several with commas between
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', value_parser = scope)]
    scope: Vec<Scope>,
    /// How long it is good for, such as 90d, 12h or 30m; without, until it is revoked
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires_in: Option<Duration>,
    /// How many requests a second it may make of one server, if not as many as the server says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_per_second: Option<u32>,
    /// How many of its requests one server has in hand at once, if not as many as the server says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_max: Option<u32>,
    #[command(flatten)]
    format: FormatArgs,
}

/// List every key there ever was, and never what it is
#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    format: FormatArgs,
}

/// Take a key back; servers let nobody in by it any more within seconds
#[derive(Args, Debug)]
struct RevokeArgs {
    /// Its name or its id
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs the command.
pub async fn run(args: KeyArgs) -> Result<Exit> {
    let source = Source::open(args.config.as_deref());
    let store = Store::new(&config::database(&source)?).context("could not open the database")?;
    let done = act(&store, args.action).await;
    store.close().await;
    done
}

async fn act(store: &Store, action: Action) -> Result<Exit> {
    // Keys may be made before a server has ever run.
    store.open().await.context("could not open the database")?;
    match action {
        Action::Create(args) => create(store, args).await,
        Action::List(args) => list(store, &args).await,
        Action::Revoke(args) => revoke(store, &args).await,
    }
}

async fn create(store: &Store, args: CreateArgs) -> Result<Exit> {
    let text = KeyText::mint(&mut rand::rng());
    let key = Key {
        key_id: text.key_id(),
        name: args.name,
        scopes: args.scope.into_iter().collect(),
        requests_per_second: args.requests_per_second,
        requests_max: args.requests_max,
    };
    let new = NewKey { key, hash: text.hash(), lifetime: args.expires_in };
    if !store.create_key(&new).await.context("could not keep the key")? {
        let name = new.key.name;
        let why = format!("there is a key {name} already; revoke it, or choose another name");
        return Err(CliError::Refused(why).into());
    }
    let list = read(store).await?;
    let made = list.keys.iter().find(|stored| stored.hash == new.hash);
    let made = made.context("the key was kept and is not there")?;
    let mut out = io::stdout().lock();
    let for_machines = || {
        let mut told = in_json(made, list.now);
        told["key"] = json!(text.reveal());
        told
    };
    if args.format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    writeln!(out, "{}", text.reveal())?;
    let until = made
        .expires_at
        .map_or_else(|| "until it is revoked".to_owned(), |at| format!("until {}", local(at)));
    eprintln!(
        "key {} ({}) is good for {} {until}",
        made.key.name,
        made.key.key_id,
        scopes(&made.key),
    );
    eprintln!("keep it now: it is not shown again; servers take it up within seconds");
    if list.keys.len() == 1 {
        eprintln!(
            "it is the first key: servers on this database let nobody in without one from now on"
        );
    }
    Ok(Exit::Ok)
}

async fn list(store: &Store, args: &ListArgs) -> Result<Exit> {
    let list = read(store).await?;
    let mut out = io::stdout().lock();
    let for_machines = || {
        let keys = list.keys.iter().map(|stored| in_json(stored, list.now));
        json!({"keys": keys.collect::<Vec<Value>>()})
    };
    if args.format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    if list.keys.is_empty() {
        writeln!(out, "no keys; a server that only its own machine can reach is open without")?;
        return Ok(Exit::Ok);
    }
    // A pipe gets whole lines.
    let wide = render::terminal_size().map_or(usize::MAX, |(wide, _)| wide);
    for line in lines(&list, wide, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Ok)
}

async fn revoke(store: &Store, args: &RevokeArgs) -> Result<Exit> {
    let revoked = store.revoke_key(&args.key).await.context("could not revoke the key")?;
    let list = read(store).await?;
    let is_it = |stored: &&StoredKey| args.key == stored.key.key_id || args.key == stored.key.name;
    let Some(found) = list.keys.iter().rfind(is_it) else {
        let why = format!("there is no key {}", render::one_line(&args.key));
        return Err(CliError::NotFound(why).into());
    };
    let changed = !revoked.is_empty();
    let mut out = io::stdout().lock();
    let for_machines = || json!({"key": in_json(found, list.now), "changed": changed});
    if args.format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    let (name, key_id) = (&found.key.name, &found.key.key_id);
    if changed {
        writeln!(out, "key {name} ({key_id}) is revoked; it opens nothing within seconds")?;
    } else {
        let at = found.revoked_at.map(local).unwrap_or_default();
        writeln!(out, "key {name} ({key_id}) was revoked already, at {at}")?;
    }
    Ok(Exit::Ok)
}

async fn read(store: &Store) -> Result<KeyList> {
    let list = store.keys(None).await.context("could not read the keys")?;
    list.context("nothing was known before, and yet nothing is told")
}

/// Whether a key opens anything now.
fn state(stored: &StoredKey, now: DateTime<Utc>) -> &'static str {
    match (stored.revoked_at, stored.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        (None, _) => "good",
    }
}

fn in_json(stored: &StoredKey, now: DateTime<Utc>) -> Value {
    let time =
        |at: Option<DateTime<Utc>>| at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    let words: Vec<String> = stored.key.scopes.iter().map(|scope| scope.word()).collect();
    json!({
        "key_id": stored.key.key_id,
        "name": stored.key.name,
        "scopes": words,
        "state": state(stored, now),
        "requests_per_second": stored.key.requests_per_second,
        "requests_max": stored.key.requests_max,
        "created_at": time(Some(stored.created_at)),
        "expires_at": time(stored.expires_at),
        "revoked_at": time(stored.revoked_at),
        "last_used_at": time(stored.last_used_at),
    })
}

fn lines(list: &KeyList, wide: usize, paint: Paint) -> Vec<String> {
    let time = |at: Option<DateTime<Utc>>| at.map_or_else(|| "never".to_owned(), local);
    let rows = list.keys.iter().map(|stored| {
        vec![
            stored.key.key_id.clone(),
            stored.key.name.clone(),
            scopes(&stored.key),
            state(stored, list.now).to_owned(),
            local(stored.created_at),
            time(stored.expires_at),
            time(stored.last_used_at),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let header = ["ID", "NAME", "SCOPES", "STATE", "CREATED", "EXPIRES", "LAST USED"];
    let gives = [
        Give::Shrink("CREATED", 10),
        Give::Shrink("EXPIRES", 16),
        Give::Shrink("LAST USED", 16),
        Give::Drop("CREATED"),
        Give::Shrink("SCOPES", 12),
        Give::Shrink("NAME", 10),
    ];
    let dress = |title: &str, cell: &str| match (title, cell) {
        ("STATE", "good") => paint.green(cell),
        ("STATE", _) => paint.red(cell),
        _ => cell.to_owned(),
    };
    Columns::new(header.to_vec(), rows).lines(wide, &gives, dress, paint)
}

fn scopes(key: &Key) -> String {
    let words: Vec<String> = key.scopes.iter().map(|scope| scope.word()).collect();
    // Those of a newer release are not known here.
    if words.is_empty() { "nothing known here".to_owned() } else { words.join(",") }
}

fn local(at: DateTime<Utc>) -> String {
    at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

fn name(text: &str) -> Result<String, String> {
    find_name_fault(text).map_or_else(|| Ok(text.to_owned()), |fault| Err(fault.to_owned()))
}

fn scope(text: &str) -> Result<Scope, String> {
    let words = || Scope::ALL.map(|scope| scope.word()).join(", ");
    Scope::find_by_word(text.trim()).ok_or_else(|| format!("must be one of {}", words()))
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let told = "must be such as 90d, 12h, 30m or 45s";
    let lifetime = humantime::parse_duration(text.trim()).map_err(|_why| told.to_owned())?;
    if lifetime < Duration::from_secs(1) || lifetime > LIFETIME_MAX {
        return Err("must be from 1s to 3650d".to_owned());
    }
    Ok(lifetime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_read_as_people_write_it_and_has_bounds() {
        for (text, seconds) in [("90d", 7_776_000), ("12h", 43_200), ("1h 30m", 5400), ("45s", 45)]
        {
            assert_eq!(lifetime(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "90", "0s", "10ms", "-1d", "d", "3651d", "soon", "99999999999999999999d"] {
            assert!(lifetime(text).unwrap_err().starts_with("must be"), "{text}");
        }
    }

    #[test]
    fn a_wrong_scope_or_name_is_told_what_is_right() {
        assert_eq!(scope("approve"), Ok(Scope::Approve));
        assert!(scope("write").unwrap_err().contains("submit, control, approve, read, admin"));
        assert_eq!(name("n8n-prod"), Ok("n8n-prod".to_owned()));
        assert!(name("a b").unwrap_err().contains("letters"));
    }

    #[test]
    fn a_list_tells_the_state_of_each_key_and_nothing_of_what_it_is() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let hour = chrono::TimeDelta::hours(1);
        let text = KeyText::mint(&mut rand::rng());
        let stored = |name: &str, expires_at, revoked_at| StoredKey {
            key: Key {
                key_id: text.key_id(),
                name: name.to_owned(),
                scopes: [Scope::Read, Scope::Submit].into_iter().collect(),
                requests_per_second: None,
                requests_max: Some(3),
            },
            hash: text.hash(),
            created_at: now - hour,
            expires_at,
            revoked_at,
            last_used_at: None,
        };
        let keys = vec![
            stored("lasting", None, None),
            stored("fresh", Some(now + hour), None),
            stored("old", Some(now), None),
            stored("gone", None, Some(now)),
        ];
        let list = KeyList { version: 4, now, keys };
        let told = lines(&list, 200, Paint::plain());
        for (line, state) in told[1..].iter().zip(["good", "good", "expired", "revoked"]) {
            assert!(line.contains("submit,read") && line.contains(state), "{line}");
        }
        let json: Vec<Value> = list.keys.iter().map(|stored| in_json(stored, now)).collect();
        let json = json!(json).to_string();
        for secret in [text.reveal(), "hash"] {
            assert!(!told.concat().contains(secret) && !json.contains(secret), "{json}");
        }
    }
}
