//! Drafts: what a model wrote, made safe to look at.
//!
//! In comes Markdown from anybody, out goes HTML that can only be read: no script, no image, no style, no frame,
//! and links that lead nowhere but to http, https and mail.
//! HTML inside a draft is shown as the text it is, so that nothing the approver decides on is hidden.
//! Characters that turn the direction of others are taken out, so that nothing reads other than it is.

use std::collections::{HashMap, HashSet};

use ammonia::{Builder, UrlRelative};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// The most of a draft that is shown, in bytes.
const DRAFT_BYTES_MAX: usize = 200_000;

/// How deep a draft may be nested before it is shown as plain text: what follows is quadratic in this.
const DEPTH_MAX: usize = 64;

/// A draft as it is shown.
#[derive(Debug)]
pub(super) struct Draft {
    /// Safe HTML; none if the draft is shown as plain text.
    pub(super) html: Option<String>,
    /// The plain text; empty if there is HTML.
    pub(super) text: String,
    /// Whether there is more of it.
    pub(super) is_cut: bool,
}

/// Makes a draft safe to look at.
pub(super) fn render(draft: &str) -> Draft {
    let shown = &draft[..draft.floor_char_boundary(DRAFT_BYTES_MAX)];
    let is_cut = shown.len() < draft.len();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut depth = 0_usize;
    let mut outline = Outline::default();
    let mut events = Vec::new();
    for event in Parser::new_ext(shown, options) {
        if matches!(event, Event::Start(_)) {
            depth += 1;
        } else if matches!(event, Event::End(_)) {
            depth -= 1;
        }
        if depth > DEPTH_MAX {
            return Draft { html: None, text: plain(shown), is_cut };
        }
        events.extend(tame(outline.place(event)));
    }
    let mut unsafe_html = String::with_capacity(shown.len() * 3 / 2);
    html::push_html(&mut unsafe_html, events.into_iter());
    let safe = sanitizer().clean(&unsafe_html).to_string();
    Draft { html: Some(plain(&safe)), text: String::new(), is_cut }
}

/// The headings that the present place in a draft stands under, the outermost first.
///
/// A draft stands under a heading of the page, of the second level.
/// Who moves from heading to heading by ear finds its headings below that, with no level left out.
#[derive(Default)]
struct Outline {
    above: Vec<HeadingLevel>,
}

impl Outline {
    fn place<'a>(&mut self, event: Event<'a>) -> Event<'a> {
        if let Event::Start(Tag::Heading { level, id, classes, attrs }) = event {
            while self.above.last().is_some_and(|above| *above >= level) {
                self.above.pop();
            }
            self.above.push(level);
            let level = self.level();
            return Event::Start(Tag::Heading { level, id, classes, attrs });
        }
        if matches!(event, Event::End(TagEnd::Heading(_))) {
            return Event::End(TagEnd::Heading(self.level()));
        }
        event
    }

    fn level(&self) -> HeadingLevel {
        match self.above.len() {
            0 | 1 => HeadingLevel::H3,
            2 => HeadingLevel::H4,
            3 => HeadingLevel::H5,
            _ => HeadingLevel::H6,
        }
    }
}

/// A draft as it is put before somebody who may edit it, with the line ends of a form.
pub(super) fn editable(draft: &str) -> String {
    plain(&draft.replace("\r\n", "\n"))
}

/// Text without the characters that change the direction of others, and without control characters.
pub(super) fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let controls = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.chars().filter(|c| !turns(*c) && !controls(*c)).collect()
}

/// HTML becomes the text it is, and a picture a link to it.
fn tame(event: Event<'_>) -> Vec<Event<'_>> {
    if let Event::Start(Tag::Image { link_type, dest_url, title, id }) = event {
        let link = Tag::Link { link_type, dest_url, title, id };
        return vec![Event::Start(link), Event::Text("🖼 ".into())];
    }
    if let Event::Html(html) | Event::InlineHtml(html) = event {
        let is_break = matches!(&*html, "<br>" | "<br/>" | "<br />");
        return vec![if is_break { Event::HardBreak } else { Event::Text(html) }];
    }
    vec![if matches!(event, Event::End(TagEnd::Image)) {
        Event::End(TagEnd::Link)
    } else if matches!(event, Event::Start(Tag::HtmlBlock)) {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))
    } else if matches!(event, Event::End(TagEnd::HtmlBlock)) {
        Event::End(TagEnd::CodeBlock)
    } else {
        event
    }]
}

fn sanitizer() -> Builder<'static> {
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    let attributes =
        HashMap::from([("a", HashSet::from(["href"])), ("ol", HashSet::from(["start"]))]);
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from(tags))
        .generic_attributes(HashSet::new())
        .tag_attributes(attributes)
        // A table that is wider than the phone is scrolled, also by who has but a keyboard.
        .set_tag_attribute_value("table", "tabindex", "0")
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener nofollow"))
        .strip_comments(true);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(draft: &str) -> String {
        render(draft).html.expect("the draft is shown as HTML")
    }

    #[test]
    fn markdown_is_rendered() {
        let html = html(
            "# Title\n\n* **one**\n* [two](https://example.com/?a=1&b=2)\n\n|a|\n|-|\n|b|\n\n你好 👩‍👩‍👧",
        );
        for part in ["<h3>Title</h3>", "<strong>one</strong>", "<td>b</td>", "你好 👩‍👩‍👧"]
        {
            assert!(html.contains(part), "{html}");
        }
        let link = r#"<a href="https://example.com/?a=1&amp;b=2" rel="noopener nofollow">two</a>"#;
        assert!(html.contains(link), "{html}");
    }

    #[test]
    fn headings_of_a_draft_stand_below_those_of_the_page_and_skip_no_level() {
        let html = html("### a\n\n# b\n\n#### c\n\n## d\n\n###### e\n\n# f\n\n# g\n");
        let levels: Vec<&str> = html.split("</h").skip(1).map(|rest| &rest[..1]).collect();
        assert_eq!(levels, ["3", "3", "4", "4", "5", "3", "3"], "{html}");
        for level in ["3", "4", "5"] {
            let [begun, ended] =
                ["<h", "</h"].map(|tag| html.matches(&format!("{tag}{level}>")).count());
            assert_eq!(begun, ended, "{html}");
        }
        let deep = self::html("# a\n\n## b\n\n### c\n\n#### d\n\n##### e\n\n###### f\n");
        assert_eq!(deep.matches("<h6>").count(), 3, "{deep}");
    }

    #[test]
    fn nothing_in_a_draft_runs_loads_or_hides() {
        for hostile in [
            "<script>alert(1)</script>",
            "a <script>alert(1)</script> b",
            "<img src=x onerror=alert(1)>",
            "text <img src=x onerror=alert(1)> text",
            "![x](https://evil.example/pixel.png)",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt&colon;alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "<javascript:alert(1)>",
            "[x](/approvals/other)",
            "[x](//evil.example)",
            "<style>body{display:none}</style>",
            "<form action=https://evil.example><button>Approve</button></form>",
            "<div style=\"position:fixed\">cover</div>",
            "```<script>alert(1)</script>\nx\n```",
            "```\"><script>alert(1)</script>\n```",
            "[x](https://a.example \"onmouseover=alert(1)\")",
            "<svg/onload=alert(1)>",
            "</main></form><h1>x",
            "<!-- hidden -->",
        ] {
            let html = html(hostile).to_lowercase();
            for bad in ["<script", "<img", "<style", "<form", "<svg", "<div", "<button", "<!--"] {
                assert!(!html.contains(bad), "{hostile}: {html}");
            }
            let mut tags = html.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
            let is_harmless = |tag: &str| {
                let bad = ["on", "style=", "javascript", "data:", "src=", "\"/"];
                !tag.contains(' ')
                    || !bad.iter().any(|bad| tag.replace("rel=\"noopener", "").contains(bad))
            };
            assert!(tags.all(|(tag, _)| is_harmless(tag)), "{hostile}: {html}");
        }
    }

    #[test]
    fn html_in_a_draft_is_shown_and_not_swallowed() {
        assert!(
            html("<script>alert(1)</script>").contains("&lt;script&gt;alert(1)&lt;/script&gt;")
        );
        assert!(html("a<!-- b -->c").contains("&lt;!-- b --&gt;"));
        assert!(html("a<br>b").contains("<br>"));
    }

    #[test]
    fn direction_overrides_are_taken_out_however_they_are_written() {
        for hostile in ["pay \u{202e}001 \u{2066}x", "pay &#x202E;001 &#8294;x", "`\u{202d}`"] {
            let html = html(hostile);
            assert!(!html.contains(['\u{202e}', '\u{2066}', '\u{202d}']), "{html:?}");
        }
        assert_eq!(plain("a\u{202e}b\0c\nd"), "abc\nd");
    }

    #[test]
    fn an_empty_draft_and_one_of_emoji_are_fine() {
        assert_eq!(html(""), "");
        assert_eq!(html("🎉🎉").trim(), "<p>🎉🎉</p>");
    }

    #[test]
    fn a_huge_draft_is_cut_between_characters() {
        let draft = render(&"记".repeat(1 << 20));
        assert!(draft.is_cut);
        assert!(draft.html.is_some_and(|html| html.len() < DRAFT_BYTES_MAX + 100));
        assert!(!render("short").is_cut);
    }

    #[test]
    fn a_draft_nested_without_end_is_shown_as_text() {
        for nested in
            [">".repeat(1 << 20), "- ".repeat(1 << 19), "[".repeat(1 << 20), "*a".repeat(1 << 19)]
        {
            let draft = render(&nested);
            assert!(draft.html.is_some() || draft.text.starts_with(&nested[..8]));
        }
        assert!(render(&">".repeat(100)).html.is_none());
    }
}
