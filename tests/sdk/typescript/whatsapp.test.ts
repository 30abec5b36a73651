// WhatsApp as a client for TypeScript sees it: what it sends is taken, what it is told it can read.
// Nothing in the client is changed; the address of the Graph API is one of its options.

import { GraphApiError, WhatsAppClient } from '@kapso/whatsapp-cloud-api';
import { normalizeWebhook, verifySignature } from '@kapso/whatsapp-cloud-api/server';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { failure, type Sandbox, withSandbox } from './sandbox.js';

type Told = ReturnType<typeof normalizeWebhook>;

const TO = { phoneNumberId: '106540352242922', to: '+15550001111' };
const FROM = TO.to;
const SECRET = "the app's secret";
const TOKEN = 'EAAtoken';

/** A webhook that verifies and reads what it is told. */
class Webhook {
  readonly #told: Told[] = [];
  readonly #server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const rawBody = Buffer.concat(parts);
      const signatureHeader = String(request.headers['x-hub-signature-256']);
      const isSigned = verifySignature({ appSecret: SECRET, rawBody, signatureHeader });
      if (isSigned) {
        this.#told.push(normalizeWebhook(JSON.parse(rawBody.toString('utf8'))));
        this.#server.emit('told');
      }
      response.writeHead(isSigned ? 200 : 401).end();
    });
  });

  /** Listens to what the sandbox tells. */
  async open(sandbox: Sandbox): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = this.#server.address() as AddressInfo;
    const webhook_url = `http://127.0.0.1:${port}/`;
    await sandbox.set({ webhook_url, app_secret: SECRET, status_ms: 0, token: TOKEN });
  }

  /** The next that it is told. */
  async next(): Promise<Told> {
    while (!this.#told.length) await once(this.#server, 'told');
    return this.#told.shift()!;
  }

  /** The next message of a person. */
  async message(): Promise<Told['messages'][number]> {
    const [message] = (await this.next()).messages;
    assert.ok(message);
    return message;
  }

  /** The next statuses, which have to be these. */
  async statuses(...expected: string[]): Promise<Told['statuses']> {
    const found = [];
    for (const _ of expected) found.push(...(await this.next()).statuses);
    assert.deepEqual(found.map((one) => one.status), expected);
    return found;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

function withWhatsapp(
  name: string,
  body: (sandbox: Sandbox, whatsapp: WhatsAppClient, webhook: Webhook) => Promise<void>,
): void {
  withSandbox(name, async (sandbox) => {
    const webhook = new Webhook();
    try {
      await webhook.open(sandbox);
      const options = { baseUrl: sandbox.url, graphVersion: 'v26.0', accessToken: TOKEN };
      await body(sandbox, new WhatsAppClient(options), webhook);
    } finally {
      webhook.close();
    }
  });
}

withWhatsapp('a text is sent, delivered, and read', async (sandbox, whatsapp, webhook) => {
  const sent = await whatsapp.messages.sendText({ ...TO, body: '请批准 / ok?' });
  const id = sent.messages[0]!.id;
  assert.match(id, /^wamid\./);
  assert.equal(sent.contacts[0]!.waId, '15550001111');
  const [first, second] = await webhook.statuses('sent', 'delivered');
  assert.deepEqual([first!.id, second!.id], [id, id]);
  assert.deepEqual([first!.recipientId, first!.errors], ['15550001111', undefined]);
  assert.match(first!.recipientUserId!, /^US\./);
  await sandbox.openChat(FROM);
  await webhook.statuses('read');
});

withWhatsapp('answers are read, with and without a number', async (sandbox, whatsapp, webhook) => {
  await sandbox.write({ from: FROM, text: '批准' });
  const told = await webhook.next();
  assert.equal(told.messages[0]!.text?.body, '批准');
  assert.equal(told.contacts[0]!.waId, '15550001111');
  await sandbox.write({ from: FROM, text: 'ok', user_id_only: true });
  const hidden = await webhook.next();
  const recipient = hidden.contacts[0]!.userId!;
  assert.equal(hidden.contacts[0]!.waId, undefined);
  const { phoneNumberId } = TO;
  const sent = await whatsapp.messages.sendText({ phoneNumberId, recipient, body: 'Thank you.' });
  assert.equal(sent.contacts[0]!.userId, recipient);
});

withWhatsapp('buttons are shown and tapped', async (sandbox, whatsapp, webhook) => {
  const buttons = [
    { id: 'apr:7:ok', title: 'Approve' },
    { id: 'apr:7:no', title: 'Reject' },
  ];
  const sent = await whatsapp.messages.sendInteractiveButtons({
    ...TO, bodyText: 'Ship it?', footerText: 'Longhaul', buttons,
  });
  await webhook.statuses('sent', 'delivered');
  await sandbox.write({ from: FROM, tap: 'Approve' });
  const tapped = await webhook.message();
  assert.equal(tapped.context?.id, sent.messages[0]!.id);
  assert.deepEqual(tapped['interactive'], {
    type: 'button_reply', buttonReply: { id: 'apr:7:ok', title: 'Approve' },
  });
  await whatsapp.messages.sendInteractiveCtaUrl({
    ...TO, bodyText: 'Ship it?',
    parameters: { displayText: 'Review request', url: 'https://x.example/approvals/t' },
  });
  await webhook.statuses('sent', 'delivered');
});

withWhatsapp('templates are filled, listed and tapped', async (sandbox, whatsapp, webhook) => {
  const listed = await whatsapp.templates.list({
    businessAccountId: '102290129340398', name: 'approval_request',
  });
  assert.deepEqual(listed.data.map((one) => one.status), ['APPROVED', 'APPROVED', 'APPROVED']);
  const text = (text: string) => ({ type: 'text' as const, text });
  const link = (index: number, token: string) => ({
    type: 'button' as const, subType: 'url' as const, index, parameters: [text(token)],
  });
  const components = [
    { type: 'body' as const, parameters: [text('nightly'), text('Ship it?'), text('17:30')] },
    link(0, 'token-a'), link(1, 'token-b'),
  ];
  const language = { code: 'en_US' };
  const template = { name: 'approval_request', language, components };
  const sent = await whatsapp.messages.sendTemplate({ ...TO, template });
  assert.equal(sent.messages[0]!.messageStatus, 'accepted');
  await webhook.statuses('sent', 'delivered');
  await sandbox.addTemplate({ name: 'quick', language: 'en_US', components: [
    { type: 'BODY', text: 'Ship it?' },
    { type: 'BUTTONS', buttons: [{ type: 'QUICK_REPLY', text: 'Approve' }] },
  ] });
  const reply = {
    type: 'button' as const, subType: 'quick_reply' as const, index: 0,
    parameters: [{ type: 'payload' as const, payload: 'apr:7:ok' }],
  };
  const quick = { name: 'quick', language, components: [reply] };
  const asked = await whatsapp.messages.sendTemplate({ ...TO, template: quick });
  await webhook.statuses('sent', 'delivered');
  await sandbox.write({ from: FROM, tap: 'Approve' });
  const tapped = await webhook.message();
  assert.equal(tapped.type, 'button');
  assert.deepEqual(tapped['button'], { payload: 'apr:7:ok', text: 'Approve' });
  assert.equal(tapped.context?.id, asked.messages[0]!.id);
});

withWhatsapp('errors are sorted as the client sorts them', async (sandbox, whatsapp, webhook) => {
  const send = () => whatsapp.messages.sendText({ ...TO, body: 'Ship it?' });
  for (const [code, category] of [
    [131_056, 'throttling'], [130_429, 'throttling'], [132_001, 'template'], [131_016, 'server'],
    [131_047, 'reengagementWindow'], [368, 'integrity'], [10, 'permission'],
  ] as const) {
    await sandbox.breakWhatsapp({ code, times: 1, retry_after_seconds: 7 });
    const error = await failure(send(), GraphApiError);
    assert.deepEqual([error.code, error.category], [code, category]);
    assert.ok(error.fbtraceId);
    if (category === 'throttling') assert.equal(error.retry.retryAfterMs, 7000);
  }
  await sandbox.set({ expired_token: TOKEN });
  const expired = await failure(send(), GraphApiError);
  assert.ok(expired.isAuthError() && expired.requiresTokenRefresh());
  assert.equal(expired.errorSubcode, 463);
  await sandbox.set({ expired_token: '', window: 'fail' });
  await send();
  const [failed] = await webhook.statuses('failed');
  assert.equal(failed!.errors![0]!['code'], 131_047);
});
