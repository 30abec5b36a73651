//! Secrets: each in a variable or a field, or in a file that one names.

use secrecy::SecretString;

use super::Reader;

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The secret of a variable.
    pub(super) fn secret(&mut self, name: &str) -> Option<SecretString> {
        let file_name = format!("{name}_FILE");
        match (self.find)(&file_name) {
            Some(path) => self.read_secret(&file_name, &path),
            None => self.text(name).map(Into::into),
        }
    }

    /// The secret in a file, which is named by a variable or a field.
    pub(super) fn read_secret(&mut self, named_by: &str, path: &str) -> Option<SecretString> {
        match std::fs::read_to_string(path) {
            // An empty secret would be one that everybody knows.
            Ok(secret) if secret.trim_end().is_empty() => {
                self.mistake(&format!("{named_by} names {path}, which is empty"));
                None
            }
            Ok(secret) => Some(secret.trim_end().to_owned().into()),
            Err(error) => {
                self.mistake(&format!("{named_by} names {path}, which cannot be read: {error}"));
                None
            }
        }
    }
}
