//! What an import needs of the configuration: where the other system's table is, and the defaults that a submit would
//! get from a server that is configured so.

use secrecy::SecretString;

use super::source::all_or_mistakes;
use super::{ConfigError, Reader, Source};
use crate::domain::spec::Defaults;
use crate::domain::submission::ContextMode;

/// Where the table is, if that is configured.
pub fn import_url(source: &Source) -> Result<Option<SecretString>, ConfigError> {
    let mut reader = Reader::new(|name: &str| source.find(name));
    let url = reader.secret("LONGHAUL_IMPORT_URL");
    all_or_mistakes(source, url, reader.mistakes)
}

/// What a job from the webhook gets where it says nothing.
pub fn webhook_defaults(source: &Source) -> Result<Defaults, ConfigError> {
    let mut reader = Reader::new(|name: &str| source.find(name));
    let (book, _endpoints) = reader.book();
    let defaults = reader.engine(false, false, &book).defaults;
    let defaults = Defaults { context: ContextMode::None, ..defaults };
    all_or_mistakes(source, defaults, reader.mistakes)
}
