//! The approval page as a browser takes it: a form with an address, hidden fields and buttons.
//!
//! In comes the page's HTML; out comes what a browser sends when one of its buttons is pressed.
//! It reads well-formed HTML such as the server writes; it is no general parser.

use anyhow::{Context as _, Result};

/// What pressing a button sends.
#[derive(Debug, PartialEq, Eq)]
pub struct Press {
    /// Where to, as the form says it; empty for the page's own address.
    pub action: String,
    /// The fields in their order, the button last.
    pub fields: Vec<(String, String)>,
}

/// What a browser sends when the button of this value is pressed.
pub fn press(html: &str, value: &str) -> Result<Press> {
    let forms = html.split("<form").skip(1).map(|rest| rest.split("</form>").next().unwrap_or(""));
    for form in forms {
        let (head, body) = form.split_once('>').context("a form does not end")?;
        let Some(button) = tags(body, "<button").find(|tag| is(tag, "value", value)) else {
            continue;
        };
        let action = attribute(button, "formaction").or_else(|| attribute(head, "action"));
        let mut fields: Vec<(String, String)> = Vec::new();
        for tag in tags(body, "<input") {
            let sends_text = ["hidden", "text"].iter().any(|kind| is(tag, "type", kind));
            if sends_text && let Some(name) = attribute(tag, "name") {
                fields.push((name, attribute(tag, "value").unwrap_or_default()));
            }
        }
        for tag in tags(body, "<textarea") {
            if let Some(name) = attribute(tag, "name") {
                fields.push((name, String::new()));
            }
        }
        let name = attribute(button, "name").context("the button has no name")?;
        fields.push((name, value.to_owned()));
        return Ok(Press { action: action.unwrap_or_default(), fields });
    }
    anyhow::bail!("the page has no button `{value}`")
}

/// The text of a page, without its tags.
pub fn text(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    unescape(&text)
}

/// The insides of all opening tags of a name.
fn tags<'a>(html: &'a str, open: &'static str) -> impl Iterator<Item = &'a str> {
    html.split(open).skip(1).map(|rest| rest.split('>').next().unwrap_or(""))
}

fn is(tag: &str, name: &str, value: &str) -> bool {
    attribute(tag, name).is_some_and(|found| found == value)
}

/// The value of an attribute in double quotes.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = format!("{name}=\"");
    let mut from = 0;
    while let Some(found) = tag[from..].find(&start) {
        let at = from + found;
        from = at + start.len();
        if tag[..at].ends_with(|c: char| c.is_ascii_whitespace()) {
            return tag[from..].split('"').next().map(unescape);
        }
    }
    None
}

/// Resolves the entities that escaping makes, named and numbered.
fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split('&');
    plain.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let entity = part.split_once(';').and_then(|(name, rest)| Some((entity(name)?, rest)));
        if let Some((c, rest)) = entity {
            plain.push(c);
            plain.push_str(rest);
        } else {
            plain.push('&');
            plain.push_str(part);
        }
    }
    plain
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some('\u{a0}'),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<h1>a &lt;b&gt; &amp; c</h1>
        <form method="get" action="/language"><button name="lang" value="zh">中文</button></form>
        <form class="decide" method="post" action="/approvals/a&#38;b">
          <input type="hidden" name="approval_id" value="x&quot;y">
          <input type="checkbox" name="not_ticked" value="1">
          <textarea name="comment" rows="3"></textarea>
          <button type="submit" data-value="no" name="decision" value="approve">OK</button>
          <button type="submit" name="decision" value="reject">No</button>
        </form>"#;

    #[test]
    fn a_button_sends_its_form_and_itself_and_not_its_neighbours() {
        let pressed = press(PAGE, "reject").expect("a button");
        assert_eq!(pressed.action, "/approvals/a&b");
        let fields = [("approval_id", "x\"y"), ("comment", ""), ("decision", "reject")];
        assert_eq!(pressed.fields, fields.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(press(PAGE, "explode").is_err());
    }

    #[test]
    fn the_text_of_a_page_is_what_a_person_reads() {
        assert!(text(PAGE).starts_with("a <b> & c"));
        assert_eq!(unescape("&unknown; &#x4e2d;&"), "&unknown; 中&");
    }
}
