//! The page about the HTTP face, made of the `OpenAPI` document of a server.

use std::fmt::Write as _;

use serde_json::Value;

const HEAD: &str = "# The HTTP API

Made from the OpenAPI document by `scripts/generate-reference`; do not edit.
A server answers that document, as it is for its own settings, to `GET /openapi.json`.
";

pub(super) fn page(document: &Value) -> String {
    let mut page = format!("{HEAD}\n{}\n", text(&document["info"]["description"]));
    page.push_str("\n## Keys\n\n");
    for (name, scheme) in entries(&document["components"]["securitySchemes"]) {
        let said = match text(&scheme["description"]) {
            "" => format!("The header `{}` and a key.", text(&scheme["name"])),
            said => said.to_owned(),
        };
        let _ = writeln!(page, "- {name}: {said}");
    }
    for tag in list(&document["tags"]) {
        let _ =
            writeln!(page, "\n## {}\n\n{}", capital(text(&tag["name"])), text(&tag["description"]));
        for (path, item) in entries(&document["paths"]) {
            for (method, operation) in entries(item) {
                if list(&operation["tags"]).contains(&tag["name"]) {
                    describe(&mut page, path, method, operation);
                }
            }
        }
    }
    page.push_str("\n## What they hold\n");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        let _ = writeln!(page, "\n### {name}\n\n{}", line(&schema["description"]));
        fields(&mut page, schema);
    }
    page
}

fn describe(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ =
        writeln!(page, "\n### {} {path}\n\n{}", method.to_uppercase(), text(&operation["summary"]));
    let said = text(&operation["description"]);
    if !said.is_empty() {
        let _ = writeln!(page, "\n{said}");
    }
    let parameters = list(&operation["parameters"]);
    if !parameters.is_empty() {
        page.push('\n');
    }
    for parameter in parameters {
        let _ = writeln!(
            page,
            "- `{}` ({}): {}",
            text(&parameter["name"]),
            text(&parameter["in"]),
            line(&parameter["description"])
        );
    }
    for (kind, content) in entries(&operation["requestBody"]["content"]) {
        let _ = writeln!(page, "\nTakes `{kind}`: {}.", held(&content["schema"]));
        for (_, example) in entries(&content["examples"]) {
            let value = &example["value"];
            let as_json = || serde_json::to_string_pretty(value).unwrap();
            let shown = value.as_str().map_or_else(as_json, str::to_owned);
            let _ = writeln!(page, "{}:\n\n```json\n{shown}\n```", text(&example["summary"]));
        }
    }
    page.push_str("\n| status | answer |\n|---|---|\n");
    for (status, answer) in entries(&operation["responses"]) {
        let kinds = entries(&answer["content"]);
        let kinds = kinds.map(|(kind, content)| format!("`{kind}`: {}", held(&content["schema"])));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let said = line(&answer["description"]);
        let _ = writeln!(
            page,
            "| {status} | {said}{}{kinds} |",
            if kinds.is_empty() { "" } else { " " }
        );
    }
}

fn fields(page: &mut String, schema: &Value) {
    let required = list(&schema["required"]);
    let properties = entries(&schema["properties"]);
    page.push('\n');
    for (name, property) in properties {
        let must = if required.iter().any(|one| one == name) { ", required" } else { "" };
        let said = line(&property["description"]);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let _ = writeln!(page, "- `{name}` {}{must}{said}", held(property));
    }
    for choice in list(&schema["oneOf"]).iter().chain(list(&schema["anyOf"])) {
        // A choice that says only which fields there must be is told by the fields.
        if !choice["$ref"].is_null() {
            let _ = writeln!(page, "- or {}", held(choice));
        }
    }
}

/// What a schema holds, in a few words.
fn held(schema: &Value) -> String {
    if let Some(name) = text(&schema["$ref"]).rsplit('/').next().filter(|name| !name.is_empty()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for one in ["oneOf", "anyOf", "allOf"] {
        let choices: Vec<_> = list(&schema[one]).iter().map(held).collect();
        if !choices.is_empty() {
            return choices.join(" or ");
        }
    }
    if let Some(word) = schema.get("const") {
        return format!("`{}`", word.as_str().map_or_else(|| word.to_string(), str::to_owned));
    }
    let kind = &schema["type"];
    let kind = match list(kind) {
        [] => text(kind).to_owned(),
        kinds => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
    };
    let words: Vec<_> = list(&schema["enum"])
        .iter()
        .map(|word| format!("`{}`", word.as_str().map_or_else(|| word.to_string(), str::to_owned)))
        .collect();
    match (kind.as_str(), words.is_empty()) {
        ("array", _) => format!("list of {}", held(&schema["items"])),
        ("", true) => "anything".to_owned(),
        (_, true) => kind,
        (_, false) => format!("one of {}", words.join(" ").replace("``", "nothing")),
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A description in one line, as cells of tables and entries of lists need it.
fn line(value: &Value) -> String {
    text(value).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
