//! Prices: lists of others are imported from the shell, go before what ships, and are in force on every server.

use std::collections::BTreeMap;
use std::fs;

use chrono::NaiveDate;
use longhaul::domain::money::{ServiceTier, Usage};
use longhaul::engine::price::PriceReader;
use longhaul::model::{Model, ModelSettings};
use longhaul::rpc::proto::{JobSettings, JobStatus};
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};

use crate::harness::{PATIENCE, Rig, job, run, with};
use crate::program::{Folder, Program};

const LITELLM: &str = include_str!("fixture/litellm.json");
const GENAI: &str = include_str!("fixture/genai_prices.json");

/// A shell of an operator, who has the database and a file.
struct Shell {
    variables: BTreeMap<String, String>,
    folder: Folder,
}

impl Shell {
    fn on(rig: &Rig) -> Self {
        let variables = BTreeMap::from([("DATABASE_URL".to_owned(), rig.db.url.clone())]);
        Self { variables, folder: Folder::make() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The exit code of `longhaul prices`, and what it said on stdout and stderr.
    async fn prices(&self, args: &[&str]) -> (i32, String, String) {
        let output = Program::run(&[&["prices"], args].concat(), &self.variables, PATIENCE).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    async fn json(&self, args: &[&str]) -> Value {
        let (code, said, errors) = self.prices(&[args, &["--json"]].concat()).await;
        assert_eq!(code, 0, "{args:?}: {errors}");
        serde_json::from_str(&said).unwrap()
    }

    /// Models with what an import does to them.
    async fn changes(&self, args: &[&str]) -> Vec<(String, String)> {
        let told = self.json(args).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let prices = told["prices"].as_array().unwrap().iter();
        prices.map(|one| (text(&one["model"]), text(&one["change"]))).collect()
    }
}

fn changes(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(model, change)| ((*model).to_owned(), (*change).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_shown_first_stored_once_and_then_in_force() {
    let rig = Rig::without_server(&[]).await;
    let shell = Shell::on(&rig);
    let file = shell.file("litellm.json", LITELLM);
    let of_sonnet = ["list", "--model", "claude-sonnet-5-5"];
    let before = shell.json(&of_sonnet).await;
    assert_eq!(before["prices"][0]["source"], "longhaul");
    assert_eq!(before["prices"][0]["price"]["rates"]["input"], "2");

    let all_new =
        [("claude-haiku-6", "new"), ("claude-opus-5-5", "same"), ("claude-sonnet-5-5", "changed")];
    assert_eq!(shell.changes(&["import", &file, "--dry-run"]).await, changes(&all_new));
    assert_eq!(rig.db.number("select count(*) from longhaul.price").await, 0);
    let (code, said, errors) = shell.prices(&["import", &file]).await;
    assert_eq!(code, 0, "{errors}");
    assert!(said.ends_with("litellm: 2 imported, 1 as they were, 4 left out\n"), "{said}");
    let left_out = "left out: claude-without-reads: cache_read_input_token_cost is missing";
    assert!(errors.contains(left_out), "{errors}");
    let all_same = all_new.map(|(model, _)| (model, "same"));
    assert_eq!(shell.changes(&["import", &file]).await, changes(&all_same));
    assert_eq!(rig.db.number("select count(*) from longhaul.price").await, 2);

    let after = shell.json(&of_sonnet).await;
    let (on, now) = (&after["on"], &after["prices"][0]);
    assert_eq!((&now["source"], &now["price"]["valid_from"]), (&json!("litellm"), on));
    assert_eq!(now["price"]["rates"]["cache_read"], "0.15");
    assert_eq!(after["prices"].as_array().unwrap().len(), 1);
    let (_, said, _) = shell.prices(&["list"]).await;
    let line = |model: &str| said.lines().find(|line| line.starts_with(model)).unwrap().to_owned();
    assert!(line("claude-haiku-6 ").contains("unknown  unknown  litellm"), "{said}");
    assert!(line("claude-opus-5-5 ").ends_with("longhaul"), "{said}");
    assert!(said.contains("  over 200,000 tokens"), "{said}");

    // A later list replaces what an earlier one said of the same day, and nothing else.
    let file = shell.file("data.json", GENAI);
    shell.prices(&["import", &file]).await;
    let sources = "select count(*) from longhaul.price where source = 'genai-prices'";
    assert_eq!(rig.db.number(sources).await, 5);
    assert_eq!(rig.db.number("select count(*) from longhaul.price").await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_prices_its_calls_by_what_was_imported() {
    let rig = Rig::without_server(&[]).await;
    let shell = Shell::on(&rig);
    shell.prices(&["import", &shell.file("litellm.json", LITELLM)]).await;
    let server = rig.serve().await;
    for (model, input, output) in [("claude-sonnet-5-5", 3, 15), ("claude-opus-5-5", 4, 20)] {
        let settings = JobSettings { model: model.to_owned(), ..JobSettings::default() };
        server.client.submit(with(settings, job(model, [run("Write a line.")]))).await;
        let done = server.client.settled_as(model, JobStatus::Completed).await;
        let usage = done.usage.unwrap();
        let millionths = usage.input_tokens * input + usage.output_tokens * output;
        let cost = rust_decimal::Decimal::new(millionths, 6).normalize().to_string();
        assert_eq!((done.cost_usd, usage.cache_read_tokens), (cost, 0));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_is_in_force_after_one_look_and_the_second_round_finds_nothing() {
    let rig = Rig::without_server(&[]).await;
    let shell = Shell::on(&rig);
    let database_url = rig.db.url.clone().into();
    let settings = StoreSettings { database_url, direct_url: None, connections_max: 4 };
    let store = Store::connect(&settings).await.unwrap();
    let model = Model::new(ModelSettings::default()).unwrap();
    let reader = PriceReader::new(store.clone(), model.clone());
    let cost = |id: &str, on: NaiveDate| {
        let usage = Usage { input_tokens: 1_000_000, ..Usage::default() };
        model.find_cost(id, &usage, ServiceTier::default(), on).map(|cost| cost.to_string())
    };
    let today = store.today().await.unwrap();
    assert_eq!(reader.run_once().await.unwrap(), 0);
    assert_eq!(cost("claude-sonnet-5-5", today).as_deref(), Some("2"));
    shell.prices(&["import", &shell.file("litellm.json", LITELLM)]).await;
    assert_eq!(reader.run_once().await.unwrap(), 2);
    assert_eq!(reader.run_once().await.unwrap(), 0);
    assert_eq!(cost("claude-sonnet-5-5", today).as_deref(), Some("3"));
    assert_eq!(cost("claude-sonnet-5-5", today.pred_opt().unwrap()).as_deref(), Some("2"));

    // A row that cannot be read counts as if it were not there, and the others stay.
    let spoil = "update longhaul.price set price = '{}' where model = 'claude-sonnet-5-5'";
    sqlx::query(spoil).execute(&rig.db.pool).await.unwrap();
    assert_eq!(reader.run_once().await.unwrap(), 0);
    assert_eq!(cost("claude-sonnet-5-5", today).as_deref(), Some("2"));
    assert_eq!(cost("claude-haiku-6", today).as_deref(), Some("0.5"));
    let (code, _, errors) = shell.prices(&["list"]).await;
    assert!(code == 0 && errors.contains("the price of claude-sonnet-5-5 from"), "{errors}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_list_or_no_database_is_refused() {
    let rig = Rig::without_server(&[]).await;
    let mut shell = Shell::on(&rig);
    let other = shell.file("other.json", r#"{"models": 7}"#);
    let (code, said, errors) = shell.prices(&["import", &other]).await;
    assert_eq!((code, said.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("neither LiteLLM's price list nor genai-prices'"), "{errors}");
    assert_eq!(shell.prices(&["import", "/nowhere/at-all.json"]).await.0, 2);
    shell.variables.clear();
    let (code, _, errors) = shell.prices(&["list"]).await;
    assert!(code == 78 && errors.contains("DATABASE_URL must name a Postgres"), "{errors}");
}
