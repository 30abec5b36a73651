// Message batches from their creation to their deletion, then models and the counting of tokens.

import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';

import { failure, MODEL, question, withSandbox } from './sandbox.js';

function requests(...ids: string[]): Anthropic.Messages.BatchCreateParams.Request[] {
  return ids.map((custom_id) => ({ custom_id, params: question() }));
}

withSandbox('a batch is answered when it has ended', async (sandbox, client) => {
  const { batches } = client.messages;
  await sandbox.breakModel({ on: 'batch_create', batch_hold: true });
  const batch = await batches.create({ requests: requests('a', 'b', 'c') });
  assert.equal(batch.processing_status, 'in_progress');
  assert.equal(batch.request_counts.processing, 3);
  await assert.rejects(batches.results(batch.id), Anthropic.AnthropicError);
  await sandbox.mend();
  const ended = await batches.retrieve(batch.id);
  assert.equal(ended.processing_status, 'ended');
  assert.equal(ended.request_counts.succeeded, 3);
  assert.equal(ended.results_url, `${sandbox.url}/v1/messages/batches/${batch.id}/results`);
  const now = await client.messages.create(question());
  const ids: string[] = [];
  for await (const { custom_id, result } of await batches.results(batch.id)) {
    ids.push(custom_id);
    assert.ok(result.type === 'succeeded');
    assert.deepEqual(result.message.content, now.content);
    assert.equal(result.message.usage.service_tier, 'batch');
  }
  assert.deepEqual(ids, ['b', 'a', 'c']);
});

withSandbox('each request has its own result', async (sandbox, client) => {
  const { batches } = client.messages;
  await sandbox.breakModel(
    { on: 'batch_create', batch_ms: 0 },
    { on: 'batch_request', matching: 'busy', status: 529 },
    { on: 'batch_request', matching: 'late', expire: true },
  );
  const batch = await batches.create({ requests: requests('good', 'busy', 'late') });
  const { request_counts: counts } = await batches.retrieve(batch.id);
  assert.deepEqual([counts.succeeded, counts.errored, counts.expired], [1, 1, 1]);
  const kinds: Record<string, string> = {};
  for await (const { custom_id, result } of await batches.results(batch.id)) {
    kinds[custom_id] = result.type === 'errored' ? result.error.error.type : result.type;
  }
  assert.deepEqual(kinds, { good: 'succeeded', busy: 'overloaded_error', late: 'expired' });
});

withSandbox('a canceled batch keeps what was done', async (sandbox, client) => {
  const { batches } = client.messages;
  await sandbox.breakModel(
    { on: 'batch_create', batch_hold: true, batch_done: 1 },
    { on: 'batch_cancel', batch_hold: true },
  );
  const batch = await batches.create({ requests: requests('a', 'b') });
  assert.equal((await batches.cancel(batch.id)).processing_status, 'canceling');
  await failure(batches.delete(batch.id), Anthropic.BadRequestError);
  await sandbox.mend();
  const { request_counts: counts } = await batches.retrieve(batch.id);
  assert.deepEqual([counts.succeeded, counts.canceled], [1, 1]);
  assert.equal((await batches.delete(batch.id)).type, 'message_batch_deleted');
  await failure(batches.retrieve(batch.id), Anthropic.NotFoundError);
});

withSandbox('batches are listed newest first and in pages', async (_, client) => {
  const { batches } = client.messages;
  const made: string[] = [];
  for (let n = 0; n < 5; n++) {
    made.unshift((await batches.create({ requests: requests('a') })).id);
  }
  const listed: string[] = [];
  for await (const batch of batches.list({ limit: 2 })) listed.push(batch.id);
  assert.deepEqual(listed, made);
  const page = await batches.list({ limit: 2, before_id: made[3] as string });
  const ids = page.data.map((batch) => batch.id);
  assert.deepEqual([ids, page.has_more], [made.slice(1, 3), true]);
});

withSandbox('a batch may be found late, or be made untold', async (sandbox, client) => {
  const { batches } = client.messages;
  await sandbox.breakModel({ on: 'batch_create', batch_unseen: 1 });
  const batch = await batches.create({ requests: requests('a') });
  await failure(batches.retrieve(batch.id), Anthropic.NotFoundError);
  assert.equal((await batches.retrieve(batch.id)).id, batch.id);
  await sandbox.breakModel({ on: 'batch_create', lose_reply: true });
  const lost = batches.create({ requests: requests('b') });
  await failure(lost, Anthropic.APIConnectionError);
  assert.equal((await batches.list()).data.length, 2);
});

withSandbox('models are listed and found by alias', async (_, client) => {
  const ids: string[] = [];
  for await (const model of client.models.list({ limit: 5 })) ids.push(model.id);
  assert.ok(ids.length > 15 && new Set(ids).size === ids.length);
  assert.ok(ids.includes(MODEL));
  const model = await client.models.retrieve('claude-haiku-4-5');
  assert.deepEqual([model.id, model.max_tokens], ['claude-haiku-4-5-20251001', 64_000]);
  await failure(client.models.retrieve('claude-9'), Anthropic.NotFoundError);
});

withSandbox('tokens are counted as a message would bill them', async (_, client) => {
  const { model, messages } = question();
  const counted = await client.messages.countTokens({ model, messages });
  const message = await client.messages.create(question());
  assert.equal(counted.input_tokens, message.usage.input_tokens);
});
