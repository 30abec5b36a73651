//! What a command needs to be let in by a server: a key, whom to trust, and a certificate of its own.
//!
//! In comes the environment over a profile, never a flag, since those can be read by everybody on the machine; the file
//! with trusted authorities is no secret and may be one. Every mistake is told at once.

use std::path::{Path, PathBuf};

use secrecy::{SecretSlice, SecretString};

use super::profile::Profile;
use super::source::{Source, all_or_mistakes};
use super::{ConfigError, Reader};

pub(super) const API_KEY: &str = "LONGHAUL_API_KEY";
pub(super) const API_KEY_FILE: &str = "LONGHAUL_API_KEY_FILE";
pub(super) const CA: &str = "LONGHAUL_CA_FILE";
pub(super) const CERT: &str = "LONGHAUL_CLIENT_CERT_FILE";
pub(super) const KEY: &str = "LONGHAUL_CLIENT_KEY_FILE";

/// How a command shows who it is.
#[derive(Debug, Default)]
pub struct ClientSettings {
    /// The API key.
    pub api_key: Option<SecretString>,
    /// The authorities that are trusted in place of the system's, as PEM.
    pub authorities: Option<Vec<u8>>,
    /// Its own certificate with its key, both as PEM.
    pub identity: Option<(Vec<u8>, SecretSlice<u8>)>,
}

/// What a flag, the environment and below them a profile say about calling a server.
pub fn client(
    ca_file: Option<&Path>,
    profile: Option<&Profile>,
) -> Result<ClientSettings, ConfigError> {
    let mut given = profile.map(Profile::variables).unwrap_or_default();
    // What goes together comes from one place.
    for pair in [[API_KEY, API_KEY_FILE], [CERT, KEY]] {
        if pair.iter().any(|name| super::variable(name).is_some()) {
            given.retain(|(name, _)| !pair.contains(name));
        }
    }
    let source = Source::environment().with(&given);
    let mut reader = Reader::new(|name: &str| source.find(name));
    let settings = reader.client(ca_file);
    let mut mistakes = reader.mistakes;
    if let Some(profile) = profile {
        for mistake in &mut mistakes {
            let name = mistake.split(' ').next().unwrap_or_default().to_owned();
            if ca_file.is_none() || name != CA {
                let is_its_own = given.iter().any(|(own, _)| *own == name);
                if is_its_own && super::variable(&name).is_none() {
                    *mistake = mistake.replacen(&name, &profile.place(&name), 1);
                }
            }
        }
    }
    all_or_mistakes(&source, settings, mistakes)
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn client(&mut self, ca_file: Option<&Path>) -> ClientSettings {
        let api_key = self.secret(API_KEY);
        let ca_file = ca_file.map(Path::to_path_buf).or_else(|| self.text(CA).map(PathBuf::from));
        let authorities = ca_file.and_then(|path| self.read_pem(CA, &path));
        let files = [CERT, KEY].map(|name| self.text(name).map(PathBuf::from));
        let identity = match files {
            [Some(cert), Some(key)] => {
                let (cert, key) = (self.read_pem(CERT, &cert), self.read_pem(KEY, &key));
                cert.zip(key).map(|(cert, key)| (cert, key.into()))
            }
            [None, None] => None,
            [Some(_), None] | [None, Some(_)] => {
                self.mistake(&format!("{CERT} and {KEY} go together: set both or none"));
                None
            }
        };
        ClientSettings { api_key, authorities, identity }
    }

    fn read_pem(&mut self, name: &str, path: &Path) -> Option<Vec<u8>> {
        let shown = path.display();
        match std::fs::read(path) {
            Ok(pem) if pem.windows(11).any(|at| at == b"-----BEGIN ") => Some(pem),
            Ok(_) => {
                self.mistake(&format!("{name} names {shown}, which is no PEM"));
                None
            }
            Err(error) => {
                self.mistake(&format!("{name} names {shown}, which cannot be read: {error}"));
                None
            }
        }
    }
}
