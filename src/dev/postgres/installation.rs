//! Where the machine keeps the server programs of Postgres.
//!
//! In: nothing but PATH and the usual places of each system, and the major version that an existing
//! cluster needs. Out: one folder with `initdb` and `postgres` in it, and its major version.
//! A cluster is only ever opened by the major version that made it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest major version that is worth starting.
pub const OLDEST_MAJOR: u32 = 14;

/// Folders of server programs outside PATH; a `*` stands for one name, most often a version.
const USUAL_PLACES: [&str; 8] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/usr/local/pgsql/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

/// What to type on each system to get the server programs.
pub const HOW_TO_INSTALL: &str = "\
  Debian, Ubuntu:  sudo apt-get install postgresql
  Fedora, RHEL:    sudo dnf install postgresql-server
  Arch:            sudo pacman -S postgresql
  Alpine:          sudo apk add postgresql
  macOS:           brew install postgresql
  elsewhere:       put the folder of initdb and postgres on PATH
or set DATABASE_URL to a server that is already running";

/// One set of server programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The folder of `initdb` and `postgres`.
    pub bin: PathBuf,
    /// The major version, such as 17.
    pub major: u32,
}

impl Installation {
    /// The installation in a folder; `None` if a program is missing or does not tell its version.
    fn find_in(bin: &Path) -> Option<Self> {
        if !bin.join("initdb").is_file() || !bin.join("postgres").is_file() {
            return None;
        }
        let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
        let major = parse_major(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { bin: bin.to_path_buf(), major })
    }
}

/// All installations of this machine: those on PATH in its order, then the others, newest first.
pub fn find_all() -> Vec<Installation> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = env::split_paths(&path).filter(|bin| bin.is_absolute()).collect();
    let mut elsewhere: Vec<Installation> = USUAL_PLACES
        .iter()
        .flat_map(|place| expand(place))
        .filter(|bin| !on_path.contains(bin))
        .filter_map(|bin| Installation::find_in(&bin))
        .collect();
    elsewhere.sort_by_key(|found| std::cmp::Reverse(found.major));
    on_path.iter().filter_map(|bin| Installation::find_in(bin)).chain(elsewhere).collect()
}

/// The major version that made a cluster; `None` if there is no cluster.
pub fn find_major_of(cluster: &Path) -> io::Result<Option<u32>> {
    match fs::read_to_string(cluster.join("PG_VERSION")) {
        Ok(text) => text
            .trim()
            .parse()
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads `postgres (PostgreSQL) 17.2 (Debian 17.2-1)`, and `18beta1` or `18devel` too.
fn parse_major(text: &str) -> Option<u32> {
    let version =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

/// The folders that a pattern with at most one `*` in one of its names stands for.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let rest = after.trim_start_matches('/');
    let Ok(entries) = fs::read_dir(format!("{parent}/")) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| if rest.is_empty() { entry.path() } else { entry.path().join(rest) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_every_spelling() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(parse_major("postgres (PostgreSQL) 19devel\n"), Some(19));
        assert_eq!(parse_major("command not found"), None);
    }

    #[test]
    fn a_folder_without_the_programs_is_no_installation() {
        assert_eq!(Installation::find_in(Path::new("/")), None);
    }

    #[test]
    fn a_pattern_expands_to_what_is_there() {
        let there = expand("/de*/null");
        assert_eq!(there, [PathBuf::from("/dev/null")]);
        assert!(expand("/no-such-folder/*/bin").is_empty());
        assert_eq!(expand("/usr/local/pgsql/bin"), [PathBuf::from("/usr/local/pgsql/bin")]);
    }
}
