//! `longhaul profile`: servers under names, so that neither addresses nor keys are typed.
//!
//! In comes the user's file of profiles; out go what it says, never a key, or the file with one thing changed and all
//! else as it was. What would leave the file with a mistake is not written.

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, Table, value};

use super::{
    client::DEFAULT_SERVER,
    columns::{Columns, Give},
    exit::{CliError, Exit},
    format::FormatArgs,
    render::{self, Paint, one_line, pad},
};
use crate::config::{self, ConfigError, Profile, Profiles};

/// Show, choose and change the profiles: servers and their keys under names
#[derive(Args, Debug)]
pub struct ProfileArgs {
    #[command(subcommand)]
    action: Action,
    /// The file of the profiles; longhaul/config.toml in your folder of configuration where nothing else says it
    #[arg(long, env = "LONGHAUL_CLI_CONFIG", value_name = "FILE", global = true)]
    profiles: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the profiles; the default one has a star
    List(ListArgs),
    /// Show what a profile says, and never a key
    Show(ShowArgs),
    /// Make a profile the default one
    Use(UseArgs),
    /// Make a profile, or change one; what is set to nothing is taken out
    Set(SetArgs),
    /// Take a profile out of the file
    Remove(RemoveArgs),
}

#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// Its name; without, the one that commands use here
    name: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Args, Debug)]
struct UseArgs {
    /// Its name
    name: String,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// Its name
    name: String,
}

#[derive(Args, Debug)]
struct SetArgs {
    /// Its name
    #[arg(value_parser = name)]
    name: String,
    /// The server's gRPC address
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The file with the key; no flag takes the key itself, since others on the machine could read that
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<String>,
    /// The file with the authorities to trust in place of the system's, as PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// The file with the certificate to show, as PEM
    #[arg(long, value_name = "FILE")]
    client_cert_file: Option<String>,
    /// The file with that certificate's key, as PEM
    #[arg(long, value_name = "FILE")]
    client_key_file: Option<String>,
}

fn name(text: &str) -> Result<String, String> {
    config::name_fault(text).map_or_else(|| Ok(text.to_owned()), |why| Err(why.to_owned()))
}

/// Runs the command.
pub fn run(args: ProfileArgs) -> Result<Exit> {
    let Some((path, is_named)) = config::profiles_file(args.profiles.as_deref()) else {
        let why = "neither HOME nor XDG_CONFIG_HOME is set; name the file with --profiles";
        return Err(CliError::Usage(why.to_owned()).into());
    };
    let read = || Profiles::read(&path, is_named);
    match args.action {
        Action::List(args) => list(&read()?, args.format),
        Action::Show(args) => show(&read()?, args),
        Action::Use(args) => {
            there(&read()?, &args.name)?;
            change(&path, |file| file["default_profile"] = value(&args.name))?;
            tell(&format!("commands use the profile {} from now on", args.name))
        }
        Action::Set(args) => {
            change(&path, |file| set(file, &args))?;
            tell(&format!("profile {} is in {}", args.name, path.display()))
        }
        Action::Remove(args) => {
            let profiles = read()?;
            there(&profiles, &args.name)?;
            change(&path, |file| {
                if let Some(all) = file["profiles"].as_table_like_mut() {
                    all.remove(&args.name);
                }
                if profiles.default_profile.as_ref() == Some(&args.name) {
                    file.remove("default_profile");
                }
            })?;
            tell(&format!("profile {} is gone", args.name))
        }
    }
}

fn tell(what: &str) -> Result<Exit> {
    writeln!(io::stdout(), "{what}")?;
    Ok(Exit::Ok)
}

fn there<'p>(profiles: &'p Profiles, name: &str) -> Result<&'p Profile, CliError> {
    profiles.profile(name).map_err(|ConfigError(why)| CliError::NotFound(one_line(&why.join(" "))))
}

fn list(profiles: &Profiles, format: FormatArgs) -> Result<Exit> {
    let mut out = io::stdout().lock();
    let for_machines = || {
        let all: Vec<Value> = profiles.all.values().map(|one| in_json(one, profiles)).collect();
        json!({"profiles": all, "default_profile": profiles.default_profile, "file": profiles.path})
    };
    if format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    if profiles.all.is_empty() {
        writeln!(out, "no profiles; make one with `longhaul profile set NAME --server URL`")?;
        return Ok(Exit::Ok);
    }
    let rows = profiles.all.values().map(|one| {
        let star = if is_default(one, profiles) { "*" } else { "" };
        vec![star.to_owned(), one.name.clone(), server(one).to_owned(), key(one)]
    });
    let wide = render::terminal_size().map_or(usize::MAX, |(wide, _)| wide);
    let gives = [Give::Shrink("KEY", 12), Give::Shrink("SERVER", 20)];
    let as_is = |_: &str, cell: &str| cell.to_owned();
    let columns = Columns::new(vec!["", "NAME", "SERVER", "KEY"], rows.collect());
    for line in columns.lines(wide, &gives, as_is, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Ok)
}

fn show(profiles: &Profiles, args: ShowArgs) -> Result<Exit> {
    let chosen = args.name.or_else(config::chosen_profile).or(profiles.default_profile.clone());
    let Some(name) = chosen else {
        let why =
            "no profile is chosen: name one, or make one the default with `longhaul profile use`";
        return Err(CliError::NotFound(why.to_owned()).into());
    };
    let profile = there(profiles, &name)?;
    let mut out = io::stdout().lock();
    if args.format.told(&mut out, || in_json(profile, profiles))? {
        return Ok(Exit::Ok);
    }
    let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let facts = [
        ("name", Some(profile.name.clone())),
        ("server", Some(server(profile).to_owned())),
        ("key", Some(key(profile))),
        ("trusts", file(&profile.ca_file)),
        ("shows", file(&profile.client_cert_file)),
        ("with key", file(&profile.client_key_file)),
        ("default", Some(if is_default(profile, profiles) { "yes" } else { "no" }.to_owned())),
        ("in", Some(profiles.path.display().to_string())),
    ];
    let paint = Paint::for_stdout();
    for (what, fact) in facts {
        if let Some(fact) = fact {
            writeln!(out, "{}{}", paint.dim(&pad(what, 10)), one_line(&fact))?;
        }
    }
    Ok(Exit::Ok)
}

fn is_default(profile: &Profile, profiles: &Profiles) -> bool {
    profiles.default_profile.as_ref() == Some(&profile.name)
}

fn server(profile: &Profile) -> &str {
    profile.server.as_deref().unwrap_or(DEFAULT_SERVER)
}

/// Where its key is, and never the key.
fn key(profile: &Profile) -> String {
    match (&profile.api_key_file, &profile.api_key) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(_)) => "in this file".to_owned(),
        (None, None) => "none".to_owned(),
    }
}

fn in_json(profile: &Profile, profiles: &Profiles) -> Value {
    json!({
        "name": profile.name,
        "server": server(profile),
        "has_api_key": profile.api_key.is_some() || profile.api_key_file.is_some(),
        "api_key_file": profile.api_key_file,
        "ca_file": profile.ca_file,
        "client_cert_file": profile.client_cert_file,
        "client_key_file": profile.client_key_file,
        "is_default": is_default(profile, profiles),
    })
}

fn set(file: &mut DocumentMut, args: &SetArgs) {
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let all = file.entry("profiles").or_insert(Item::Table(implicit));
    let Some(all) = all.as_table_like_mut() else { return };
    let profile = all.entry(&args.name).or_insert(Item::Table(Table::new()));
    let Some(profile) = profile.as_table_like_mut() else { return };
    let fields = [
        ("server", &args.server),
        ("api_key_file", &args.api_key_file),
        ("ca_file", &args.ca_file),
        ("client_cert_file", &args.client_cert_file),
        ("client_key_file", &args.client_key_file),
    ];
    for (field, said) in fields {
        match said.as_deref() {
            None => {}
            Some("") => {
                profile.remove(field);
            }
            Some(said) => {
                let said = if field == "server" { said.to_owned() } else { absolute(said) };
                profile.insert(field, value(said));
            }
        }
    }
    // A key in a file of its own takes the place of one that stands here.
    if args.api_key_file.as_ref().is_some_and(|file| !file.is_empty()) {
        profile.remove("api_key");
    }
}

/// A path as it is seen from here; in the file it would be seen from the file.
fn absolute(path: &str) -> String {
    if path.starts_with("~/") {
        return path.to_owned();
    }
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Changes the file, or makes it; nobody ever sees half of it, and only the user can read it.
fn change(path: &Path, act: impl FnOnce(&mut DocumentMut)) -> Result<()> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("reading {}", path.display()))?,
    };
    let Ok(mut file) = text.parse::<DocumentMut>() else {
        // The reader tells it without quoting what may be a key.
        return Err(Profiles::parse(path, &text).map_or_else(Into::into, |_| {
            CliError::Refused(format!("{} cannot be changed", path.display())).into()
        }));
    };
    act(&mut file);
    let text = file.to_string();
    Profiles::parse(path, &text)?;
    write(path, &text).with_context(|| format!("writing {}", path.display()))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // A link stays one, and what it leads to is changed.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let beside = folder.join(format!(".config.toml.{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let written = written.and_then(|()| std::fs::rename(&beside, &path));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}
