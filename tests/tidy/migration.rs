//! The rule for migrations: they work with the binary of the release before, which runs beside the new one for a while.
//!
//! In: the migrations that the release before does not know, which are those above its fixture's. Out: faults.
//! What that binary reads must stay, under its name and type, and what it writes must be taken.
//! A statement that looks otherwise and is safe all the same carries `-- beside the release before: why`.

use std::fs;
use std::path::Path;

use super::source::Fault;

const EXCUSE: &str = "-- beside the release before:";

/// A statement with the line it begins on.
struct Statement {
    line: usize,
    text: String,
    /// Its words and commas in lower case, without comments, strings and bodies of functions.
    words: Vec<String>,
}

pub fn harms(path: &str, text: &str) -> Vec<Fault> {
    let statements = statements(text);
    // What is new in the migration is unknown to the release before.
    let is_new = |table: &str| {
        statements.iter().any(|one| {
            let at = one.words.iter().position(|word| word == "table");
            one.words[0] == "create"
                && at.is_some_and(|at| one.words[at..].iter().any(|word| word == table))
        })
    };
    let judge = |one: &Statement| {
        let excused = one
            .text
            .lines()
            .any(|line| line.trim().strip_prefix(EXCUSE).is_some_and(|why| !why.trim().is_empty()));
        let harm = find_harm(&one.words, is_new).filter(|_| !excused)?;
        Some(format!("{path}:{}: it {harm} that the release before needs", one.line))
    };
    statements.iter().filter_map(judge).collect()
}

fn find_harm(words: &[String], is_new: impl Fn(&str) -> bool) -> Option<&'static str> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["create", "or", "replace", ..] => Some("replaces something"),
        ["create", "unique", "index", rest @ ..] => {
            let on = rest.iter().position(|word| *word == "on")?;
            let table = rest[on + 1..].iter().find(|word| **word != "only")?;
            (!is_new(table)).then_some("refuses rows")
        }
        ["create" | "comment" | "insert" | "set" | "select", ..] => None,
        ["alter", "table", table, ..] if is_new(table) => None,
        ["alter", "table", _, rest @ ..] => {
            rest.split(|word| *word == ",").find_map(find_harm_to_a_table)
        }
        ["drop" | "truncate" | "delete", ..] => Some("takes something away"),
        _ => Some("changes something"),
    }
}

/// Judges one part of an `alter table`.
fn find_harm_to_a_table(part: &[&str]) -> Option<&'static str> {
    let has = |run: &[&str]| part.windows(run.len()).any(|window| window == run);
    match part {
        ["add", "constraint" | "check" | "unique" | "primary" | "foreign" | "exclude", ..] => {
            Some("refuses rows")
        }
        ["add", ..] if has(&["not", "null"]) && !has(&["default"]) => Some("demands a value"),
        ["add", ..] if has(&["check"]) || has(&["unique"]) || has(&["references"]) => {
            Some("refuses rows")
        }
        ["add" | "set" | "validate", ..] => None,
        ["alter", ..] if has(&["drop", "not", "null"]) || has(&["set", "default"]) => None,
        _ => Some("changes something"),
    }
}

/// The statements of a migration, as far as its quotes and comments let them be told apart.
fn statements(text: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    let (mut begun, mut code) = (0, String::new());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let next = rest.chars().next().map_or(1, char::len_utf8);
        let (length, kept) = if rest.starts_with("--") {
            (rest.find('\n').unwrap_or(rest.len()), "")
        } else if let Some(tag) = dollar_tag(rest) {
            let end = rest[tag.len()..].find(tag).map_or(rest.len(), |end| end + 2 * tag.len());
            (end, " ")
        } else if let Some(quoted) = rest.strip_prefix('\'') {
            (quoted.find('\'').map_or(rest.len(), |end| end + 2), " ")
        } else {
            (next, &rest[..next])
        };
        at += length;
        if kept != ";" {
            code.push_str(kept);
            continue;
        }
        statements.extend(statement(text, begun, at, &code));
        (begun, code) = (at, String::new());
    }
    statements.extend(statement(text, begun, text.len(), &code));
    statements
}

fn statement(text: &str, from: usize, to: usize, code: &str) -> Option<Statement> {
    let code = code.to_lowercase().replace(',', " , ");
    let is_edge = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | ','));
    let words: Vec<String> =
        code.split(is_edge).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let line = text[..from].matches('\n').count() + 1;
    let text = text[from..to].to_owned();
    let blank = text.lines().take_while(|line| line.trim().is_empty()).count();
    (!words.is_empty()).then_some(Statement { line: line + blank, text, words })
}

/// `$$` or `$body$` at the beginning of a text.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text.strip_prefix('$')?.find('$')? + 2;
    text[1..end - 1].chars().all(|c| c.is_alphanumeric() || c == '_').then_some(&text[..end])
}

#[test]
fn a_migration_works_with_the_release_before() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let number = |name: &str| name.trim_start_matches("migration_").get(..4)?.parse::<u32>().ok();
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).expect("the folder is there");
        let names = entries.map(|entry| entry.expect("it is readable").file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    // A fixture is a database of a release, named for its last migration.
    let known = names("tests/it/fixture").iter().filter_map(|name| number(name)).max();
    let known = known.expect("the release before has left a fixture");
    let newer = names("migrations").into_iter().filter(|name| number(name) > Some(known));
    let faults: Vec<Fault> = newer
        .flat_map(|name| {
            let path = format!("migrations/{name}");
            let text = fs::read_to_string(root.join(&path)).expect("a migration is UTF-8");
            harms(&path, &text)
        })
        .collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Where two numbers do not follow each other.
fn find_gap(mut numbers: Vec<u32>) -> Option<(u32, u32)> {
    numbers.push(0);
    numbers.sort_unstable();
    numbers.windows(2).map(|two| (two[0], two[1])).find(|(one, next)| one + 1 != *next)
}

#[test]
fn the_numbers_of_migrations_follow_each_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("it is readable").file_name());
    let number = |name: &str| name.get(..4).and_then(|four| four.parse().ok());
    let numbers =
        names.map(|name| number(&name.to_string_lossy()).expect("it begins with four digits"));
    assert_eq!(find_gap(numbers.collect()), None, "one is missing or is there twice");
    assert_eq!(find_gap(vec![3, 1]), Some((1, 3)));
    assert_eq!(find_gap(vec![1, 2, 2]), Some((2, 2)));
}

#[test]
fn see_a_migration_that_the_release_before_cannot_bear() {
    let harms = |text: &str| harms("a.sql", text);
    for harmful in [
        "drop table longhaul.event;",
        "truncate longhaul.event;",
        "delete from longhaul.event;",
        "update longhaul.job set reason = 'x';",
        "create or replace function longhaul.now() returns timestamptz as $$ select 1; $$;",
        "create unique index a on longhaul.job (job_id);",
        "alter type a rename to b;",
        "alter table longhaul.job drop column reason;",
        "alter table longhaul.job rename column reason to why;",
        "alter table longhaul.job rename to task;",
        "alter table longhaul.job alter column votes type bigint;",
        "alter table longhaul.job alter votes set data type bigint;",
        "alter table longhaul.job alter column reason set not null;",
        "alter table longhaul.job add column why text not null;",
        "alter table longhaul.job add why text, add how text not null check (how <> 'default');",
        "alter table longhaul.job add why text default '' check (why <> 'x');",
        "alter table longhaul.job add constraint positive check (votes > 0);",
        "do $$ begin drop table longhaul.event; end $$;",
    ] {
        let text = format!("-- What for; in words.\n\n{harmful}");
        let faults = harms(&text);
        assert_eq!(faults.len(), 1, "{harmful}: {faults:?}");
        assert!(faults[0].starts_with("a.sql:1: "), "{faults:?}");
        let excused = format!("-- beside the release before: it never reads this\n{harmful}");
        assert!(harms(&excused).is_empty(), "{harmful}");
        assert_eq!(harms(&format!("-- beside the release before:\n{harmful}")).len(), 1);
    }
    for harmless in [
        "-- drop it; not\nalter table longhaul.job add column why text, add how text not null default 'x';",
        "comment on column longhaul.job.why is 'Why; drop it, rename it, it''s text.';",
        "create table longhaul.a (b text not null unique); create unique index c on longhaul.a (b);",
        "create table if not exists longhaul.a (b text); alter table longhaul.a add c text not null;",
        "create index a on longhaul.job (votes) where status = 'drop';",
        "create function longhaul.a() returns text language sql as $x$ drop table b; $x$;",
        "alter table longhaul.job alter why drop not null; alter table longhaul.job set (fillfactor = 80);",
        "insert into longhaul.setting values ('a; drop', 'b');",
    ] {
        assert!(harms(harmless).is_empty(), "{harmless}: {:?}", harms(harmless));
    }
    assert_eq!(harms("select 1;\n\n-- why\ndrop table a;")[0].split(':').nth(1), Some("3"));
}
