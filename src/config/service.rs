//! The services that a server stands on: its database and the model provider.
//!
//! In come variables, out go the settings of `store` and `model`; an address may hold a password, so none is repeated.

use std::time::Duration;

use super::Reader;
use crate::model::ModelSettings;
use crate::store::StoreSettings;

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    pub(super) fn store(&mut self) -> StoreSettings {
        let url = self.secret("LONGHAUL_DATABASE_URL").or_else(|| self.secret("DATABASE_URL"));
        let store = StoreSettings {
            database_url: url.unwrap_or_default(),
            direct_url: self.secret("LONGHAUL_DATABASE_DIRECT_URL"),
            connections_max: self.number("LONGHAUL_DATABASE_CONNECTIONS", 20, 4, 1000),
        };
        for (name, url) in [
            ("DATABASE_URL", Some(&store.database_url)),
            ("LONGHAUL_DATABASE_DIRECT_URL", store.direct_url.as_ref()),
        ] {
            if url.is_some_and(|url| !StoreSettings::names_a_postgres(url)) {
                self.mistake(&format!(
                    "{name} must name a Postgres, such as postgres://user@host/database"
                ));
            }
        }
        store
    }

    pub(super) fn model(&mut self) -> ModelSettings {
        let default = ModelSettings::default();
        ModelSettings {
            base_url: self.url("LONGHAUL_MODEL_BASE_URL").unwrap_or(default.base_url),
            api_key: self.secret("LONGHAUL_MODEL_API_KEY"),
            version: self.text("LONGHAUL_MODEL_API_VERSION").unwrap_or(default.version),
            web_search_tool: self.text("LONGHAUL_MODEL_WEB_SEARCH_TOOL"),
            list_period: Some(self.number("LONGHAUL_MODEL_LIST_SECONDS", 3600, 0, 86_400))
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            connect_timeout: default.connect_timeout,
            streams: self.number("LONGHAUL_MODEL_STREAMS", default.streams, 1, 1000),
            concurrency: self.number("LONGHAUL_MODEL_CONCURRENCY", 0, 0, 10_000),
        }
    }
}
