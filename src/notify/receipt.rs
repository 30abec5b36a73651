//! What Meta tells of messages: its webhook's bodies, read item by item, so that a broken one costs no other.
//!
//! In come raw bytes whose signature was checked; out come receipts for the store, and counts of the rest.
//! A status names its try by the word that the try gave its message, or else has only the message's id.
//! Nothing of a body reaches a log: it holds numbers, names and what people wrote.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::form::Form;
use super::inbound::item::{self, find_moment};
use super::refusal::{Class, find_class, say};
use crate::domain::id::{JobKey, NoticeId, find_job_id_fault};
use crate::store::inbound::Inbound;
use crate::store::outbox::{Needs, Outgoing};
use crate::store::receipt::{Next, Receipt, Stage, Try};

const MESSAGE_ID_BYTES_MAX: usize = 512;

/// What a body tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What became of messages.
    pub receipts: Vec<Receipt>,
    /// What people wrote.
    pub messages: Vec<Inbound>,
    /// How many items could not be read.
    pub broken: usize,
}

#[derive(Deserialize)]
struct Body<'b> {
    #[serde(borrow)]
    entry: Vec<&'b RawValue>,
}

#[derive(Deserialize)]
struct Entry<'b> {
    #[serde(borrow)]
    changes: Vec<&'b RawValue>,
}

#[derive(Deserialize)]
struct Change<'b> {
    field: String,
    #[serde(borrow)]
    value: &'b RawValue,
}

/// What changed about messages; everything else in it is left unread.
#[derive(Deserialize)]
struct Heard<'b> {
    #[serde(borrow)]
    statuses: Option<Vec<&'b RawValue>>,
    #[serde(borrow)]
    messages: Option<Vec<&'b RawValue>>,
    #[serde(borrow)]
    metadata: Option<&'b RawValue>,
    #[serde(borrow)]
    contacts: Option<&'b RawValue>,
}

#[derive(Deserialize)]
struct Status {
    id: String,
    #[serde(rename = "status")]
    word: String,
    biz_opaque_callback_data: Option<String>,
    timestamp: Option<Value>,
    errors: Option<Vec<Value>>,
}

impl Told {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Self {
        let mut told = Self::default();
        // A byte that is no text spoils only the item in which it stands.
        let text = String::from_utf8_lossy(body);
        let Ok(body) = serde_json::from_str::<Body<'_>>(&text) else {
            return Self { broken: 1, ..told };
        };
        for entry in body.entry {
            let Some(entry) = told.part::<Entry<'_>>(entry) else { continue };
            for change in entry.changes {
                let Some(change) = told.part::<Change<'_>>(change) else { continue };
                if change.field == "messages" {
                    told.read_messages(change.value);
                }
            }
        }
        told
    }

    fn read_messages(&mut self, value: &RawValue) {
        let Some(value) = self.part::<Heard<'_>>(value) else { return };
        let about = item::About::read(value.metadata, value.contacts);
        for message in value.messages.unwrap_or_default() {
            match item::read(message.get(), &about) {
                Some(message) => self.messages.push(message),
                None => self.broken += 1,
            }
        }
        for status in value.statuses.unwrap_or_default() {
            let Some(status) = self.part::<Status>(status) else { continue };
            let word = status.biz_opaque_callback_data.as_deref();
            let (sent_by, form) = word.and_then(find_try).unzip();
            match status.stage(form.unwrap_or(Form::Text)) {
                Some(stage) if is_message_id(&status.id) => {
                    let at = status.timestamp.as_ref().and_then(find_moment);
                    self.receipts.push(Receipt { message_id: status.id, sent_by, stage, at });
                }
                Some(_) => self.broken += 1,
                // A stage that is of no use here, or not known yet.
                None => {}
            }
        }
    }

    fn part<'b, P: Deserialize<'b>>(&mut self, raw: &'b RawValue) -> Option<P> {
        let part = serde_json::from_str(raw.get()).ok();
        self.broken += usize::from(part.is_none());
        part
    }
}

impl Status {
    fn stage(&self, form: Form) -> Option<Stage> {
        match self.word.as_str() {
            "accepted" | "sent" => Some(Stage::Sent),
            "delivered" => Some(Stage::Delivered),
            "read" | "played" => Some(Stage::Read),
            "failed" => Some(Stage::Failed { error: self.error(), next: self.next(form) }),
            _ => None,
        }
    }

    fn first_error(&self) -> &Value {
        self.errors.iter().flatten().next().unwrap_or(&Value::Null)
    }

    /// What follows a failure of a message in this form: it surely has not arrived.
    fn next(&self, form: Form) -> Next {
        // What nobody has a name for says nothing of another try.
        let Some(class) = self.first_error()["code"].as_i64().and_then(find_class) else {
            return Next::GiveUp;
        };
        match (class, form) {
            // What is wrong with the last template may be mended any hour.
            (Class::Rate | Class::Pair | Class::Ambiguous | Class::Configuration, _)
            | (Class::Template, Form::Backup) => Next::Later,
            (Class::Window, Form::Text | Form::Link | Form::Buttons) => Next::Closed,
            (Class::Permanent, Form::Text | Form::Link | Form::Buttons) => {
                Next::As(Needs::Template)
            }
            (Class::Template, Form::Template) => Next::As(Needs::Backup),
            (Class::Template, Form::Text | Form::Link | Form::Buttons)
            | (Class::Window | Class::Permanent, Form::Template | Form::Backup)
            | (Class::Undeliverable, _) => Next::GiveUp,
        }
    }

    fn error(&self) -> String {
        let error = self.first_error();
        let code = error["code"].as_i64();
        let title = if error["title"].is_string() { &error["title"] } else { &error["message"] };
        let said = [title, &error["error_data"]["details"]];
        let head = code.map_or("no reason given".to_owned(), |code| format!("error {code}"));
        format!("whatsapp could not deliver the message: {}", say(head, code, said, ""))
    }
}

/// What a try gives its message, to be recognised by: the notice, which try it is in which form, and the job.
pub(super) fn word_of(notice: &Outgoing, form: Form) -> String {
    format!("{}:{}{}:{}", notice.notice_id, notice.tries, form.mark(), notice.key.job_id())
}

/// The try that gave its message this word, if it can have been one of ours.
fn find_try(word: &str) -> Option<(Try, Form)> {
    let (notice_id, rest) = word.split_once(':')?;
    let (tries, job_id) = rest.split_once(':')?;
    let (tries, mark) = tries.split_at(tries.trim_end_matches(char::is_alphabetic).len());
    let (form, notice_id) = (Form::find(mark)?, NoticeId(notice_id.parse().ok()?));
    let tries = tries.parse().ok().filter(|tries| *tries > 0)?;
    let sent_by = || Try { key: JobKey::new(job_id), notice_id, tries };
    find_job_id_fault(job_id).is_none().then(|| (sent_by(), form))
}

fn is_message_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MESSAGE_ID_BYTES_MAX && !id.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    const NOTICE: &str = "0197f0a4-6b7e-7cc3-9d0c-2b1f6f0a1234";

    fn body(statuses: &str) -> String {
        format!(
            r#"{{"object":"whatsapp_business_account","entry":[{{"id":"1","changes":[{{"field":"messages",
              "value":{{"messaging_product":"whatsapp","metadata":{{"phone_number_id":"1"}},"statuses":[{statuses}]}}}}]}}]}}"#
        )
    }

    fn stages(told: &Told) -> Vec<&Stage> {
        told.receipts.iter().map(|receipt| &receipt.stage).collect()
    }

    #[test]
    fn a_status_names_its_try_or_only_its_message() {
        let word = format!("{NOTICE}:2:launch: 任务 #1");
        let named = json!({"id": "wamid.A=", "status": "delivered", "timestamp": "1", "recipient_id": "1",
            "biz_opaque_callback_data": word, "pricing": {"billable": true}});
        let unnamed = json!({"id": "wamid.B=", "status": "read"});
        let told = Told::read(body(&format!("{named},{unnamed}")).as_bytes());
        let sent_by = Try {
            key: JobKey::new("launch: 任务 #1"),
            notice_id: NoticeId(NOTICE.parse().expect("a uuid")),
            tries: 2,
        };
        let expected = [
            Receipt {
                message_id: "wamid.A=".into(),
                sent_by: Some(sent_by),
                stage: Stage::Delivered,
                at: DateTime::from_timestamp(1, 0),
            },
            Receipt { message_id: "wamid.B=".into(), sent_by: None, stage: Stage::Read, at: None },
        ];
        assert_eq!(told.receipts, expected);
        assert_eq!((told.messages.len(), told.broken), (0, 0));
    }

    #[test]
    fn words_of_others_name_no_try() {
        for word in [
            "",
            "x",
            NOTICE,
            &format!("{NOTICE}:1"),
            &format!("{NOTICE}:0:job"),
            &format!("{NOTICE}:1x:job"),
            &format!("{NOTICE}:t:job"),
        ] {
            assert_eq!(find_try(word), None, "{word}");
        }
        for word in [format!("{NOTICE}:one:job"), format!("{NOTICE}:1:"), format!("{NOTICE}:1:a\0")]
        {
            assert_eq!(find_try(&word), None, "{word}");
        }
    }

    #[test]
    fn a_broken_item_costs_no_other() {
        for broken in [
            r#"{"id":7,"status":"read"}"#,
            r#"{"status":"read"}"#,
            r#"{"id":"a\u0000b","status":"read"}"#,
            r#"{"id":"","status":"read"}"#,
            r#"{"id":"x","status":"read","biz_opaque_callback_data":"\ud800"}"#,
            "7",
            "null",
        ] {
            let text = body(&format!(
                r#"{{"id":"a","status":"sent"}},{broken},{{"id":"b","status":"read"}}"#
            ));
            let told = Told::read(text.as_bytes());
            assert_eq!(stages(&told), [&Stage::Sent, &Stage::Read], "{broken}");
            assert_eq!(told.broken, 1, "{broken}");
        }
        let mut bytes = body(r#"{"id":"a","status":"read"}"#).into_bytes();
        let at = bytes.windows(3).position(|part| part == b"\"1\"").expect("an id of the entry");
        bytes[at + 1] = 0xff;
        assert_eq!(stages(&Told::read(&bytes)), [&Stage::Read]);
    }

    #[test]
    fn a_broken_message_costs_no_other() {
        let good = |id: &str| json!({"id": id, "from": "15550100", "type": "text", "text": {"body": "ok"}});
        for broken in [
            r#"{"id":"x","from":"15550100","type":"text","text":{"body":"\ud800"}}"#,
            "7",
            "null",
            "{}",
        ] {
            let text = format!(
                r#"{{"entry":[{{"changes":[{{"field":"messages","value":{{"metadata":"\ud800","contacts":[7,"\ud800"],
                  "messages":[{},{broken},{}]}}}}]}}]}}"#,
                good("a"),
                good("b")
            );
            let told = Told::read(text.as_bytes());
            let ids: Vec<&str> = told.messages.iter().map(|one| one.message_id.as_str()).collect();
            assert_eq!((ids, told.broken), (vec!["a", "b"], 1), "{broken}");
        }
    }

    #[test]
    fn other_changes_and_unknown_stages_are_passed_over() {
        let text = json!({"entry": [
            {"changes": [{"field": "account_update", "value": {"statuses": [{"id": "a", "status": "read"}]}}, 7]},
            {"changes": "none"},
            {"changes": [
                {"field": "messages", "value": {"statuses": null, "messages": [{"type": "text"}, {"id": "m", "from": "15550100", "type": "text"}]}},
                {"field": "messages", "value": {"statuses": [{"id": "b", "status": "warmed"}, {"id": "c", "status": "read"}]}}]}]});
        let told = Told::read(text.to_string().as_bytes());
        assert_eq!((told.receipts.len(), told.messages.len(), told.broken), (1, 1, 3));
        for text in ["", "no json", "[]", "{}", r#"{"entry":7}"#] {
            assert_eq!(
                Told::read(text.as_bytes()),
                Told { broken: 1, ..Told::default() },
                "{text}"
            );
        }
    }

    #[test]
    fn what_follows_a_failure_depends_on_why_and_in_which_form() {
        let next = |code: i64, mark: &str| {
            let word = format!("{NOTICE}:3{mark}:job");
            let status = json!({"id": "a", "status": "failed", "errors": [{"code": code}],
                "biz_opaque_callback_data": word});
            let told = Told::read(body(&status.to_string()).as_bytes());
            assert_eq!(told.receipts[0].sent_by.as_ref().map(|one| one.tries), Some(3));
            let [Stage::Failed { next, .. }] = &stages(&told)[..] else { panic!("{told:?}") };
            *next
        };
        for (code, mark, expected) in [
            (130_429, "", Next::Later),
            (131_056, "t", Next::Later),
            (131_000, "", Next::Later),
            (131_042, "b", Next::Later),
            (131_047, "", Next::Closed),
            (131_047, "t", Next::GiveUp),
            (131_053, "", Next::As(Needs::Template)),
            (132_018, "t", Next::GiveUp),
            (132_015, "t", Next::As(Needs::Backup)),
            (132_015, "b", Next::Later),
            (132_001, "b", Next::Later),
            (131_026, "", Next::GiveUp),
            (131_049, "t", Next::GiveUp),
            (999_999, "", Next::GiveUp),
        ] {
            assert_eq!(next(code, mark), expected, "{code} {mark}");
        }
    }

    #[test]
    fn a_failure_says_why_without_the_number() {
        let error = |errors: Value| {
            let status = json!({"id": "a", "status": "failed", "errors": errors});
            let told = Told::read(body(&status.to_string()).as_bytes());
            let [Stage::Failed { error, .. }] = &stages(&told)[..] else { panic!("{told:?}") };
            error.clone()
        };
        let full = json!([{"code": 131_026, "title": "Message undeliverable", "message": "Message undeliverable",
            "error_data": {"details": "Not to +1 650 555 1234."}, "href": "/errors"}]);
        assert_eq!(
            error(full),
            "whatsapp could not deliver the message: error 131026: Message undeliverable: Not to …."
        );
        for unknown in [json!(null), json!([]), json!([7])] {
            assert_eq!(error(unknown), "whatsapp could not deliver the message: no reason given");
        }
    }
}
