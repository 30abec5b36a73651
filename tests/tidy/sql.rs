//! The rules for SQL: every statement has a name of its own, and knows its shard.
//!
//! In: the string literals of a source that are SQL, wherever they stand. Out: faults.
//! A statement on a job table names its shard, so that it runs on one node of a distributed Postgres,
//! or carries `-- cross-shard: why`.

use std::collections::BTreeMap;

use super::source::{Fault, Source};

/// The tables that are distributed by shard.
const JOB_TABLES: [&str; 10] = [
    "job",
    "job_spec",
    "checkpoint",
    "event",
    "model_call",
    "approval",
    "decision",
    "approval_link",
    "outbox",
    "tombstone",
];

/// The words after which SQL names a table.
const BEFORE_A_TABLE: [&str; 6] = ["from", "join", "into", "update", "using", "only"];

pub fn shards(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (line, sql) in statements(source) {
        let words = words(sql);
        let table = words.windows(2).find_map(|pair| {
            let table = pair[1].rsplit('.').next().unwrap_or_default();
            (BEFORE_A_TABLE.contains(&pair[0].as_str()) && JOB_TABLES.contains(&table))
                .then(|| table.to_owned())
        });
        let Some(table) = table else { continue };
        let sharded = words.iter().any(|word| word.rsplit('.').next() == Some("shard"));
        let excused = sql.lines().any(|line| {
            line.trim().strip_prefix("-- cross-shard:").is_some_and(|why| !why.trim().is_empty())
        });
        if !sharded && !excused {
            let rule = format!("a statement on {table} names shard or has `-- cross-shard: why`");
            faults.push(source.fault(line, &rule));
        }
    }
    faults
}

/// Names seen before come in through `seen`, which keeps where each name was found.
pub fn names(source: &Source, seen: &mut BTreeMap<String, String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (line, sql) in statements(source) {
        let first = sql.trim_start().lines().next().unwrap_or_default();
        let name = first.strip_prefix("-- ").unwrap_or_default().trim_end();
        let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(snake) {
            let rule = "the first line of a statement is `-- its_name`".to_owned();
            faults.push(source.fault(line, &rule));
        } else if let Some(other) = seen.insert(name.to_owned(), format!("{}:{line}", source.path))
        {
            faults
                .push(source.fault(line, &format!("the statement at {other} is named {name} too")));
        }
    }
    faults
}

/// The literals that are statements, with their lines.
fn statements(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let folder = source.path.starts_with("src/store/");
    let literals = source.tokens.iter().filter(move |token| folder && !token.attribute);
    literals
        .filter_map(|token| Some((token.line, token.string.as_deref()?)))
        .filter(|(_, text)| is_statement(text))
}

fn is_statement(text: &str) -> bool {
    let words = words(text);
    let has = |word: &str| words.iter().any(|other| other == word);
    match words.first().map(String::as_str) {
        Some("select") => true,
        Some("insert" | "merge") => has("into"),
        Some("update") => has("set"),
        Some("delete") => has("from"),
        Some("with") => has("as"),
        _ => false,
    }
}

/// The words of a statement in lower case, without its comments.
fn words(sql: &str) -> Vec<String> {
    let code = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let text = code.collect::<Vec<_>>().join("\n").to_lowercase();
    let is_edge = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
    text.split(is_edge).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
