//! Profiles: servers and keys under names, below flags and the environment, and never shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use longhaul::domain::key::Scope;
use serde_json::Value;

use crate::harness::{Node, Rig, job, wait};
use crate::key::{Said, by, command, make};
use crate::program::Folder;

/// A closed server with a job, whoever may read it, and a home for a file of profiles.
struct Closed {
    rig: Rig,
    node: Node,
    key: String,
    home: Folder,
}

impl Closed {
    async fn open() -> Self {
        let rig = Rig::without_server(&[]).await;
        let key = make(&rig, "reader", &[Scope::Read, Scope::Submit], None).await;
        let node = rig.serve().await;
        let there = by(&key, job("there", [wait(3600)]));
        node.client.grpc.clone().submit_job(there).await.unwrap();
        Self { rig, node, key, home: Folder::make() }
    }

    fn file(&self) -> PathBuf {
        self.home.0.join("longhaul/config.toml")
    }

    /// Writes the file of profiles, which only its user can read.
    fn profiles(&self, text: &str) {
        fs::create_dir_all(self.home.0.join("longhaul")).unwrap();
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    async fn run(&self, args: &[&str], variables: &[(&str, &str)]) -> Said {
        let home = ("XDG_CONFIG_HOME", self.home.0.to_str().unwrap());
        let said = command(&self.rig, args, &[&[home], variables].concat()).await;
        let told = format!("{}{}", said.out, said.err);
        assert!(!told.contains(&self.key), "a key is shown: {said:?}");
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_says_what_no_flag_and_no_variable_does() {
    let closed = Closed::open().await;
    let server = closed.node.client.grpc_url();
    fs::create_dir_all(closed.home.0.join("longhaul")).unwrap();
    fs::write(closed.home.0.join("longhaul/reader.key"), format!("{}\n", closed.key)).unwrap();
    closed.profiles(&format!(
        "default_profile = \"here\"\n[profiles.here]\nserver = \"{server}\"\napi_key_file = \"reader.key\"\n\
         [profiles.away]\nserver = \"http://127.0.0.1:1\"\n[profiles.nobody]\nserver = \"{server}\"\n"
    ));
    let none = |args: &[&'static str]| args.to_vec();
    let wrong = ("LONGHAUL_API_KEY", "lh_wrong");
    let away = ("LONGHAUL_SERVER", "http://127.0.0.1:1");
    for (args, variables, code) in [
        (none(&["list"]), vec![], 0),
        (none(&["list", "--profile", "here"]), vec![], 0),
        (none(&["list"]), vec![("LONGHAUL_PROFILE", "away")], 69),
        (none(&["list", "--profile", "here"]), vec![("LONGHAUL_PROFILE", "away")], 0),
        (none(&["list", "--profile", "nobody"]), vec![], 77),
        // The environment goes before the profile, and a flag before both.
        (none(&["list"]), vec![wrong], 77),
        // A profile is for its own server, which is not to be called by mistake, nor another one with its key.
        (none(&["list", "--profile", "here"]), vec![away], 2),
        (vec!["list", "--profile", "away", "--server", &server], vec![], 2),
        (vec!["list", "--server", &server], vec![("LONGHAUL_PROFILE", "away")], 2),
        (vec!["list", "--profile", "here", "--server", &server], vec![away], 0),
        // The default profile is for its own server alone.
        (vec!["list", "--server", &server], vec![], 0),
        (none(&["list"]), vec![("LONGHAUL_PROFILE", "")], 0),
    ] {
        let said = closed.run(&args, &variables).await;
        assert_eq!(said.code, code, "{args:?} {variables:?}: {said:?}");
    }
    let other = server.replace("127.0.0.1", "localhost");
    let said = closed.run(&["list", "--server", &other], &[]).await;
    assert_eq!(said.code, 77, "another server is not shown the key: {said:?}");
    let said = closed.run(&["list", "--profile", "her"], &[]).await;
    assert!(said.code == 78 && said.err.contains("did you mean here?"), "{said:?}");
    let said = closed.run(&["list", "--profiles", "/nowhere.toml"], &[]).await;
    assert!(said.code == 78 && said.err.contains("/nowhere.toml cannot be read"), "{said:?}");
    fs::remove_file(closed.home.0.join("longhaul/reader.key")).unwrap();
    let said = closed.run(&["list"], &[]).await;
    let told = "api_key_file of profile here in";
    assert!(said.code == 78 && said.err.contains(told), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_a_file_that_others_can_read_is_warned_of_and_mistakes_are_told_at_once() {
    let closed = Closed::open().await;
    let server = closed.node.client.grpc_url();
    closed
        .profiles(&format!("[profiles.a]\nserver = \"{server}\"\napi_key = \"{}\"\n", closed.key));
    let list = ["list", "--profile", "a"];
    let said = closed.run(&list, &[]).await;
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    fs::set_permissions(closed.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let said = closed.run(&list, &[]).await;
    assert!(said.code == 0 && said.err.starts_with("warning: others can read"), "{said:?}");
    for action in [
        &["profile", "list"][..],
        &["profile", "show", "a"],
        &["profile", "show", "a", "-o", "yaml"],
    ] {
        let said = closed.run(action, &[]).await;
        assert!(said.code == 0 && said.out.contains(&server), "{said:?}");
    }
    closed.profiles(&format!("default_profile = 1\n[profiles.a]\napi_kee = \"{}\"\n", closed.key));
    for action in [&list[..], &["profile", "list"]] {
        let said = closed.run(action, &[]).await;
        assert_eq!(said.code, 78, "{said:?}");
        for told in [
            "line 1: default_profile must be",
            "line 3: there is no field api_kee; did you mean api_key?",
        ] {
            assert!(said.err.contains(told), "{said:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_made_chosen_and_taken_out_and_all_else_stays() {
    let closed = Closed::open().await;
    let run = async |args: &[&str]| {
        let said = closed.run(args, &[]).await;
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    };
    assert!(run(&["profile", "list"]).await.starts_with("no profiles"));
    let prod = "https://jobs.example.com:50051";
    run(&["profile", "set", "prod", "--server", prod, "--api-key-file", "/run/prod.key"]).await;
    let mode = fs::metadata(closed.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(closed.file()).unwrap();
    closed.profiles(&format!("{text}\n# mine\n[profiles.other]\nserver = \"other:1\"\n"));
    run(&["profile", "set", "local", "--server", "127.0.0.1:50051"]).await;
    run(&["profile", "use", "prod"]).await;
    let listed: Value =
        serde_json::from_str(&run(&["profile", "list", "-o", "json"]).await).unwrap();
    assert_eq!(listed["default_profile"], "prod");
    assert_eq!(listed["profiles"][2]["api_key_file"], "/run/prod.key");
    let shown = run(&["profile", "show"]).await;
    assert!(shown.contains(prod) && shown.contains("/run/prod.key"), "{shown}");
    run(&["profile", "set", "prod", "--api-key-file", ""]).await;
    assert!(!run(&["profile", "show", "prod"]).await.contains("prod.key"));
    run(&["profile", "remove", "prod"]).await;
    let text = fs::read_to_string(closed.file()).unwrap();
    assert!(
        text.contains("# mine\n[profiles.other]") && text.contains("[profiles.local]"),
        "{text}"
    );
    assert!(!text.contains("prod") && !text.contains("default_profile"), "{text}");
    for (args, code) in [
        (&["profile", "use", "prod"][..], 5),
        (&["profile", "show"], 5),
        (&["profile", "set", "a b"], 2),
        (&["profile", "set", "x", "--server", "ftp://x"], 78),
        (&["profile", "set", "x", "--client-cert-file", "c"], 78),
    ] {
        let said = closed.run(args, &[]).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}");
    }
    assert_eq!(fs::read_to_string(closed.file()).unwrap(), text, "a mistake is not written");
}
