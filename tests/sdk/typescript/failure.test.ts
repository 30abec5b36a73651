// Every error of the provider, as the client raises it, and what it tries again.

import Anthropic, { APIError } from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';

import { failure, question, withSandbox } from './sandbox.js';

const CLASSES = [
  [400, Anthropic.BadRequestError, 'invalid_request_error'],
  [401, Anthropic.AuthenticationError, 'authentication_error'],
  [402, Anthropic.PaymentRequiredError, 'billing_error'],
  [403, Anthropic.PermissionDeniedError, 'permission_error'],
  [404, Anthropic.NotFoundError, 'not_found_error'],
  [408, Anthropic.RequestTimeoutError, 'invalid_request_error'],
  [409, Anthropic.ConflictError, 'conflict_error'],
  [412, Anthropic.PreconditionFailedError, 'invalid_request_error'],
  [413, Anthropic.ContentTooLargeError, 'request_too_large'],
  [422, Anthropic.UnprocessableEntityError, 'invalid_request_error'],
  [429, Anthropic.RateLimitError, 'rate_limit_error'],
  [431, Anthropic.RequestHeaderFieldsTooLargeError, 'invalid_request_error'],
  [499, Anthropic.ClientClosedRequestError, 'invalid_request_error'],
  [500, Anthropic.InternalServerError, 'api_error'],
  [501, Anthropic.NotImplementedError, 'api_error'],
  [503, Anthropic.ServiceUnavailableError, 'api_error'],
  [504, Anthropic.GatewayTimeoutError, 'timeout_error'],
  [529, Anthropic.OverloadedError, 'overloaded_error'],
] as const;

withSandbox('a status is raised as its own class', async (sandbox, client) => {
  for (const [status, kind, type] of CLASSES) {
    const headers = { 'anthropic-ratelimit-requests-remaining': '7' };
    await sandbox.breakModel({ status, retry_after_seconds: 3, headers });
    const error = await failure<APIError>(client.messages.create(question()), kind);
    assert.deepEqual([error.status, error.type], [status, type]);
    assert.equal(error.headers?.get('retry-after'), '3');
    assert.equal(error.headers?.get('anthropic-ratelimit-requests-remaining'), '7');
    const entry = (await sandbox.requests(1, { outcome: 'failed' })).at(-1);
    assert.deepEqual([entry?.request_id, entry?.status], [error.requestID, status]);
  }
});

withSandbox('the kind of limit is told by its code', async (sandbox, client) => {
  for (const [code, kind] of [
    ['enforced_spend_limit_reached', Anthropic.EnforcedSpendLimitReachedError],
    ['contract_spend_limit_reached', Anthropic.ContractSpendLimitReachedError],
    ['ramp_limit_exceeded', Anthropic.RampLimitExceededError],
  ] as const) {
    await sandbox.breakModel({ status: 429, error_code: code });
    const error = await failure<APIError>(client.messages.create(question()), kind);
    assert.ok(error instanceof Anthropic.RateLimitError);
    assert.equal(error.errorCode, code);
    assert.equal(error.headers.get('retry-after'), null);
  }
});

withSandbox('the own spend limit is told by its message', async (sandbox, client) => {
  const error_message = 'You have reached your specified API usage limits.';
  await sandbox.breakModel({ status: 400, error_message });
  const error = await failure(client.messages.create(question()), Anthropic.BadRequestError);
  assert.equal(error.apiMessage, error_message);
});

withSandbox('what passes is tried again', async (sandbox, client) => {
  const eager = client.withOptions({ maxRetries: 2 });
  await sandbox.breakModel({ status: 529, times: 2, retry_after_ms: 1 });
  assert.equal((await eager.messages.create(question())).stop_reason, 'end_turn');
  const entries = await sandbox.requests(3);
  assert.deepEqual(entries.map((entry) => entry.status), [529, 529, 200]);
  const counts = entries.map((entry) => entry.headers['x-stainless-retry-count']);
  assert.deepEqual(counts, ['0', '1', '2']);
});

withSandbox('the provider decides whether to try again', async (sandbox, client) => {
  const eager = client.withOptions({ maxRetries: 2 });
  await sandbox.breakModel({ status: 529, should_retry: false });
  await failure(eager.messages.create(question()), Anthropic.OverloadedError);
  assert.equal((await sandbox.requests(1)).length, 1);
  await sandbox.breakModel({ status: 400, should_retry: true, retry_after_ms: 1, times: 1 });
  assert.equal((await eager.messages.create(question())).stop_reason, 'end_turn');
  assert.equal((await sandbox.requests(3)).length, 3);
});

withSandbox('a limit refuses what is beyond it', async (sandbox, client) => {
  await sandbox.breakModel({ per_second: 0 });
  const error = await failure(client.messages.create(question()), Anthropic.RateLimitError);
  assert.equal(error.headers.get('anthropic-ratelimit-requests-limit'), '0');
  assert.equal(error.headers.get('retry-after'), '1');
  await sandbox.breakModel({ per_second: 1000 });
  const { response } = await client.messages.create(question()).withResponse();
  assert.equal(response.headers.get('anthropic-ratelimit-requests-remaining'), '999');
});

withSandbox('a lost answer and a late one are connection errors', async (sandbox, client) => {
  await sandbox.breakModel({ lose_reply: true });
  await failure(client.messages.create(question()), Anthropic.APIConnectionError);
  await sandbox.breakModel({ hold: true });
  const late = client.withOptions({ timeout: 500 }).messages.create(question());
  await failure(late, Anthropic.APIConnectionTimeoutError);
  const [gone] = await sandbox.requests(1, { outcome: 'disconnected' });
  assert.equal(gone?.status, null);
});

withSandbox('an aborted request is seen to be gone', async (sandbox, client) => {
  await sandbox.breakModel({ hold: true });
  const abort = new AbortController();
  const asking = client.messages.create(question(), { signal: abort.signal });
  const raised = failure(asking, Anthropic.APIUserAbortError);
  await sandbox.requests(1, { outcome: 'held' });
  abort.abort();
  await raised;
  await sandbox.requests(1, { outcome: 'disconnected' });
});
