"""WhatsApp as pywa sees it: what it sends is taken, what it is told it can read, and errors are its own.

Nothing in pywa is changed but the address of the Graph API, in the HTTP client that it is given.
"""

import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from conftest import PHONE_NUMBER_ID
from pywa import WhatsApp, errors, utils
from pywa.types import Button, CallbackButton, Message, MessageStatus, URLButton
from pywa.types.message_status import MessageStatusType
from pywa.types.templates import (
    BodyText,
    QuickReplyButton,
    TemplateLanguage,
    TemplateStatus,
    TemplateStatusUpdate,
)
from pywa.types.templates import URLButton as TemplateURLButton

PERSON = "+15550001111"
SECRET = "the app's secret"
TOKEN = "EAAtoken"


class Webhook:
    """A client of WhatsApp with a webhook that the sandbox tells what happens."""

    def __init__(self, sandbox):
        self.updates = queue.Queue()
        self.refused = queue.Queue()
        session = httpx.Client()
        self.wa = WhatsApp(PHONE_NUMBER_ID, TOKEN, session=session, app_secret=SECRET, server=None,
                           verify_token="the word", waba_id="102290129340398")
        session.base_url = f"{sandbox.url}/v26.0"
        for listen in (self.wa.on_message, self.wa.on_callback_button, self.wa.on_message_status,
                       self.wa.on_template_status_update):
            listen(lambda _, update: self.updates.put(update))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_port}/"
        sandbox.set(webhook_url=url, app_secret=SECRET, status_ms=0, token=TOKEN)

    def _handler(self):
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                answer = webhook.wa.webhook_update_validator(body, self.headers[utils.HUB_SIG])
                if answer:
                    webhook.refused.put(answer)
                else:
                    answer = webhook.wa.webhook_update_handler(body)
                self.send_response(answer[1])
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler

    def next(self, kind):
        update = self.updates.get(timeout=30)
        assert isinstance(update, kind), update
        return update

    def statuses(self, *expected):
        """The next statuses, which have to be these."""
        found = [self.next(MessageStatus) for _ in expected]
        assert [one.status for one in found] == list(expected)
        return found

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        assert self.refused.empty(), "every body was signed"


@pytest.fixture
def webhook(sandbox):
    webhook = Webhook(sandbox)
    yield webhook
    webhook.close()


SENT = MessageStatusType.SENT
DELIVERED = MessageStatusType.DELIVERED
READ = MessageStatusType.READ
FAILED = MessageStatusType.FAILED


def test_a_text_is_sent_delivered_and_read(sandbox, webhook):
    sent = webhook.wa.send_message(PERSON, "请批准 / ok?", tracker="job:1")
    assert sent.id.startswith("wamid.") and sent.input == PERSON
    first, second = webhook.statuses(SENT, DELIVERED)
    assert first.id == second.id == sent.id
    assert first.tracker == "job:1" and first.pricing.billable
    assert first.from_user.wa_id == PERSON[1:] and first.from_user.bsuid.startswith("US.")
    sandbox.open_chat(PERSON)
    webhook.statuses(READ)
    [message] = sandbox.messages(1)
    assert (message["text"], message["status"]) == ("请批准 / ok?", "read")


def test_a_typed_answer_is_read(sandbox, webhook):
    sent = webhook.wa.send_message(PERSON, "Ship it?")
    webhook.statuses(SENT, DELIVERED)
    written = sandbox.write(PERSON, text="批准", message=sent.id)
    assert written["answered"] == [200]
    message = webhook.next(Message)
    assert (message.id, message.text) == (written["id"], "批准")
    assert message.from_user.wa_id == PERSON[1:] and message.from_user.name == "Phone 1111"
    assert message.reply_to_message.id == sent.id
    # To an answer one answers by the user id, which leads to the same phone.
    message.reply("Thank you.")
    webhook.statuses(SENT, DELIVERED)
    assert [one["to"] for one in sandbox.messages(2)] == [PERSON, PERSON]


def test_a_person_without_a_number_is_known_by_the_user_id(sandbox, webhook):
    sandbox.write(PERSON, text="ok", user_id_only=True)
    message = webhook.next(Message)
    assert message.from_user.wa_id is None and message.from_user.bsuid.startswith("US.")


def test_reply_buttons_are_shown_and_tapped(sandbox, webhook):
    buttons = [Button("Approve", "apr:7:ok"), Button("Reject", "apr:7:no")]
    sent = webhook.wa.send_message(
        PERSON, "Ship it?", header="Job 7", footer="Longhaul", buttons=buttons
    )
    webhook.statuses(SENT, DELIVERED)
    sandbox.write(PERSON, tap="Reject")
    tapped = webhook.next(CallbackButton)
    assert (tapped.data, tapped.title) == ("apr:7:no", "Reject")
    assert not tapped.is_quick_reply and tapped.reply_to_message.id == sent.id


def test_a_button_leads_to_a_page(sandbox, webhook):
    url = "https://x.example/approvals/t"
    webhook.wa.send_message(PERSON, "Ship it?", buttons=URLButton("Review request", url))
    [message] = sandbox.messages(1)
    assert message["buttons"] == [{"label": "Review request", "url": url}]


def test_a_template_with_two_links_is_filled(sandbox, webhook):
    sandbox.set(public_url="https://x.example")
    sent = webhook.wa.send_template(
        PERSON,
        "approval_request",
        TemplateLanguage.PORTUGUESE_BR,
        params=[
            BodyText.params("relatório", "Publicar?", "17:30"),
            TemplateURLButton.params(url_variable="token-a", index=0),
            TemplateURLButton.params(url_variable="token-b", index=1),
        ],
    )
    assert sent.status.value == "accepted"
    [message] = sandbox.messages(1)
    assert message["buttons"] == [
        {"label": "Aprovar", "url": "https://x.example/approvals/token-a"},
        {"label": "Rejeitar", "url": "https://x.example/approvals/token-b"},
    ]


def test_a_quick_reply_of_a_template_is_tapped(sandbox, webhook):
    replies = [{"type": "QUICK_REPLY", "text": text} for text in ("Approve", "Reject")]
    body = {"type": "BODY", "text": "Ship it?"}
    sandbox.add_template(
        name="quick", language="en_US", components=[body, {"type": "BUTTONS", "buttons": replies}]
    )
    sent = webhook.wa.send_template(
        PERSON,
        "quick",
        TemplateLanguage.ENGLISH_US,
        params=[
            QuickReplyButton.params(callback_data="apr:7:ok", index=0),
            QuickReplyButton.params(callback_data="apr:7:no", index=1),
        ],
    )
    webhook.statuses(SENT, DELIVERED)
    sandbox.write(PERSON, tap="Approve")
    tapped = webhook.next(CallbackButton)
    assert (tapped.data, tapped.title) == ("apr:7:ok", "Approve")
    assert tapped.is_quick_reply and tapped.reply_to_message.id == sent.id
    sandbox.add_template(name="quick", status="PAUSED")
    assert webhook.next(TemplateStatusUpdate).new_status == TemplateStatus.PAUSED
    with pytest.raises(errors.TemplatePaused):
        webhook.wa.send_template(PERSON, "quick", TemplateLanguage.ENGLISH_US, params=[])


def test_a_message_that_fails_says_why(sandbox, webhook):
    sandbox.break_whatsapp({"fail_code": 131026, "details": "Message Undeliverable."})
    webhook.wa.send_message(PERSON, "Ship it?", tracker="job:1")
    _, failed = webhook.statuses(SENT, FAILED)
    assert isinstance(failed.error, errors.MessageUndeliverable)
    assert failed.error.details == "Message Undeliverable." and failed.tracker == "job:1"
    sandbox.mend()
    sandbox.set(window="fail")
    webhook.wa.send_message(PERSON, "Ship it?")
    [failed] = webhook.statuses(FAILED)
    assert isinstance(failed.error, errors.ReEngagementMessage)


def test_refusals_are_errors_of_their_own(sandbox, webhook):
    wa = webhook.wa
    with pytest.raises(errors.TemplateNotExists):
        wa.send_template(PERSON, "approval_request", TemplateLanguage.GERMAN, params=[])
    with pytest.raises(errors.TemplateParamCountMismatch):
        wa.send_template(PERSON, "job_notice", TemplateLanguage.ENGLISH_US, params=[])
    with pytest.raises(errors.InvalidParameter):
        wa.send_message("+1", "Ship it?")
    with pytest.raises(errors.MissingRequiredParameter) as missing:
        wa.send_template(PERSON, "approval_request", TemplateLanguage.ENGLISH_US,
                         params=[BodyText.params("a", "b", "c")])
    assert "index 0 of type Url requires a parameter" in missing.value.details
    for code, kind in [
        (4, errors.ToManyAPICalls), (10, errors.PermissionDenied), (200, errors.APIPermission),
        (368, errors.TemporarilyBlocked), (80007, errors.RateLimitIssues),
        (130429, errors.RateLimitHit), (131000, errors.UnknownError),
        (131016, errors.ServiceUnavailable), (131048, errors.SpamRateLimitHit),
        (131056, errors.TooManyMessages),
    ]:
        sandbox.break_whatsapp({"code": code, "times": 1})
        with pytest.raises(kind) as refused:
            wa.send_message(PERSON, "Ship it?")
        assert (refused.value.code, refused.value.type) == (code, "OAuthException")
        assert refused.value.fbtrace_id
    sandbox.set(window="refuse")
    with pytest.raises(errors.ReEngagementMessage):
        wa.send_message(PERSON, "Ship it?")
    sandbox.set(expired_token=TOKEN)
    with pytest.raises(errors.ExpiredAccessToken) as expired:
        wa.send_message(PERSON, "Ship it?")
    assert expired.value.subcode == 463


def test_only_what_is_signed_is_taken(sandbox, webhook):
    sandbox.set(app_secret="another secret")
    assert sandbox.write(PERSON, text="ok")["answered"] == [403]
    assert webhook.refused.get(timeout=30)[1] == 403
    # It is told again until it is taken, which now it is.
    sandbox.set(app_secret=SECRET)
    assert webhook.next(Message).text == "ok"
    while not webhook.refused.empty():
        webhook.refused.get()
