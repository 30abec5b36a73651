// What a client does over time, against a server in this process and a clock that only the tests move.
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { test, type TestContext } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { RetryInfoSchema } from "../src/error_details.js";
import {
  type CallOptions, ControlJobsRequestSchema, type GetJobRequest, JobService, JobStatus, LonghaulClient, LonghaulError,
  type SubmitJobRequest, SubmitJobRequestSchema, type WatchJobRequest, type WatchJobResponseSchema, type WatchOptions,
} from "../src/index.js";

type Message = MessageInitShape<typeof WatchJobResponseSchema>;

/** Lets time pass until something has come to its end, a tenth of a second at a time; answers how many milliseconds. */
type Pass = (until: Promise<unknown>) => Promise<number>;

function clock(t: TestContext): Pass {
  let now = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(performance, "now", () => now);
  // The longest pauses.
  t.mock.method(Math, "random", () => 1);
  return async (until) => {
    const began = now;
    let isOver = false;
    until.then(() => (isOver = true), () => (isOver = true));
    // All that happens in one moment happens before the next turn of the loop.
    for (await setImmediate(); !isOver; await setImmediate()) {
      now += 100;
      t.mock.timers.tick(100);
    }
    return now - began;
  };
}

function client(service: Partial<ServiceImpl<typeof JobService>>): LonghaulClient {
  return new LonghaulClient(createRouterTransport((router) => router.service(JobService, service)));
}

const event = (sequence: number): Message => ({ content: { case: "event", value: { sequence } } });
const heartbeat: Message = { content: { case: "heartbeat", value: {} } };
const unavailable = () => new ConnectError("away", Code.Unavailable);

/** A server of watches, of which each tells some messages, then does the last thing. */
function watches(...scripts: [...Message[], () => Promise<void>][]) {
  const requests: WatchJobRequest[] = [];
  const signals: AbortSignal[] = [];
  return {
    requests,
    signals,
    async *watchJob(request: WatchJobRequest, { signal }: { signal: AbortSignal }) {
      requests.push(request);
      signals.push(signal);
      const script = scripts[requests.length - 1] ?? scripts.at(-1)!;
      yield* script.slice(0, -1) as Message[];
      await (script.at(-1) as () => Promise<void>)();
    },
  };
}
const end = async () => {};
const breaks = async () => Promise.reject(unavailable());
const falls_silent = () => new Promise<void>(() => {});

/** The sequences that a watch tells, and with what it ended. */
function follow(of: LonghaulClient, options: WatchOptions = { afterSequence: 0 }) {
  const sequences: number[] = [];
  const done = (async () => {
    for await (const { case: kind, value } of of.watch("a", options)) {
      sequences.push(kind === "event" ? value.sequence : kind === "snapshot" ? -value.lastSequence : NaN);
    }
  })();
  return { sequences, done };
}

const code = (expected: string) => (error: unknown) => error instanceof LonghaulError && error.code === expected;

test("a call is tried again while the server is away", async (t) => {
  const pass = clock(t);
  let calls = 0;
  const getJob = () => {
    calls += 1;
    if (calls < 3) throw unavailable();
    return { job: { jobId: "a" } };
  };
  const got = client({ getJob }).get("a");
  assert.equal(await pass(got), 100 + 200);
  assert.equal((await got).job?.jobId, "a");
});

test("it is tried five times, and after the pause the server asks for", async (t) => {
  const pass = clock(t);
  let calls = 0;
  const getJob = () => {
    calls += 1;
    const retry = { desc: RetryInfoSchema, value: { retryDelay: { seconds: 2n, nanos: 0 } } };
    throw new ConnectError("too many", Code.ResourceExhausted, {}, calls === 1 ? [retry] : []);
  };
  const got = client({ getJob }).get("a");
  assert.equal(await pass(got), 2000 + 200 + 400 + 800);
  await assert.rejects(got, code("RESOURCE_EXHAUSTED"));
  assert.equal(calls, 5);
});

test("it is not tried again beyond its deadline, nor after any other error", async (t) => {
  const pass = clock(t);
  let calls = 0;
  const fails = (error: ConnectError) => client({ getJob: () => (calls++, Promise.reject(error)) });
  const got = fails(unavailable()).get("a", { timeoutMs: 600 });
  assert.equal(await pass(got), 100 + 200);
  await assert.rejects(got, code("UNAVAILABLE"));
  assert.equal(calls, 3);
  await assert.rejects(fails(new ConnectError("a fault", Code.Internal)).get("a"), code("INTERNAL"));
  assert.equal(calls, 4);
});

test("a call that gets no answer ends with its deadline, or when the caller says so", async (t) => {
  const pass = clock(t);
  const silent = client({ getJob: () => new Promise(() => {}) });
  const got = silent.get("a");
  assert.equal(await pass(got), 30_000);
  await assert.rejects(got, code("DEADLINE_EXCEEDED"));
  const cancelled = silent.get("a", { signal: AbortSignal.abort() });
  await assert.rejects(cancelled, code("CANCELLED"));
});

test("ids are made where there are none, and kept where there are", async () => {
  const requests: string[] = [];
  const made = client({
    submitJob: ({ jobId }) => (requests.push(jobId), {}),
    control: ({ requestId, action }) => (requests.push(requestId, action.case!), {}),
  });
  const job = {} as SubmitJobRequest;
  await made.submit(job);
  await made.submit({ jobId: "a" });
  await made.pause("a", { now: true });
  await made.requestChanges("a", { comment: "Shorter.", requestId: "b" });
  const [first, second, third, ...rest] = requests;
  assert.match(first!, /^[0-9a-f-]{36}$/);
  assert.equal(job.jobId, undefined);
  assert.equal(second, "a");
  assert.match(third!, /^[0-9a-f-]{36}$/);
  assert.deepEqual(rest, ["pause", "b", "requestChanges"]);
});

test("through the generated client too, a lost reply is asked for under the same id", async (t) => {
  const pass = clock(t);
  const ids: string[] = [];
  const loses = <Answer>(id: string, answer: Answer) => {
    if (ids.push(id) % 2) throw unavailable();
    return answer;
  };
  const { raw } = client({
    submitJob: ({ jobId }) => loses(jobId, {}),
    control: ({ requestId }) => loses(requestId, {}),
    controlJobs: ({ requestId }) => loses(requestId, {}),
  });
  const job = create(SubmitJobRequestSchema);
  const many = create(ControlJobsRequestSchema);
  await pass(raw.submitJob(job));
  await pass(raw.control({ jobId: "a" }));
  await pass(raw.controlJobs(many));
  await pass(raw.controlJobs({ requestId: "b" }));
  assert.equal(new Set(ids).size, 4);
  for (const [at, id] of ids.entries()) {
    assert.match(id, at < 6 ? /^[0-9a-f-]{36}$/ : /^b$/);
    assert.equal(id, ids[at - (at % 2)]);
  }
  assert.deepEqual([ids.length, job.jobId, many.requestId], [8, "", ""]);
});

test("a wait outlasts a server that is away, and calls that are too short", async (t) => {
  const pass = clock(t);
  const asked: number[] = [];
  let calls = 0;
  const waiting = (options: CallOptions) =>
    client({
      getJob({ waitSeconds }: GetJobRequest) {
        asked.push(waitSeconds);
        calls += 1;
        if (calls < 8) throw unavailable();
        return { job: { status: calls < 10 ? JobStatus.RUNNING : JobStatus.AWAITING_APPROVAL } };
      },
    }).wait("a", options);
  const got = waiting({});
  await pass(got);
  assert.equal((await got).status, JobStatus.AWAITING_APPROVAL);
  assert.deepEqual(asked, Array(10).fill(60));
  calls = 0;
  const short = waiting({ timeoutMs: 500 });
  assert.equal(await pass(short), 500);
  await assert.rejects(short, (error) => {
    return code("DEADLINE_EXCEEDED")(error) && code("UNAVAILABLE")((error as Error).cause);
  });
  assert.equal(asked.at(-1), 1);
});

test("a watch goes on after the last event it told, and tells none twice", async (t) => {
  const pass = clock(t);
  const server = watches(
    [event(1), event(2), breaks],
    [event(2), event(3), heartbeat, breaks],
    [breaks],
    [event(3), event(4), end],
  );
  const { sequences, done } = follow(client(server));
  // The pauses begin anew after a message.
  assert.equal(await pass(done), 100 + 100 + 200);
  await done;
  assert.deepEqual(sequences, [1, 2, 3, 4]);
  assert.deepEqual(server.requests.map((request) => request.afterSequence), [0, 2, 3, 3]);
});

test("a watch that began with a snapshot goes on behind it", async (t) => {
  const pass = clock(t);
  const snapshot: Message = { content: { case: "snapshot", value: { lastSequence: 7 } } };
  const server = watches([breaks], [snapshot, breaks], [event(8), end]);
  const { sequences, done } = follow(client(server), {});
  await pass(done);
  assert.deepEqual(sequences, [-7, 8]);
  assert.deepEqual(server.requests.map((request) => request.afterSequence), [undefined, undefined, 7]);
});

test("a watch that hears nothing for 45 seconds begins again, and leaves nothing open", async (t) => {
  const pass = clock(t);
  const server = watches([event(1), falls_silent], [event(2), end]);
  const { sequences, done } = follow(client(server));
  assert.equal(await pass(done), 45_000 + 100);
  assert.deepEqual(sequences, [1, 2]);
  assert.ok(server.signals.every((signal) => signal.aborted));
});

test("a watch gives up after five minutes without a message, with the last error", async (t) => {
  const pass = clock(t);
  const { sequences, done } = follow(client(watches([event(1), breaks], [breaks])));
  const tookMs = await pass(done);
  await assert.rejects(done, (error) => code("UNAVAILABLE")(error) && (error as Error).message === "away");
  assert.ok(tookMs > 290_000 && tookMs <= 300_000, `${tookMs} ms`);
  assert.deepEqual(sequences, [1]);
});

test("what the caller does with a message takes nothing of those five minutes", async (t) => {
  const pass = clock(t);
  const told: string[] = [];
  const done = (async () => {
    for await (const message of client(watches([event(1), breaks], [event(2), end])).watch("a", { afterSequence: 0 })) {
      told.push(message.case);
      await new Promise((resolve) => setTimeout(resolve, 600_000));
    }
  })();
  await pass(done);
  await done;
  assert.equal(told.length, 2);
});

test("a watch does not try again what the server refuses", async () => {
  const server = watches([() => Promise.reject(new ConnectError("no such job", Code.NotFound))]);
  await assert.rejects(follow(client(server)).done, code("NOT_FOUND"));
  assert.equal(server.requests.length, 1);
});

test("leaving the loop cancels the call, and so does the caller's signal, also in a pause", async (t) => {
  const pass = clock(t);
  const server = watches([event(1), falls_silent]);
  for await (const _ of client(server).watch("a", { afterSequence: 0 })) break;
  assert.ok(server.signals[0]!.aborted);

  const caller = new AbortController();
  const { sequences, done } = follow(client(server), { signal: caller.signal });
  while (sequences.length === 0) await setImmediate();
  caller.abort();
  await assert.rejects(done, code("CANCELLED"));
  assert.ok(server.signals[1]!.aborted);

  const another = new AbortController();
  const pausing = follow(client(watches([breaks])), { signal: another.signal }).done;
  await setImmediate();
  another.abort();
  assert.equal(await pass(pausing), 0);
  await assert.rejects(pausing, code("CANCELLED"));
});
