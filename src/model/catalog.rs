//! What the provider says of its models: which there are, and what each of them takes.
//!
//! The list is asked for at start and every hour, and again when a job names a model that is not in it.
//! Until it has come, and where it cannot be had, nothing is refused for it: then the provider says so itself.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Model;
use crate::domain::spec::RunSpec;
use crate::domain::submission::RunMode;
use crate::domain::validate::json::Object;
use crate::domain::word::Word as _;

/// The provider answers a list at once; nobody waits longer for it.
const LONGEST_LIST: Duration = Duration::from_secs(5);
/// How soon it is asked for again where it could not be had, or lacked a model.
const AGAIN: Duration = Duration::from_mins(1);
/// The search of the web that models can filter with code of their own, and the one that every model takes.
const NEWEST_SEARCH: &str = "web_search_20260318";
const PLAIN_SEARCH: &str = "web_search_20250305";

/// The models, by their ids.
#[derive(Default)]
pub(super) struct Catalog {
    models: RwLock<HashMap<String, Arc<Listed>>>,
    asked_at: RwLock<Option<Instant>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Listed {
    id: String,
    max_tokens: Option<i64>,
    #[serde(default)]
    capabilities: Value,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Listed>,
    #[serde(default)]
    has_more: bool,
    last_id: Option<String>,
}

impl Catalog {
    /// The model of this id; an id without its date stands for the one that has it.
    fn find(&self, id: &str) -> Option<Arc<Listed>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let dated = |listed: &&Arc<Listed>| {
            let date = listed.id.strip_prefix(id).and_then(|rest| rest.strip_prefix('-'));
            date.is_some_and(|date| {
                date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        models.get(id).or_else(|| models.values().find(dated)).cloned()
    }

    fn is_empty(&self) -> bool {
        self.models.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn is_fresh(&self) -> bool {
        let asked_at = *self.asked_at.read().unwrap_or_else(PoisonError::into_inner);
        asked_at.is_some_and(|asked_at| asked_at.elapsed() < AGAIN)
    }

    fn replace(&self, models: Vec<Listed>) {
        let models =
            models.into_iter().map(|listed| (listed.id.clone(), Arc::new(listed))).collect();
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = models;
    }
}

impl Listed {
    /// Whether it says that it cannot do this; what it does not speak of, it may be able to do.
    fn refuses(&self, ability: &str) -> bool {
        self.capabilities.pointer(ability).and_then(|said| said.get("supported"))
            == Some(&Value::Bool(false))
    }

    fn can(&self, ability: &str) -> bool {
        self.capabilities.pointer(ability).and_then(|said| said.get("supported"))
            == Some(&Value::Bool(true))
    }
}

impl Model {
    /// Asks for the list from time to time, until told to stop; never, if it is not to be used.
    pub async fn keep_catalog(&self, stop: CancellationToken) {
        let Some(period) = self.inner.list_period else { return stop.cancelled().await };
        loop {
            let pause = if self.list().await { period } else { AGAIN };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// How many models the provider lists on its first page, or why it does not say.
    pub async fn count_listed(&self) -> Result<usize, reqwest::Error> {
        Ok(self.page(None).await?.data.len())
    }

    /// What the model of a run step does not take, by the step's fields.
    pub async fn check(&self, run: &RunSpec) -> Vec<(&'static str, String)> {
        let catalog = &self.inner.catalog;
        if catalog.is_empty() {
            return Vec::new();
        }
        let mut listed = catalog.find(&run.model);
        if listed.is_none() && !catalog.is_fresh() {
            // It may be newer than the list.
            self.list().await;
            listed = catalog.find(&run.model);
        }
        match listed {
            Some(listed) => faults(run, &listed),
            None => vec![(
                "model",
                format!("is {:?}, which the model provider does not have", run.model),
            )],
        }
    }

    /// The tool for searches: as configured, else the newest that the model takes.
    pub(super) fn web_search_tool(&self, model: &str) -> &str {
        match &self.inner.web_search_tool {
            Some(configured) => configured,
            None => match self.inner.catalog.find(model) {
                Some(listed) if listed.can("/server_tools/code_execution") => NEWEST_SEARCH,
                Some(_) | None => PLAIN_SEARCH,
            },
        }
    }

    /// Asks for the list, all pages of it; whether it came.
    async fn list(&self) -> bool {
        let catalog = &self.inner.catalog;
        *catalog.asked_at.write().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let mut models = Vec::new();
        let mut after = None;
        loop {
            match self.page(after.as_deref()).await {
                Ok(Page { data, has_more, last_id }) => {
                    models.extend(data);
                    after = last_id.filter(|_| has_more);
                }
                Err(error) => {
                    let error = &error as &dyn Error;
                    tracing::info!(
                        error,
                        "could not get the list of models; none is refused for it"
                    );
                    return false;
                }
            }
            if after.is_none() {
                catalog.replace(models);
                return true;
            }
        }
    }

    async fn page(&self, after: Option<&str>) -> Result<Page, reqwest::Error> {
        let mut url = self.inner.models_url.clone();
        url.query_pairs_mut().append_pair("limit", "1000");
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after_id", after);
        }
        let page = self.inner.pool.fetch(self.signed(Method::GET, url), LONGEST_LIST).await;
        page.map_err(reqwest::Error::without_url)
    }
}

fn faults(run: &RunSpec, listed: &Listed) -> Vec<(&'static str, String)> {
    let (mut faults, model) = (Vec::new(), &run.model);
    if let Some(most) = listed.max_tokens.filter(|most| *most < i64::from(run.max_tokens)) {
        faults.push(("max_tokens", format!("must be at most {most} for {model}")));
    }
    if let Some(effort) = run.options.effort.map(|effort| effort.word())
        && (listed.refuses("/effort") || listed.refuses(&format!("/effort/{effort}")))
    {
        faults.push(("effort", format!("is {effort}, which {model} does not take")));
    }
    if run.options.output_schema_json.is_some() && listed.refuses("/structured_outputs") {
        faults.push(("output_schema_json", format!("is not taken by {model}")));
    }
    if run.options.mode == RunMode::Batch && listed.refuses("/batch") {
        faults.push(("mode", format!("is batch, which {model} does not take")));
    }
    if run.web_search.is_some() && listed.refuses("/server_tools/web_search") {
        faults.push(("web_search", format!("is not taken by {model}")));
    }
    let extra = run
        .options
        .extra_json
        .as_deref()
        .and_then(|text| serde_json::from_str::<Object>(text).ok());
    for (name, value) in extra.into_iter().flat_map(|extra| extra.0) {
        let thinking: Value = serde_json::from_str(value.get()).unwrap_or_default();
        let kind = thinking["type"].as_str().unwrap_or_default();
        if name == "thinking" && listed.refuses(&format!("/thinking/types/{kind}")) {
            faults.push((
                "extra_json",
                format!("asks for {kind} thinking, which {model} does not take"),
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Catalog {
        let catalog = Catalog::default();
        let listed = json!([
            {"id": "small-1-20260101", "max_tokens": 64, "capabilities": {
                "effort": {"supported": true, "low": {"supported": true}, "max": {"supported": false}},
                "structured_outputs": {"supported": false}, "batch": {"supported": false}, "server_tools": {"web_search": {"supported": false}},
                "thinking": {"types": {"disabled": {"supported": false}}}}},
            {"id": "unsaid-2", "something_new": true},
        ]);
        catalog.replace(serde_json::from_value(listed).unwrap());
        catalog
    }

    fn run(model: &str, options: &Value) -> RunSpec {
        let mut run = json!({"prompt": "p", "system": null, "model": model, "max_tokens": 64, "web_search": null,
            "context": "none", "timeout_seconds": 1, "idle_timeout_seconds": 1});
        run.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        serde_json::from_value(run).unwrap()
    }

    fn refused(model: &str, options: &Value) -> Vec<&'static str> {
        let listed = catalog().find(model).expect("it is listed");
        faults(&run(model, options), &listed).into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn an_id_without_its_date_stands_for_the_one_that_has_it() {
        assert!(catalog().find("small-1").is_some());
        for other in ["small", "small-1-2026", "unsaid", "Unsaid-2", ""] {
            assert!(catalog().find(other).is_none(), "{other}");
        }
    }

    #[test]
    fn only_what_a_model_says_it_cannot_do_is_refused() {
        assert_eq!(refused("small-1", &json!({"effort": "low"})), [""; 0]);
        assert_eq!(refused("small-1", &json!({"effort": "high"})), [""; 0]);
        let all = json!({"max_tokens": 65, "mode": "batch", "effort": "max", "output_schema_json": "{}",
            "extra_json": r#"{"thinking":{"type":"disabled"}}"#,
            "web_search": {"max_uses": 1, "allowed_domains": [], "blocked_domains": []}});
        let each =
            ["max_tokens", "effort", "output_schema_json", "mode", "web_search", "extra_json"];
        assert_eq!(refused("small-1", &all), each);
        assert_eq!(refused("unsaid-2", &all), [""; 0]);
    }
}
