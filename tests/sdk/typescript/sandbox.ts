// A sandbox for each test, and the official client of the provider, unpatched, that talks to it.
// WhatsApp has a client of its own, in its own test.
// Nothing sleeps to let something happen: a fault holds what is to wait, the journal tells what has come.

import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

export const MODEL = 'claude-haiku-5-5';
export const QUESTION = 'Name three risks of a Friday deployment.';

// What the machine's user has configured is not for tests.
for (const name of Object.keys(process.env)) {
  if (/^(LONGHAUL_|ANTHROPIC_|OTEL_)|_proxy$/i.test(name)) delete process.env[name];
}

/** A journaled request, as far as the tests look at it. */
export interface Entry {
  request_id: string;
  status: number | null;
  headers: Record<string, string>;
  body: Record<string, unknown>;
}

/** A running sandbox: its address, its faults and its journal. */
export class Sandbox {
  constructor(readonly url: string) {}

  /** Replaces the faults of the model provider; what was held by the old ones goes on. */
  async breakModel(...faults: object[]): Promise<void> {
    await this.#call('POST', 'faults', { model: faults });
  }

  /** Replaces the faults of WhatsApp. */
  async breakWhatsapp(...faults: object[]): Promise<void> {
    await this.#call('POST', 'faults', { whatsapp: faults });
  }

  /** Has a template of WhatsApp approved. */
  async addTemplate(template: object): Promise<void> {
    await this.#call('POST', 'whatsapp/templates', template);
  }

  /** Has a person write or tap; done once the webhook has answered. */
  async write(writing: object): Promise<void> {
    await this.#call('POST', 'whatsapp/inbound', writing);
  }

  /** Opens a person's chat on the phone. */
  async openChat(to: string): Promise<void> {
    const response = await fetch(`${this.url}/phone?${new URLSearchParams({ to })}`);
    assert.ok(response.ok);
  }

  /** Lets everything go well again. */
  async mend(): Promise<void> {
    await this.#call('DELETE', 'faults');
  }

  /** Changes settings. */
  async set(settings: object): Promise<void> {
    await this.#call('POST', 'settings', settings);
  }

  /** The journaled requests, once there are so many that fit. */
  async requests(atLeast: number, wanted: Record<string, string> = {}): Promise<Entry[]> {
    const query = new URLSearchParams({ at_least: String(atLeast), ...wanted });
    const found = (await this.#call('GET', `model/requests?${query}`)) as { requests: Entry[] };
    assert.ok(found.requests.length >= atLeast, JSON.stringify(found));
    return found.requests;
  }

  async #call(method: string, path: string, body?: object): Promise<unknown> {
    const sent = body && JSON.stringify(body);
    const response = await fetch(`${this.url}/_sandbox/${path}`, { method, body: sent });
    assert.ok(response.ok, await response.clone().text());
    return response.json();
  }
}

async function readReadyFile(file: string): Promise<string> {
  for (let patience = 6000; patience > 0; patience--) {
    const text = await readFile(file, 'utf8').catch(() => '');
    if (text) return (JSON.parse(text) as { sandbox: string }).sandbox;
    await pause(5);
  }
  throw new Error('the sandbox does not start');
}

/** A test with a sandbox of its own and a client that tries nothing twice. */
export function withSandbox(
  name: string,
  body: (sandbox: Sandbox, client: Anthropic) => Promise<void>,
): void {
  void test(name, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sandbox-'));
    const file = join(folder, 'ready.json');
    const program = process.env['SANDBOX_PROGRAM'] ?? 'target/debug/longhaul';
    const options = ['sandbox', '--addr', '127.0.0.1:0', '--ready-file', file];
    const child = spawn(program, options, { stdio: 'ignore' });
    const exited = once(child, 'exit');
    try {
      const url = await readReadyFile(file);
      const client = new Anthropic({ baseURL: url, apiKey: 'sk-test-secret', maxRetries: 0 });
      await body(new Sandbox(url), client);
    } finally {
      child.kill();
      await exited;
      await rm(folder, { recursive: true });
    }
  });
}

/** The parameters of a request. */
export function question(
  more: Partial<Anthropic.MessageCreateParamsNonStreaming> = {},
): Anthropic.MessageCreateParamsNonStreaming {
  return {
    model: MODEL,
    max_tokens: 500,
    messages: [{ role: 'user', content: QUESTION }],
    ...more,
  };
}

/** The error that a promise fails with, which has to be of this class itself. */
export async function failure<E extends Error>(
  promise: Promise<unknown>,
  kind: abstract new (...parts: never[]) => E,
): Promise<E> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof kind, `no ${kind.name} but ${String(error)}`);
  assert.equal(error.constructor, kind);
  return error;
}
