//! The tours, walked: each block of shell in `docs/tour-*.md` runs as pasted, in order, and shows what is told behind it.
//!
//! A block is `sh` (pasted), `sh serves` (in a terminal of its own), or `sh by-hand`, which no test can do; those are
//! listed here, each one, so that none is passed over by accident. Behind a block that is pasted, `text` is its output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::grpcurl::find_grpcurl;
use crate::harness::Rig;
use crate::receiver::Receiver;
use crate::walk::{Block, Walk, blocks, fits, read};

/// The blocks that only people can do, by their page and their first line.
const BY_HAND: [(&str, &str); 1] =
    [("tour-operator.md", "scripts/setup && cargo build --release --locked")];
/// Those that are walked below.
const WALKED: [&str; 4] = ["tour-approver.md", "tour-caller.md", "tour-n8n.md", "tour-operator.md"];

/// The pages of the folder of documents.
fn pages() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|kind| kind == "md"));
    pages.map(|page| page.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Walks a page, and counts the blocks of each kind.
async fn walk(mut walk: Walk, page: &str, has_grpcurl: bool) {
    let blocks = blocks(&read(&format!("docs/{page}")));
    for (at, Block { line, info, text, .. }) in blocks.iter().enumerate() {
        match info.as_str() {
            "sh serves" => walk.serve(text).await,
            "sh" if text.contains("grpcurl ") && !has_grpcurl => {}
            "sh" => {
                let shown = walk.paste(text).await;
                let place = format!("docs/{page}:{line}\n{text}\n{}", shown.text);
                assert!(shown.went_well, "it fails: {place}");
                let told = blocks.get(at + 1).filter(|next| next.info == "text" && next.follows);
                if let Some(told) = told {
                    assert!(
                        fits(&told.text, &shown.text),
                        "{}\nis not what came: {place}",
                        told.text
                    );
                }
            }
            _ => {}
        }
    }
    walk.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_for_engineers_is_as_it_says() {
    let grpcurl = find_grpcurl().await;
    walk(Walk::begin(grpcurl.as_deref()), "tour-caller.md", grpcurl.is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_for_approvers_is_as_it_says() {
    walk(Walk::begin(None), "tour-approver.md", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_for_operators_is_as_it_says() {
    let rig = Rig::on_an_empty_database().await;
    let mut begun = Walk::begin(None);
    begun.let_stand_for("postgres://longhaul:secret@127.0.0.1:5432/longhaul", &rig.db.url);
    walk(begun, "tour-operator.md", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_for_n8n_is_as_it_says_and_n8n_is_told() {
    let receiver = Receiver::start().await;
    let mut begun = Walk::begin(None);
    begun.let_stand_for("127.0.0.1:5678", receiver.url.strip_prefix("http://").unwrap());
    walk(begun, "tour-n8n.md", false).await;
    let heard = receiver.so_far();
    let ended = heard.iter().find(|one| one.about().0 == "job.completed").unwrap();
    assert_eq!(ended.path, "/webhook/longhaul-callback");
    assert_eq!(ended.header("x-longhaul-callback"), "change-me-please-0123456789");
}

#[test]
fn every_tour_is_walked_and_only_these_blocks_are_left_to_people() {
    let tours: Vec<String> = pages().into_iter().filter(|page| page.starts_with("tour-")).collect();
    assert_eq!(tours, WALKED);
    let mut by_hand = Vec::new();
    for page in &tours {
        let document = read(&format!("docs/{page}"));
        assert!(document.lines().count() <= 170, "{page} is too long for ten minutes");
        let mut counts = BTreeMap::<String, u32>::new();
        let mut may_show = false;
        for Block { line, info, text, follows } in blocks(&document) {
            match info.as_str() {
                "sh by-hand" => {
                    by_hand.push((page.clone(), text.lines().next().unwrap().to_owned()));
                }
                "text" => assert!(may_show && follows, "{page}:{line} is the output of nothing"),
                "sh" | "sh serves" => {}
                _ => panic!("{page}:{line}: nobody runs a block of {info:?}"),
            }
            may_show = info == "sh";
            *counts.entry(info).or_default() += 1;
        }
        let count = |info: &str| counts.get(info).copied().unwrap_or_default();
        assert!(count("sh") >= 5 && count("sh serves") >= 1 && count("text") >= 4, "{counts:?}");
    }
    let by_hand: Vec<_> = by_hand.iter().map(|(page, line)| (&**page, &**line)).collect();
    assert_eq!(by_hand, BY_HAND);
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of the links of a document, outside its blocks.
fn links(document: &str) -> Vec<String> {
    let mut is_open = false;
    let mut found = Vec::new();
    for line in document.lines() {
        is_open ^= line.starts_with("```");
        if !is_open {
            let targets = line.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
            found.extend(targets.map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_link_of_the_documents_leads_somewhere_and_the_index_has_every_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut lost = Vec::new();
    for page in pages() {
        let document = read(&format!("docs/{page}"));
        for link in links(&document).into_iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { folder.join(&page) } else { folder.join(file) };
            let has_heading = || {
                let text = fs::read_to_string(&target).unwrap_or_default();
                text.lines().any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !target.exists() || (!heading.is_empty() && !has_heading()) {
                lost.push(format!("{page}: {link}"));
            }
        }
    }
    assert_eq!(lost, Vec::<String>::new(), "links that lead nowhere");
    let index: BTreeSet<String> = links(&read("docs/README.md")).into_iter().collect();
    let missing: Vec<String> = pages().difference(&index).cloned().collect();
    assert_eq!(missing, ["README.md"], "pages that the index lacks");
    assert!(read("README.md").contains("](docs/README.md)"));
}
