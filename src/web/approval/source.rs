//! Sources: the web pages that a draft cites, each once, with the passages it takes from them.
//!
//! What a model found may be anything: an address that is not of the web is shown and leads nowhere.

use super::draft::plain;
use crate::domain::job::Citation;

/// A page that is cited.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Where it leads; none if that is not the web.
    pub(super) link: Option<String>,
    /// What it is called, or its address.
    pub(super) title: String,
    /// Whose it is.
    pub(super) host: String,
    /// What the draft takes from it.
    pub(super) passages: Vec<String>,
}

/// The pages in the order in which they are first cited.
pub(super) fn list(citations: &[Citation]) -> Vec<Source> {
    let mut sources: Vec<(&str, Source)> = Vec::new();
    for citation in citations {
        let url = citation.url.as_str();
        let at = sources.iter().position(|(known, _)| *known == url).unwrap_or_else(|| {
            sources.push((url, Source::new(citation)));
            sources.len() - 1
        });
        let passage = plain(citation.cited_text.trim());
        let passages = &mut sources[at].1.passages;
        if !passage.is_empty() && !passages.contains(&passage) {
            passages.push(passage);
        }
    }
    sources.into_iter().map(|(_, source)| source).collect()
}

impl Source {
    fn new(citation: &Citation) -> Self {
        let host = find_host(&citation.url);
        let title = Some(citation.title.trim()).filter(|title| !title.is_empty());
        Self {
            title: plain(title.unwrap_or(&citation.url)),
            link: host.map(|_| citation.url.clone()),
            host: plain(host.unwrap_or_default()),
            passages: Vec::new(),
        }
    }
}

/// Whose page an address of the web is; nothing if it is none.
fn find_host(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_of_the_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let is_whole = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    // A name before it says nothing of whose it is.
    let host = authority.rsplit('@').next()?;
    (is_of_the_web && is_whole && !host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citation(url: &str, title: &str, cited_text: &str) -> Citation {
        let [url, title, cited_text] = [url, title, cited_text].map(str::to_owned);
        Citation { url, title, cited_text }
    }

    #[test]
    fn a_page_is_listed_once_with_all_its_passages() {
        let cited = [
            citation("https://a.example/x", "A", "one"),
            citation("https://b.example/", " ", "two"),
            citation("https://a.example/x", "A", "three"),
            citation("https://a.example/x", "A", "one"),
        ];
        let found = list(&cited);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].host.as_str(), found[0].passages.len()), ("a.example", 2));
        assert_eq!(found[1].title, "https://b.example/");
        let disguised = list(&[citation("https://bank.example@evil.example:8443/?a#b", "", "")]);
        assert_eq!(disguised[0].host, "evil.example:8443");
    }

    #[test]
    fn only_the_web_is_linked_and_no_text_turns_others_around() {
        for url in [
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "https://",
            "nonsense",
        ] {
            let found = list(&[citation(url, "\u{202e}evil", "")]);
            assert_eq!(
                (found[0].link.as_deref(), found[0].title.as_str()),
                (None, "evil"),
                "{url}"
            );
        }
    }
}
