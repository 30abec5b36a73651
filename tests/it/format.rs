//! What commands take and print: files in YAML with fields from flags, lists, and one form for all programs.

use std::fs;

use serde_json::{Value, json};

use crate::command::{Shell, long_wait};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_from_yaml_with_fields_from_the_command_line() {
    let shell = Shell::open().await;
    let path = shell.folder.0.join("launch.yaml");
    fs::write(&path, "job_id: 0042\ntask: no\nsteps:\n  - type: wait\n    duration_seconds: 0\n")
        .unwrap();
    let file = path.to_str().unwrap();
    let said = shell.run(&["submit", file, "--validate-only"]).await;
    assert!(said.code == 0 && said.out.contains("0042 is valid and was not stored"), "{said:?}");
    let sets = ["--set", "task=Launch copy", "--set", "settings.labels.team=growth"];
    let said = shell.run(&[&["submit", file, "--watch"], &sets[..]].concat()).await;
    assert_eq!(said.code, 0, "{said:?}");
    let got = shell.json(&["get", "0042"]).await;
    assert_eq!(got["job"]["task"], "Launch copy");
    assert_eq!(got["job"]["labels"], json!({"team": "growth"}));
    for (set, code, told) in [
        (
            "settings.modle=x",
            7,
            "  --set: settings.modle: unknown field `modle`; did you mean `model`?",
        ),
        (
            "steps[0].wait.duration_seconds=soon",
            7,
            "--set: steps[0].wait.duration_seconds: must be a whole number",
        ),
        // What only the server knows has its place, too.
        ("steps[0].wait.duration_seconds=-1", 7, "  --set: steps[0].wait.duration_seconds: "),
        ("steps[0]", 2, "use PATH=VALUE"),
    ] {
        let said = shell.run(&["submit", file, "--set", set]).await;
        assert_eq!(said.code, code, "{said:?}");
        assert!(said.err.contains(told) && said.out.is_empty(), "{said:?}");
    }
    fs::write(&path, "task: a\nsteps:\n  - type: run\n    prompt: ''\n").unwrap();
    let said = shell.run(&["submit", file]).await;
    let told = format!("  {file}:4:13: steps[0].run.prompt: must not be empty");
    assert!(said.code == 7 && said.err.contains(&told), "{said:?}");
    assert_eq!(shell.run(&["submit", "/nowhere.yaml"]).await.code, 2);
    let both = ["submit", file, "--watch", "--validate-only"];
    assert_eq!(shell.run(&both).await.code, 2);
    shell.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_one_page_or_all_and_knows_how_long_ago_it_was() {
    let shell = Shell::open().await;
    for job_id in ["one", "two", "three"] {
        assert_eq!(shell.run(&["submit", &shell.job(job_id, &long_wait())]).await.code, 0);
    }
    let said = shell.run(&["list", "--limit", "2"]).await;
    assert_eq!(said.out.lines().count(), 3, "{said:?}");
    assert_eq!(said.err, "there are more; see them with --limit or --all\n");
    let said = shell.run(&["list", "--all"]).await;
    assert_eq!((said.out.lines().count(), said.err.as_str()), (4, ""), "{said:?}");
    for (args, count) in [
        (&["list", "--since", "2h"][..], 3),
        (&["list", "--until", "2h"], 0),
        (&["list", "--created-from", "1d", "--created-before", "2999-01-01"], 3),
    ] {
        let listed = shell.json(args).await;
        assert_eq!(listed["jobs"].as_array().unwrap().len(), count, "{args:?}");
    }
    assert_eq!(shell.run(&["list", "--all", "--limit", "2"]).await.code, 2);
    assert_eq!(shell.run(&["list", "--since", "lately"]).await.code, 2);
    shell.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_takes_the_same_forms() {
    let shell = Shell::open().await;
    assert_eq!(shell.run(&["submit", &shell.job("a", &long_wait())]).await.code, 0);
    for command in [
        &["get", "a"][..],
        &["list"],
        &["usage", "--before", "2026-01-01"],
        &["notices"],
        &["pause", "a"],
        &["links", "revoke", "a"],
        &["cancel", "--where", "status=paused", "--dry-run"],
    ] {
        let of = async |form: &[&str]| {
            let said = shell.run(&[command, form].concat()).await;
            assert_eq!((said.code, said.err.as_str()), (0, ""), "{command:?} {form:?}: {said:?}");
            said.out
        };
        // The first may change something, which the others tell alike.
        of(&[]).await;
        let people = of(&[]).await;
        let (json, same) = (of(&["--json"]).await, of(&["-o", "json"]).await);
        assert_eq!(json, same, "{command:?}");
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json.lines().count(), 1);
        let yaml = of(&["--format", "yaml"]).await;
        let first = value.as_object().unwrap().keys().next().unwrap();
        assert!(yaml.starts_with(&format!("{first}:")), "{yaml}");
        assert_eq!(of(&["-o", "table"]).await, people, "{command:?}");
        assert!(!people.starts_with('{'), "{people}");
        assert_eq!(shell.run(&[command, &["-o", "xml"]].concat()).await.code, 2);
    }
    let said = shell.run(&["watch", "a", "-o", "yaml"]).await;
    assert!(said.code == 2 && said.err.contains("-o json"), "{said:?}");
    shell.server.stop().await;
}
