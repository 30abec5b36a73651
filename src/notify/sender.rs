//! One notice on its way to one person: addressed, sent in the first form that is taken, and understood.
//!
//! In comes a notice that was taken from the outbox; out comes what became of it and what that showed of the person.
//! A refusal is certain, so the next form can be sent at once; whatever is uncertain ends the try.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::NotifySetupError;
use super::channel::{Channel, Gate, Trouble};
use super::form::{Form, FormSettings, TemplateButtons};
use super::message::{self, Address, Buttons, URL_CHARS_MAX};
use super::receipt::word_of;
use super::refusal::{Class, Refusal, back_off};
use super::text::Letter;
use super::whatsapp::{Answer, WhatsApp, WhatsAppSettings};
use crate::domain::approval::Verdict;
use crate::domain::book::{Person, is_phone};
use crate::store::outbox::{Outcome, Outgoing, Sent};

/// Sends from one number.
pub(super) struct Sender {
    whatsapp: WhatsApp,
    pub(super) channel: Channel,
    forms: FormSettings,
    /// The distance between two messages to one person.
    pub(super) spacing: Duration,
    /// The templates that could not be used when they were last tried; of each that is told once.
    faulty_templates: Mutex<BTreeSet<String>>,
}

impl Sender {
    pub(super) fn new(settings: &WhatsAppSettings) -> Result<Self, NotifySetupError> {
        Ok(Self {
            whatsapp: WhatsApp::new(settings)?,
            channel: Channel::default(),
            forms: settings.forms.clone(),
            spacing: settings.spacing,
            faulty_templates: Mutex::default(),
        })
    }

    /// Whether to send at this time; while a fault stops the channel, the token's file may mend it.
    pub(super) async fn gate(&self, now: DateTime<Utc>) -> Gate {
        if self.channel.trouble() == Some(Trouble::Fault) && self.whatsapp.reload_token().await {
            tracing::info!("the token of whatsapp was replaced");
            self.channel.was_mended();
        }
        self.channel.gate(now)
    }

    /// Sends a notice to a person of the address book, or to the number that the notice names.
    pub(super) async fn send(
        &self,
        notice: &Outgoing,
        letter: &Letter<'_>,
        person: Option<&Person>,
    ) -> Outcome {
        let to = match find_address(notice, person) {
            Ok(to) => to,
            Err(error) => return alone(Sent::Refused { error }),
        };
        let mut is_closed = false;
        let mut last = None;
        for form in self.forms.plan(notice) {
            if is_closed && form.is_free() {
                continue;
            }
            let Some(content) = self.content(form, notice, letter) else { continue };
            let request = message::request(to, content, &word_of(notice, form));
            let answer = self.whatsapp.send(&request).await;
            let refusal = match self.hear(answer, form, notice) {
                Ok(outcome) => return Outcome { is_closed, ..outcome },
                Err(refusal) => refusal,
            };
            is_closed |= refusal.class == Class::Window;
            last = Some(refusal);
        }
        Outcome { is_closed, ..alone(given_up(last, notice)) }
    }

    /// Answers a person who wrote, once: no notice depends on it, but what it shows of the channel is known to all.
    pub(super) async fn answer(
        &self,
        to: Address<'_>,
        text: &str,
        word: &str,
        now: DateTime<Utc>,
    ) -> Answer {
        match self.gate(now).await {
            Gate::Open | Gate::Probe => {}
            Gate::Shut => {
                return Answer::Unreached {
                    error: "the channel takes nothing at present".to_owned(),
                };
            }
        }
        let answer = self.whatsapp.send(&message::request(to, message::text(text), word)).await;
        match &answer {
            Answer::Accepted { .. } => self.channel.works(),
            Answer::Unclear { .. } => {}
            Answer::Unreached { error } => {
                self.stop(Trouble::Away, None, error, now);
            }
            Answer::Refused(refusal) => match refusal.class {
                Class::Configuration => {
                    self.stop(Trouble::Fault, refusal.wait, &refused(refusal), now);
                }
                Class::Rate => {
                    self.stop(Trouble::Rate, refusal.wait, &refused(refusal), now);
                }
                Class::Ambiguous
                | Class::Pair
                | Class::Window
                | Class::Template
                | Class::Undeliverable
                | Class::Permanent => self.channel.works(),
            },
        }
        answer
    }

    /// What an answer ends the try with; a refusal that another form may escape comes back.
    fn hear(&self, answer: Answer, form: Form, notice: &Outgoing) -> Result<Outcome, Refusal> {
        let refusal = match answer {
            Answer::Accepted { message_id } => {
                self.channel.works();
                if let Some(name) = self.forms.template(form, notice.kind.asks()) {
                    self.lock_faulty().remove(name);
                }
                let sent = Sent::Accepted { provider_message_id: message_id };
                return Ok(Outcome { rest: self.spacing, ..alone(sent) });
            }
            Answer::Unclear { error } => {
                return Ok(Outcome { rest: self.spacing, ..alone(Sent::Ambiguous { error }) });
            }
            Answer::Unreached { error } => {
                return Ok(self.hold(Trouble::Away, None, error, notice));
            }
            Answer::Refused(refusal) => refusal,
        };
        let error = refused(&refusal);
        match refusal.class {
            Class::Configuration => {
                return Ok(self.hold(Trouble::Fault, refusal.wait, error, notice));
            }
            Class::Rate => return Ok(self.hold(Trouble::Rate, refusal.wait, error, notice)),
            Class::Ambiguous
            | Class::Pair
            | Class::Window
            | Class::Template
            | Class::Undeliverable
            | Class::Permanent => self.channel.works(),
        }
        match refusal.class {
            Class::Pair => {
                let after = back_off(notice.tries_now()).max(refusal.wait.unwrap_or_default());
                Ok(Outcome { rest: after, ..alone(Sent::Again { after, error }) })
            }
            Class::Undeliverable => Ok(alone(Sent::Refused { error })),
            Class::Template => {
                let name = self.forms.template(form, notice.kind.asks()).unwrap_or_default();
                if self.lock_faulty().insert(name.to_owned()) {
                    tracing::error!(error, template = name, "a whatsapp template cannot be used");
                }
                Err(refusal)
            }
            Class::Ambiguous
            | Class::Window
            | Class::Permanent
            | Class::Configuration
            | Class::Rate => Err(refusal),
        }
    }

    #[cfg(test)]
    pub(super) fn faulty(&self) -> Vec<String> {
        self.lock_faulty().iter().cloned().collect()
    }

    fn lock_faulty(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.faulty_templates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel stops, and the notice waits with all others.
    fn hold(
        &self,
        trouble: Trouble,
        asked: Option<Duration>,
        error: String,
        notice: &Outgoing,
    ) -> Outcome {
        let wait = self.stop(trouble, asked, &error, notice.now);
        // The limit is that of the account, which other servers share; a fault may be this server's alone.
        let after = if trouble == Trouble::Rate { wait } else { Duration::ZERO };
        alone(Sent::Held { after, error })
    }

    /// The channel stops, which is told once; answers for how long.
    fn stop(
        &self,
        trouble: Trouble,
        asked: Option<Duration>,
        error: &str,
        now: DateTime<Utc>,
    ) -> Duration {
        let (wait, is_news) = self.channel.stop(trouble, asked, now);
        match trouble {
            Trouble::Fault if is_news => tracing::error!(
                error,
                "no notice can be sent: the whatsapp account or token needs mending"
            ),
            Trouble::Rate if is_news => {
                tracing::warn!(
                    error,
                    wait_seconds = wait.as_secs(),
                    "whatsapp takes no more for a while"
                );
            }
            Trouble::Away if is_news => {
                tracing::warn!(error, "notices wait until whatsapp can be reached");
            }
            Trouble::Fault | Trouble::Rate | Trouble::Away => {}
        }
        wait
    }

    /// What a form says; `None` if the notice cannot be written in it.
    fn content(&self, form: Form, notice: &Outgoing, letter: &Letter<'_>) -> Option<Value> {
        match form {
            Form::Text => Some(message::text(&letter.whole()?)),
            Form::Link => {
                let (body, opener) = letter.beside_link()?;
                let fits = opener.url.chars().count() <= URL_CHARS_MAX;
                fits.then(|| message::link(&body, opener.title, &opener.url))
            }
            Form::Buttons => {
                let (body, [approve, reject]) = letter.beside_buttons()?;
                let [yes, no] = answers(notice)?;
                Some(message::buttons(&body, [(yes, approve), (no, reject)]))
            }
            Form::Template | Form::Backup => {
                let name = self.forms.template(form, notice.kind.asks())?;
                let buttons = match (notice.kind.asks(), self.forms.template_buttons) {
                    (false, _) => Buttons::None,
                    (true, TemplateButtons::Urls) => {
                        let tokens = notice.tokens.as_ref()?;
                        Buttons::Urls([tokens.approve.clone(), tokens.reject.clone()])
                    }
                    (true, TemplateButtons::Replies) => Buttons::Replies(answers(notice)?),
                };
                let language = self.forms.language_code(letter.language());
                Some(message::template(name, language, &letter.parameters(), &buttons))
            }
        }
    }
}

/// What the buttons of a request answer with: approve, then reject.
fn answers(notice: &Outgoing) -> Option<[String; 2]> {
    let approval_id = notice.approval_id?;
    Some([Verdict::Approve, Verdict::Reject].map(|one| message::answer_of(one, approval_id)))
}

/// How the person is reached, or why they cannot be.
fn find_address<'a>(
    notice: &'a Outgoing,
    person: Option<&'a Person>,
) -> Result<Address<'a>, String> {
    let known = notice.user_id.as_deref();
    match person {
        Some(person) => {
            let phone = person.phone.as_deref().map(Address::Phone);
            let user_id = person.user_id.as_deref().or(known).map(Address::UserId);
            phone.or(user_id).ok_or_else(|| {
                format!(
                    "{} has neither a phone nor a user_id in the address book",
                    notice.recipient
                )
            })
        }
        None if is_phone(&notice.recipient) => Ok(Address::Phone(&notice.recipient)),
        None => Err(format!("{} is not in the address book", notice.recipient)),
    }
}

/// What is left to do once every form was refused, or none came into question.
fn given_up(last: Option<Refusal>, notice: &Outgoing) -> Sent {
    let Some(refusal) = last else {
        let before = notice.last_error.clone().map(|error| error + "; ").unwrap_or_default();
        let error = format!(
            "{before}the person has not written within 24 hours, and no template that could be sent is configured"
        );
        return Sent::Refused { error };
    };
    let error = refused(&refusal);
    match refusal.class {
        // It may be approved, or resumed, any hour.
        Class::Template => Sent::Again { after: back_off(notice.tries_now()), error },
        Class::Ambiguous
        | Class::Rate
        | Class::Pair
        | Class::Window
        | Class::Undeliverable
        | Class::Permanent
        | Class::Configuration => Sent::Refused { error },
    }
}

fn refused(refusal: &Refusal) -> String {
    format!("whatsapp refused the message: {}", refusal.words)
}

/// What says nothing of the person.
fn alone(sent: Sent) -> Outcome {
    Outcome { sent, rest: Duration::ZERO, is_closed: false }
}
