//! A source file as the checks see it: its text, and a flat list of its tokens.
//!
//! In: the files of a folder, or a snippet. Out: tokens that know their line, how many inline modules
//! they stand in, and whether they are part of an attribute or of a unit test.
//! Tokens, not syntax trees, since what a macro is given counts like everything else.

use std::{fs, path::Path, sync::LazyLock};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// `file:line: rule`.
pub type Fault = String;

pub struct Source {
    /// From the root of the repository, with slashes.
    pub path: String,
    pub text: String,
    pub tokens: Vec<Token>,
}

#[derive(Debug, Clone)]
pub struct Token {
    pub text: String,
    pub line: usize,
    /// The value of a string literal.
    pub string: Option<String>,
    /// How many inline modules it stands in.
    pub depth: usize,
    pub attribute: bool,
    pub test: bool,
}

/// All Rust files of the crate in the order of their paths, read once for all checks.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for folder in ["src", "tests"] {
        for entry in walkdir::WalkDir::new(root.join(folder)).sort_by_file_name() {
            let entry = entry.expect("the sources are readable");
            if entry.path().extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(entry.path()).expect("a source is UTF-8");
                let path = entry.path().strip_prefix(root).expect("it was found under the root");
                sources.push(Source::new(&path.to_string_lossy(), &text));
            }
        }
    }
    sources
});

/// The sources under some folders.
pub fn read(folders: &[&str]) -> impl Iterator<Item = &'static Source> {
    let inside = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    SOURCES.iter().filter(move |source| inside(&source.path))
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let stream: TokenStream = text.parse().expect("the compiler has read it too");
        let is_test = path.ends_with("/tests.rs") || path.ends_with("/test.rs");
        let place = Place { depth: 0, attribute: false, test: is_test };
        let mut tokens = Vec::new();
        flatten(stream, place, &mut tokens);
        Self { path: path.to_owned(), text: text.to_owned(), tokens }
    }

    pub fn fault(&self, line: usize, rule: &str) -> Fault {
        format!("{}:{line}: {rule}", self.path)
    }

    /// The module of the crate's root that the file belongs to.
    pub fn module(&self) -> &str {
        self.path.split('/').nth(1).map_or("", |name| name.trim_end_matches(".rs"))
    }

    /// How many modules deep the file's own module stands under the crate's root.
    pub fn depth(&self) -> usize {
        let folders = self.path.matches('/').count();
        if self.path.ends_with("/mod.rs") { folders - 1 } else { folders }
    }
}

#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    attribute: bool,
    test: bool,
}

fn flatten(stream: TokenStream, place: Place, out: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let text = |at: Option<usize>| at.and_then(|at| trees.get(at)).map(ToString::to_string);
    let mut test_follows = false;
    for (at, tree) in trees.iter().enumerate() {
        let before = |steps: usize| text(at.checked_sub(steps));
        match tree {
            TokenTree::Group(group) => {
                let hash = [before(1), before(2)].contains(&Some("#".to_owned()));
                let attribute = hash && group.delimiter() == Delimiter::Bracket;
                test_follows |=
                    attribute && group.stream().to_string().replace(' ', "") == "cfg(test)";
                let body = group.delimiter() == Delimiter::Brace;
                let module = body && before(2).as_deref() == Some("mod");
                let inside = Place {
                    depth: place.depth + usize::from(module),
                    attribute: place.attribute || attribute,
                    test: place.test || (body && test_follows),
                };
                test_follows &= !body;
                flatten_group(group, inside, out);
            }
            TokenTree::Punct(punct) => {
                test_follows &= punct.as_char() != ';';
                out.push(token(tree, place));
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => out.push(token(tree, place)),
        }
    }
}

fn flatten_group(group: &Group, place: Place, out: &mut Vec<Token>) {
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    };
    let edge = |text: &str, line: usize| Token {
        text: text.to_owned(),
        line,
        string: None,
        depth: place.depth,
        attribute: place.attribute,
        test: place.test,
    };
    out.push(edge(open, group.span_open().start().line));
    flatten(group.stream(), place, out);
    out.push(edge(close, group.span_close().start().line));
}

fn token(tree: &TokenTree, place: Place) -> Token {
    let mut string = None;
    if let TokenTree::Literal(literal) = tree
        && let syn::Lit::Str(value) = syn::Lit::new(literal.clone())
    {
        string = Some(value.value());
    }
    Token {
        text: tree.to_string(),
        line: tree.span().start().line,
        string,
        depth: place.depth,
        attribute: place.attribute,
        test: place.test,
    }
}
