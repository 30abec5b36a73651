//! `longhaul prices`: what is in force, and the import of somebody's list.
//!
//! In comes the database that `DATABASE_URL` names; prices are an operator's, so no server is asked.
//! Out goes a table, or one JSON object; what a list does not tell exactly is told and left out, never guessed.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use chrono::NaiveDate;
use clap::{Args, Subcommand};
use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::{
    exit::{CliError, Exit},
    format::FormatArgs,
    render::{self, Paint, thousands},
};
use crate::config::{self, Source};
use crate::domain::money::{Price, Rates, Usd};
use crate::engine::price::priced;
use crate::model::{Change, ListedPrice, PriceFile, Prices};
use crate::store::Store;
use crate::store::price::{ImportedPrice, NewPrice};

/// Whose prices those are that came with the program.
const SHIPPED: &str = "longhaul";

/// Show the prices of models, or import somebody's list
#[derive(Args, Debug)]
pub struct PricesArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(ListArgs),
    Import(ImportArgs),
}

/// Show the prices in force, in US dollars for a million tokens
#[derive(Args, Debug)]
struct ListArgs {
    /// Only this model, by its exact id
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Import a list: `LiteLLM`'s `model_prices_and_context_window.json`, or genai-prices' `data.json`
///
/// Which of them it is, is told by its form. A price without a day holds from today on.
/// A model that the list does not price exactly is told and left out.
/// What is imported goes before the prices that ship with Longhaul; servers take it up within a minute.
#[derive(Args, Debug)]
struct ImportArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs the command.
pub async fn run(args: PricesArgs) -> Result<Exit> {
    let store = Store::new(&config::database(&Source::open(None))?)
        .context("could not open the database")?;
    let done = match args.action {
        Action::List(args) => show(&store, args).await,
        Action::Import(args) => import(&store, args).await,
    };
    store.close().await;
    done
}

/// What is in force on a day.
struct InForce {
    on: NaiveDate,
    prices: Prices,
    imported: Vec<ImportedPrice>,
}

impl InForce {
    async fn read(store: &Store) -> Result<Self> {
        let hint =
            "could not read the prices; has a server of this release ever used this database?";
        let (on, imported) = (store.today().await.context(hint)?, store.imported_prices().await);
        let imported = imported.context(hint)?;
        for one in imported.iter().filter(|one| one.price.is_none()) {
            eprintln!("warning: the price of {} from {} cannot be read", one.model, one.valid_from);
        }
        let prices = Prices::default_list()?.with_imported(priced(&imported));
        Ok(Self { on, prices, imported })
    }

    /// Whose price of a model this is.
    fn source(&self, model: &str, price: &Price) -> &str {
        let same =
            |one: &&ImportedPrice| one.model == model && Some(one.valid_from) == price.valid_from;
        let mut imported = self.imported.iter().filter(|one| one.price.is_some());
        // A day on which both begin is the imported one's.
        imported.find(same).map_or(SHIPPED, |one| &one.source)
    }
}

async fn show(store: &Store, args: ListArgs) -> Result<Exit> {
    let in_force = InForce::read(store).await?;
    let models = in_force.prices.models();
    let wanted = |model: &&&str| args.model.as_deref().is_none_or(|wanted| wanted == **model);
    let found: Vec<(&str, &Price)> = models
        .iter()
        .filter(wanted)
        .filter_map(|model| Some((*model, in_force.prices.find_price(model, in_force.on)?)))
        .collect();
    let mut out = io::stdout().lock();
    let for_machines = || {
        let prices = found.iter().map(|(model, price)| {
            json!({"model": model, "source": in_force.source(model, price), "price": price})
        });
        let prices: Vec<Value> = prices.collect();
        json!({"on": in_force.on, "prices": prices})
    };
    if args.format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        writeln!(out, "no price is known, so calls have no known cost")?;
        return Ok(Exit::Ok);
    }
    let rows = found.iter().flat_map(|(model, price)| {
        lines_of(model, price, in_force.source(model, price).to_owned())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    for line in render::table(&HEADER, &rows, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Ok)
}

async fn import(store: &Store, args: ImportArgs) -> Result<Exit> {
    let (name, text) = (args.file.display(), std::fs::read_to_string(&args.file));
    let text = text.map_err(|error| CliError::Usage(format!("could not read {name}: {error}")))?;
    let in_force = InForce::read(store).await?;
    let file = PriceFile::read(&text, in_force.on);
    let file = file.map_err(|error| CliError::Usage(format!("{name}: {error}")))?;
    let settled = file.prices.iter().cloned().map(|mut listed| {
        let change = listed.settle(&in_force.prices);
        (listed, change)
    });
    let settled: Vec<(ListedPrice, Change)> = settled.collect();
    let new: Vec<NewPrice> = settled
        .iter()
        .filter(|(_, change)| *change != Change::Same)
        .map(|(listed, _)| NewPrice {
            model: listed.model.clone(),
            valid_from: listed.valid_from,
            price: listed.price,
        })
        .collect();
    if !args.dry_run && !new.is_empty() {
        store.import_prices(file.source, &new).await.context("could not store the prices")?;
    }
    let mut out = io::stdout().lock();
    if args.format.told(&mut out, || import_in_json(&file, &settled, args.dry_run))? {
        return Ok(Exit::Ok);
    }
    if !new.is_empty() {
        let changed = settled.iter().filter(|(_, change)| *change != Change::Same);
        let rows = changed.flat_map(|(listed, change)| {
            lines_of(&listed.model, &listed.price, word(*change).to_owned())
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let header = [&HEADER[..HEADER.len() - 1], &["CHANGE"]].concat();
        for line in render::table(&header, &rows, Paint::for_stdout()) {
            writeln!(out, "{line}")?;
        }
    }
    for left_out in &file.left_out {
        let (model, why) = (render::one_line(&left_out.model), render::one_line(&left_out.why));
        eprintln!("left out: {model}: {why}");
    }
    let (count, same, left_out) = (new.len(), settled.len() - new.len(), file.left_out.len());
    let what = if args.dry_run { "would be imported" } else { "imported" };
    let source = file.source;
    writeln!(out, "{source}: {count} {what}, {same} as they were, {left_out} left out")?;
    Ok(Exit::Ok)
}

fn import_in_json(file: &PriceFile, settled: &[(ListedPrice, Change)], dry_run: bool) -> Value {
    let prices = settled.iter().map(|(listed, change)| {
        json!({"model": listed.model, "change": word(*change), "price": listed.price})
    });
    let left_out = file.left_out.iter().map(|one| json!({"model": one.model, "why": one.why}));
    json!({
        "source": file.source,
        "dry_run": dry_run,
        "prices": prices.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn word(change: Change) -> &'static str {
    match change {
        Change::New => "new",
        Change::Changed => "changed",
        Change::Same => "same",
    }
}

const HEADER: [&str; 10] = [
    "MODEL",
    "FROM",
    ">INPUT",
    ">WRITE 5M",
    ">WRITE 1H",
    ">READ",
    ">OUTPUT",
    ">US",
    ">SEARCH",
    "SOURCE",
];

/// The lines of one price: the normal rates, and below them those of fast calls and long prompts.
fn lines_of(model: &str, price: &Price, last: String) -> Vec<Vec<String>> {
    let from = price.valid_from.map_or_else(|| "always".to_owned(), |day| day.to_string());
    let us = price.us_factor.map_or_else(unknown, |factor| format!("×{}", factor.normalize()));
    let search = price.web_search.as_ref().map_or_else(unknown, Usd::to_string);
    let mut lines = vec![line(render::one_line(model), from, &price.rates, [us, search, last])];
    let blank = || [String::new(), String::new(), String::new()];
    if let Some(fast) = &price.fast {
        lines.push(line("  fast".to_owned(), String::new(), fast, blank()));
    }
    if let Some(long) = &price.long_prompt {
        let name = format!("  over {} tokens", thousands(long.above_tokens));
        lines.push(line(name, String::new(), &long.rates, blank()));
    }
    lines
}

fn line(name: String, from: String, rates: &Rates, last: [String; 3]) -> Vec<String> {
    let rates =
        [rates.input, rates.cache_write_5m, rates.cache_write_1h, rates.cache_read, rates.output];
    let rates = rates.map(|rate: Decimal| rate.normalize().to_string());
    [name, from].into_iter().chain(rates).chain(last).collect()
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_a_line_for_each_way_of_being_served() {
        let prices = Prices::default_list().expect("the list that ships is right");
        let on = "2026-11-30".parse().expect("a day");
        let of = |model| {
            let price = prices.find_price(model, on).expect("it has a price");
            lines_of(model, price, SHIPPED.to_owned())
        };
        let rows = [of("claude-haiku-5-5"), of("claude-opus-5-5")].concat();
        assert_eq!(
            render::table(&HEADER, &rows, Paint::plain()),
            [
                "MODEL                  FROM        INPUT  WRITE 5M  WRITE 1H  READ  OUTPUT    US  SEARCH  SOURCE",
                "claude-haiku-5-5       2026-10-07    0.1     0.125       0.2  0.01     0.5  ×1.1    0.01  longhaul",
                "  over 100,000 tokens                0.5     0.625         1  0.05     2.5",
                "claude-opus-5-5        always          4         5         8   0.2      20  ×1.1    0.01  longhaul",
                "  fast                                 8        10        16   0.4      40",
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_told_as_such() {
        let prices = Prices::default_list().expect("the list that ships is right");
        let on = "2026-11-30".parse().expect("a day");
        let price = *prices.find_price("claude-opus-4-7", on).expect("it has a price");
        let price = Price { us_factor: None, web_search: None, ..price };
        let told = lines_of("m", &price, SHIPPED.to_owned());
        assert_eq!(told[0][7..9], ["unknown", "unknown"]);
    }
}
