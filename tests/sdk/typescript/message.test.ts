// Messages, whole and streamed.

import Anthropic from '@anthropic-ai/sdk';
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema';
import assert from 'node:assert/strict';

import { failure, MODEL, question, withSandbox } from './sandbox.js';

const SEARCH: Anthropic.ToolUnion = {
  type: 'web_search_20260318',
  name: 'web_search',
  allowed_callers: ['direct'],
};

function textOf(block: Anthropic.ContentBlock | undefined): string {
  assert.equal(block?.type, 'text');
  return (block as Anthropic.TextBlock).text;
}

withSandbox('a message is answered and journaled', async (sandbox, client) => {
  const message = await client.messages.create(question());
  assert.deepEqual([message.type, message.role, message.model], ['message', 'assistant', MODEL]);
  assert.equal(message.stop_reason, 'end_turn');
  assert.match(textOf(message.content[0]), /risks of a Friday deployment/);
  assert.ok(message.usage.output_tokens > 10);
  assert.equal(message.usage.service_tier, 'standard');
  const [entry] = await sandbox.requests(1, { outcome: 'answered' });
  assert.equal(entry?.request_id, message._request_id);
  assert.equal(entry?.headers['anthropic-version'], '2026-10-21');
  assert.equal(entry?.headers['authorization'] ?? entry?.headers['x-api-key'], 'Bearer ***');
  assert.deepEqual(entry?.body, question());
});

withSandbox('an answer ends where it is told to', async (_, client) => {
  const whole = textOf((await client.messages.create(question())).content[0]);
  const word = whole.split(' ')[5] as string;
  const stopped = await client.messages.create(question({ stop_sequences: [word] }));
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', word]);
  assert.ok(whole.startsWith(textOf(stopped.content[0]) + word));
  const cut = await client.messages.create(question({ max_tokens: 5 }));
  assert.deepEqual([cut.stop_reason, cut.usage.output_tokens], ['max_tokens', 5]);
});

withSandbox('a scripted stop reason arrives, also an unknown one', async (sandbox, client) => {
  for (const reason of ['refusal', 'model_context_window_exceeded', 'brand_new']) {
    await sandbox.breakModel({ stop_reason: reason });
    const message = await client.messages.create(question());
    assert.equal(message.stop_reason, reason);
  }
});

withSandbox('a stream brings the same answer in pieces', async (_, client) => {
  const whole = await client.messages.create(question());
  const pieces: string[] = [];
  const stream = client.messages.stream(question()).on('text', (piece) => pieces.push(piece));
  const final = await stream.finalMessage();
  assert.ok(pieces.length > 3);
  assert.equal(pieces.join(''), textOf(whole.content[0]));
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

withSandbox('a streamed search is cited and can be sent back', async (_, client) => {
  const asked = question({ tools: [SEARCH] });
  const final = await client.messages.stream(asked).finalMessage();
  const [search, found, text] = final.content;
  assert.ok(search?.type === 'server_tool_use' && found?.type === 'web_search_tool_result');
  assert.ok(text?.type === 'text' && Array.isArray(found.content));
  assert.equal(found.tool_use_id, search.id);
  const citation = text.citations?.[0];
  assert.ok(citation?.type === 'web_search_result_location');
  assert.equal(citation.url, found.content[0]?.url);
  assert.equal(citation.cited_text, text.text.trim());
  assert.equal(final.usage.server_tool_use?.web_search_requests, 1);
  const messages: Anthropic.MessageParam[] = [
    ...asked.messages,
    { role: 'assistant', content: final.content },
    ...asked.messages,
  ];
  const again = await client.messages.create({ ...asked, messages });
  assert.equal(again.stop_reason, 'end_turn');
  (found.content[0] as Anthropic.WebSearchResultBlock).encrypted_content = 'changed';
  const changed = client.messages.create({ ...asked, messages });
  assert.match((await failure(changed, Anthropic.BadRequestError)).message, /encrypted_content/);
});

withSandbox('a paused turn is gone on with', async (sandbox, client) => {
  await sandbox.breakModel({ stop_reason: 'pause_turn', times: 1 });
  const asked = question({ tools: [SEARCH] });
  const paused = await client.messages.stream(asked).finalMessage();
  assert.equal(paused.stop_reason, 'pause_turn');
  const pending = paused.content.at(-1);
  assert.ok(pending?.type === 'server_tool_use');
  const said: Anthropic.MessageParam = { role: 'assistant', content: paused.content };
  const messages = [...asked.messages, said];
  const final = await client.messages.create({ ...asked, messages });
  assert.equal(final.stop_reason, 'end_turn');
  const found = final.content[0];
  assert.ok(found?.type === 'web_search_tool_result');
  assert.equal(found.tool_use_id, pending.id);
});

withSandbox('thinking is streamed and signed', async (_, client) => {
  const asked = question({
    model: 'claude-opus-5-5',
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort: 'low' },
  });
  const pieces: string[] = [];
  const stream = client.messages.stream(asked).on('thinking', (piece) => pieces.push(piece));
  const final = await stream.finalMessage();
  const thought = final.content[0];
  assert.ok(thought?.type === 'thinking');
  assert.equal(pieces.join(''), thought.thinking);
  assert.ok(thought.signature);
  assert.ok((final.usage.output_tokens_details?.thinking_tokens ?? 0) > 0);
});

withSandbox('a structured answer fits its schema', async (_, client) => {
  const format = jsonSchemaOutputFormat({
    type: 'object',
    properties: {
      verdict: { type: 'string', enum: ['good', 'bad'] },
      score: { type: 'integer' },
      fits: { type: 'boolean' },
      risks: { type: 'array', items: { type: 'string' } },
    },
    required: ['verdict', 'score', 'fits', 'risks'],
    additionalProperties: false,
  } as const);
  const message = await client.messages.parse(question({ output_config: { format } }));
  const parsed = message.parsed_output as
    | { verdict: string; score: number; fits: boolean; risks: string[] }
    | null;
  assert.ok(parsed && ['good', 'bad'].includes(parsed.verdict));
  assert.ok(Number.isInteger(parsed.score) && typeof parsed.fits === 'boolean');
  assert.equal(typeof parsed.risks[0], 'string');
});

withSandbox('a prefix is written to the cache and then read', async (sandbox, client) => {
  const text = 'Be brief. '.repeat(400);
  const system: Anthropic.TextBlockParam[] = [
    { type: 'text', text, cache_control: { type: 'ephemeral' } },
  ];
  const { usage: written } = await client.messages.create(question({ system }));
  const { usage: read } = await client.messages.create(question({ system }));
  assert.equal(written.cache_creation?.ephemeral_5m_input_tokens, 1000);
  assert.equal(written.cache_read_input_tokens, 0);
  assert.deepEqual([read.cache_creation_input_tokens, read.cache_read_input_tokens], [0, 1000]);
  assert.equal(read.input_tokens, written.input_tokens);
  await sandbox.set({ clock_ahead_seconds: 301 });
  const late = await client.messages.stream(question({ system })).finalMessage();
  assert.equal(late.usage.cache_creation_input_tokens, 1000);
});

withSandbox('a stream that breaks fails in its own way', async (sandbox, client) => {
  await sandbox.breakModel({ error_after_events: 5 });
  const told = await client.messages.stream(question()).finalMessage().catch((error) => error);
  assert.ok(told instanceof Anthropic.APIError);
  assert.equal(told.type, 'overloaded_error');
  await sandbox.breakModel({ cut_after_events: 5 });
  await assert.rejects(client.messages.stream(question()).finalMessage());
  await sandbox.breakModel({ end_after_events: 5 });
  await assert.rejects(client.messages.stream(question()).finalMessage());
});

withSandbox('a held stream goes on when it is let', async (sandbox, client) => {
  await sandbox.breakModel({ hold_after_events: 5 });
  const names: string[] = [];
  for await (const event of client.messages.stream(question())) {
    if (names.push(event.type) === 1) {
      await sandbox.requests(1, { outcome: 'held' });
      await sandbox.mend();
    }
  }
  assert.equal(names[0], 'message_start');
  assert.equal(names.at(-1), 'message_stop');
});
