//! The rules of the house, checked by reading the sources: no database, no build, under a second.
//!
//! In: every Rust file under src and tests. Out: a failing test per rule, with file, line and rule.
//! Each check is a function from one source to its faults, tried below on small bad sources,
//! so that none of them passes because it sees nothing.

#[path = "tidy/migration.rs"]
mod migration;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/sql.rs"]
mod sql;

use std::collections::BTreeMap;

use source::{Fault, Source, Token};
use syn::{spanned::Spanned as _, visit::Visit};

/// A module names only what stands to its left.
const ORDER: [&str; 14] = [
    "domain",
    "telemetry",
    "store",
    "model",
    "engine",
    "notify",
    "door",
    "rpc",
    "web",
    "dev",
    "config",
    "server",
    "cli",
    "main",
];

/// Pairs that do not name each other although the order would allow one of them to.
const APART: [(&str, &str, &str); 3] = [
    ("model", "store", "who thinks does not know where it is kept"),
    ("notify", "engine", "they meet only in the outbox table"),
    ("web", "rpc", "what two doors share stands left of both"),
];

/// Where a crate may be named, apart from unit tests; a home is the beginning of a path.
const HOMES: [(&str, &[&str]); 7] = [
    ("sqlx", &["src/store/", "src/dev/postgres"]),
    (
        "tonic prost tonic_prost tonic_health tonic_reflection tonic_types prost_types",
        &["src/rpc/", "src/cli/"],
    ),
    ("axum", &["src/web/", "src/dev/sandbox"]),
    ("reqwest", &["src/model/", "src/notify/", "src/dev/", "src/cli/"]),
    (
        "opentelemetry opentelemetry_sdk opentelemetry_otlp tracing_opentelemetry",
        &["src/telemetry"],
    ),
    ("ratatui crossterm", &["src/cli/top/"]),
    ("anyhow", &["src/main.rs", "src/cli", "src/config", "src/server", "src/dev/"]),
];

const LINES_OF_A_FILE: usize = 400;
const LINES_OF_A_FUNCTION: usize = 70;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 10] = [
    "util", "utils", "common", "helper", "helpers", "misc", "type", "types", "manager", "managers",
];

fn layering(source: &Source) -> Vec<Fault> {
    let from = source.module();
    // The crate's root is the table of contents of all modules.
    if from == "lib" {
        return Vec::new();
    }
    let Some(place) = ORDER.iter().position(|module| *module == from) else {
        return vec![source.fault(1, &format!("the module {from} has no place in the order"))];
    };
    let judge = |(line, to): (usize, String)| {
        let apart = APART.iter().find(|(a, b, _)| (from, to.as_str()) == (*a, *b));
        if let Some((_, _, why)) = apart {
            return Some(source.fault(line, &format!("{from} names {to}: {why}")));
        }
        let known = ORDER.iter().position(|module| *module == to)?;
        (known > place).then(|| source.fault(line, &format!("{from} names {to}, on its right")))
    };
    modules_named(source).into_iter().filter_map(judge).collect()
}

/// The modules of the crate's root that a source names, through `crate`, the crate's name or `super`.
fn modules_named(source: &Source) -> Vec<(usize, String)> {
    let tokens = &source.tokens;
    let mut named = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let continues = at >= 3 && tokens[at - 1].text == ":" && tokens[at - 3].text == "super";
        let mut next = at;
        match token.text.as_str() {
            "crate" | "longhaul" => next += 1,
            "super" if !continues => {
                let mut supers = 0;
                while tokens.get(next).is_some_and(|token| token.text == "super") {
                    supers += 1;
                    next += 3;
                }
                if supers != source.depth() + token.depth {
                    continue;
                }
                next -= 2;
            }
            _ => continue,
        }
        if is_path_separator(tokens, next) {
            named.extend(first_names(&tokens[next + 2..]));
        }
    }
    named
}

fn is_path_separator(tokens: &[Token], at: usize) -> bool {
    let colon = |at: usize| tokens.get(at).is_some_and(|token| token.text == ":");
    colon(at) && colon(at + 1)
}

/// `a` of `a::b`, and `a` and `c` of `{a::b, c::{d, e}}`.
fn first_names(tokens: &[Token]) -> Vec<(usize, String)> {
    let Some(first) = tokens.first() else { return Vec::new() };
    if first.text != "{" {
        return vec![(first.line, first.text.clone())];
    }
    let (mut names, mut depth) = (Vec::new(), 0);
    for pair in tokens.windows(2) {
        match pair[0].text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(pair[0].text.as_str(), "{" | ",") {
            names.push((pair[1].line, pair[1].text.clone()));
        }
    }
    names
}

fn homes(source: &Source) -> Vec<Fault> {
    let tokens = &source.tokens;
    let mut faults = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let home =
            HOMES.iter().find(|(crates, _)| crates.split(' ').any(|name| name == token.text));
        let Some((_, places)) = home else { continue };
        let imported = at > 0 && tokens[at - 1].text == "use";
        let inside = at > 0 && tokens[at - 1].text == ":";
        if !inside
            && !token.test
            && (imported || is_path_separator(tokens, at + 1))
            && !places.iter().any(|place| source.path.starts_with(place))
        {
            let rule = format!("{} lives in {}", token.text, places.join(", "));
            faults.push(source.fault(token.line, &rule));
        }
    }
    faults
}

fn lengths(source: &Source) -> Vec<Fault> {
    struct Functions<'a>(&'a Source, Vec<Fault>);
    impl Functions<'_> {
        fn judge(&mut self, signature: &syn::Signature, block: &syn::Block) {
            let first = signature.span().start().line;
            let lines = block.span().end().line - first + 1;
            if lines > LINES_OF_A_FUNCTION {
                let name = &signature.ident;
                let rule = format!("{name} has {lines} lines, over {LINES_OF_A_FUNCTION}");
                self.1.push(self.0.fault(first, &rule));
            }
        }
    }
    impl<'ast> Visit<'ast> for Functions<'_> {
        fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
            self.judge(&function.sig, &function.block);
            syn::visit::visit_item_fn(self, function);
        }
        fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
            self.judge(&function.sig, &function.block);
            syn::visit::visit_impl_item_fn(self, function);
        }
    }
    let mut functions = Functions(source, Vec::new());
    functions.visit_file(&syn::parse_file(&source.text).expect("the compiler has read it too"));
    let mut faults = functions.1;
    let lines = source.text.lines().count();
    if lines > LINES_OF_A_FILE {
        faults.push(source.fault(lines, &format!("{lines} lines, over {LINES_OF_A_FILE}")));
    }
    faults
}

fn opening(source: &Source) -> Vec<Fault> {
    if source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![source.fault(1, "a file opens with //! lines that say what it is for")]
}

fn leftovers(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        if line.contains("TODO") || line.contains("FIXME") {
            faults.push(source.fault(index + 1, "finish it, or file an issue"));
        }
    }
    for three in source.tokens.windows(3) {
        let text = [three[0].text.as_str(), three[1].text.as_str(), three[2].text.as_str()];
        if matches!(text, ["todo" | "unimplemented", "!", _]) {
            faults.push(source.fault(three[0].line, &format!("no {}!", text[0])));
        }
        if matches!(text, [".", "unwrap", "("]) && !three[0].test {
            let rule = "expect(\"why this cannot fail\") instead of unwrap()".to_owned();
            faults.push(source.fault(three[1].line, &rule));
        }
    }
    faults
}

fn names(source: &Source) -> Vec<Fault> {
    let empty = source.path.split(['/', '.']).filter(|part| EMPTY_NAMES.contains(part));
    empty.map(|part| source.fault(1, &format!("{part} names nothing"))).collect()
}

fn assert_tidy(folders: &[&str], check: impl Fn(&Source) -> Vec<Fault>) {
    let mut count = 0;
    let faults: Vec<Fault> =
        source::read(folders).inspect(|_| count += 1).flat_map(check).collect();
    assert!(count > 0, "there is nothing to check in {folders:?}");
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn a_module_names_only_what_stands_to_its_left() {
    assert_tidy(&["src"], layering);
}

#[test]
fn a_crate_stays_in_its_home() {
    assert_tidy(&["src"], homes);
}

#[test]
fn files_and_functions_are_short() {
    assert_tidy(&["src", "tests"], lengths);
}

#[test]
fn every_file_says_what_it_is_for() {
    assert_tidy(&["src", "tests"], opening);
}

#[test]
fn nothing_is_left_for_later() {
    assert_tidy(&["src"], leftovers);
}

#[test]
fn every_file_has_a_name_that_says_something() {
    assert_tidy(&["src", "tests"], names);
}

#[test]
fn a_statement_on_a_job_table_names_its_shard_or_says_why_not() {
    assert_tidy(&["src"], sql::shards);
}

#[test]
fn every_statement_has_a_name_of_its_own() {
    let mut seen = BTreeMap::new();
    let faults: Vec<Fault> =
        source::read(&["src"]).flat_map(|source| sql::names(source, &mut seen)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

mod the_checks {
    use super::*;

    /// Each source has one fault, and its line is the number.
    fn sees(check: impl Fn(&Source) -> Vec<Fault>, path: &str, text: &str, line: usize) {
        let faults = check(&Source::new(path, text));
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        assert!(faults[0].starts_with(&format!("{path}:{line}: ")), "{}", faults[0]);
    }

    fn passes(check: impl Fn(&Source) -> Vec<Fault>, path: &str, text: &str) {
        let faults = check(&Source::new(path, text));
        assert!(faults.is_empty(), "{text}: {faults:?}");
    }

    #[test]
    fn see_a_name_on_the_right() {
        sees(layering, "src/store/claim.rs", "\nuse crate::engine::Engine;", 2);
        sees(layering, "src/store/claim.rs", "use crate::{domain::{Id, web},\n rpc::X};", 2);
        sees(layering, "src/store/claim.rs", "fn f() { let x = crate::web::X; }", 1);
        sees(layering, "src/store/claim.rs", "use super::super::web::X;", 1);
        sees(layering, "src/store/mod.rs", "mod inner { use super::super::web::X; }", 1);
        sees(layering, "src/cli/serve.rs", "m! { crate::main::run() }", 1);
        sees(layering, "src/notify/mod.rs", "use crate::engine;", 1);
        sees(layering, "src/model/mod.rs", "use crate::store::Store;", 1);
        sees(layering, "src/web/mod.rs", "use crate::rpc;", 1);
        sees(layering, "src/new_room/mod.rs", "", 1);
        passes(
            layering,
            "src/store/claim.rs",
            "use crate::{domain::Id, store::Store}; use super::x;",
        );
        passes(layering, "src/store/mod.rs", "mod inner { use super::web; }");
        passes(layering, "src/main.rs", "use longhaul::{cli, server::Server};");
    }

    #[test]
    fn see_a_crate_abroad() {
        sees(homes, "src/engine/mod.rs", "use sqlx::PgPool;", 1);
        sees(homes, "src/engine/mod.rs", "#[derive(sqlx::FromRow)]\nstruct Row;", 1);
        sees(homes, "src/domain/id.rs", "\n\nfn f() -> anyhow::Result<()> { g() }", 3);
        sees(homes, "src/web/mod.rs", "use tonic_health as health;", 1);
        sees(homes, "src/rpc/mod.rs", "use axum;", 1);
        passes(homes, "src/model/test.rs", "use axum::Router;");
        passes(homes, "src/store/claim.rs", "use sqlx::PgPool; fn f(x: sqlx::Error) {}");
        passes(homes, "src/engine/mod.rs", "let sqlx = 1; use crate::domain::axum::X;");
    }

    #[test]
    fn see_what_is_long() {
        let body = "    f();\n".repeat(LINES_OF_A_FUNCTION - 1);
        sees(lengths, "src/a.rs", &format!("\nfn long() {{\n{body}}}"), 2);
        sees(lengths, "src/a.rs", &format!("impl A {{\nfn long() {{\n{body}}}\n}}"), 2);
        passes(lengths, "src/a.rs", &format!("fn fits() {{\n{}}}", &body[9..]));
        sees(lengths, "src/a.rs", &"//\n".repeat(LINES_OF_A_FILE + 1), LINES_OF_A_FILE + 1);
    }

    #[test]
    fn see_what_is_missing_or_left_over() {
        sees(opening, "src/a.rs", "use a::b;\n//! late", 1);
        passes(opening, "src/a.rs", "//! What it is for.");
        sees(leftovers, "src/a.rs", &format!("\n// {}: more", "TO".to_owned() + "DO"), 2);
        sees(leftovers, "src/a.rs", "fn f() {\n unimplemented!() }", 2);
        sees(leftovers, "src/a.rs", "fn f() { g()\n.unwrap() }", 2);
        passes(leftovers, "src/a.rs", "#[cfg(test)]\nmod tests { fn f() { g().unwrap() } }");
        passes(leftovers, "src/a/tests.rs", "fn f() { g().unwrap() }");
        sees(leftovers, "src/a.rs", "#[cfg(test)]\nmod tests;\nfn f() { g().unwrap() }", 3);
        sees(names, "src/store/utils.rs", "", 1);
        sees(names, "src/common/mod.rs", "", 1);
        passes(names, "src/store/claim.rs", "");
    }

    #[test]
    fn see_a_statement_without_shard_or_name() {
        let call = |sql: &str| format!("fn f() {{\n sqlx::query!(r#\"{sql}\"#, id) }}");
        let path = "src/store/claim.rs";
        sees(sql::shards, path, &call("-- a\nselect id from job where id = $1 -- no shard"), 2);
        sees(sql::shards, path, &call("with x as (select 1) update longhaul.event e set a = 1"), 2);
        sees(sql::shards, path, &call("-- cross-shard:\n delete from outbox"), 2);
        sees(sql::shards, path, &call("insert into other select a from b\n join decision"), 2);
        passes(sql::shards, path, &call("-- a\nselect id from job j where j.shard = $1"));
        passes(sql::shards, path, &call("-- cross-shard: it counts all\nselect count(*) from job"));
        passes(sql::shards, path, &call("select id from executor for update skip locked"));
        passes(
            sql::shards,
            path,
            "/// Update a job and set it.\nfn f() { log(\"update of job\") }",
        );

        let fresh = |source: &Source| sql::names(source, &mut BTreeMap::new());
        sees(fresh, path, &call("select 1"), 2);
        sees(fresh, path, &call("-- Claim Jobs\nselect 1"), 2);
        sees(fresh, path, &format!("{}{}", call("-- a\nselect 1"), call("-- a\nselect 2")), 4);
        passes(fresh, path, &format!("{}{}", call("-- a\nselect 1"), call("\n  -- b\nselect 2")));
    }
}
