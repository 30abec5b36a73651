//! Parts of the configuration that are wanted alone: telemetry, which starts before everything else, and the database,
//! which commands use that need no server.
//!
//! In goes a source, out comes the part, or every mistake in it.

use super::source::{Source, all_or_mistakes};
use super::{ConfigError, Reader};
use crate::store::StoreSettings;
use crate::telemetry::{LogFormat, TelemetrySettings};

/// What is said about telemetry, which starts before everything else.
pub fn telemetry(source: &Source) -> Result<TelemetrySettings, ConfigError> {
    let mut reader = Reader::new(|name: &str| source.find(name));
    let format = match reader.text("LONGHAUL_LOG_FORMAT").as_deref() {
        None | Some("text") => LogFormat::Text,
        Some("json") => LogFormat::Json,
        Some(_) => {
            reader.mistake("LONGHAUL_LOG_FORMAT must be `text` or `json`");
            LogFormat::Text
        }
    };
    let settings = TelemetrySettings::read(format, |name| source.find(name));
    if !settings.has_good_filter() {
        reader.mistake("RUST_LOG must be of the form `info,sqlx=warn`");
    }
    all_or_mistakes(source, settings, reader.mistakes)
}

/// What is said about the database alone.
pub fn database(source: &Source) -> Result<StoreSettings, ConfigError> {
    let mut reader = Reader::new(|name: &str| source.find(name));
    let store = reader.store();
    all_or_mistakes(source, store, reader.mistakes)
}

/// Whether a database is named.
pub fn names_a_database(source: &Source) -> bool {
    ["LONGHAUL_DATABASE_URL", "LONGHAUL_DATABASE_URL_FILE", "DATABASE_URL", "DATABASE_URL_FILE"]
        .iter()
        .any(|name| source.find(name).is_some())
}

/// Whether it is said where links lead.
pub fn has_public_url(source: &Source) -> bool {
    source.find("LONGHAUL_PUBLIC_URL").is_some()
}
