// Runs the scenario that all clients share, as clients/conformance/scenario.json describes it, or follows a job.
import { isDeepStrictEqual } from "node:util";
import {
  type DescMessage, fromBinary, fromJson, type JsonObject, type JsonValue, toBinary, toJson,
} from "@bufbuild/protobuf";
import {
  ApproveActionSchema, CancelActionSchema, connect, type ConnectOptions, type ControlResponse, ControlResponseSchema,
  EventKindSchema, GetJobRequestSchema, GetJobResponseSchema, JobSchema, JobSelectorSchema, type LonghaulClient,
  LonghaulError, PauseActionSchema, RejectActionSchema, RequestChangesActionSchema, ResumeActionSchema,
  RetryActionSchema, StepKind, SubmitJobRequestSchema, SubmitJobResponseSchema, UsageSchema,
} from "@longhaul/client";

interface Step {
  name?: string;
  do: string;
  request: JsonObject;
  job_id: string;
  with?: JsonObject;
  selector: JsonObject;
  page_size: number;
  after_sequence?: number;
  leave_after?: number;
  deltas?: boolean;
  on?: Record<string, (Step | "cut" | "restart")[]>;
  vectors: { wire: string; json: JsonObject }[];
  api_key?: string;
  tls?: "trusted" | "untrusted";
  silent?: boolean;
  deadline_ms?: number;
  expect?: JsonValue;
  refused?: { code?: string; codes?: string[]; reason?: string; fields?: string[] };
}

const env = process.env;
const CA_FILE = env.LONGHAUL_CA_FILE;
let failures = 0;

/** A client for one step: most use the environment, as users do. */
function clientFor(step: Step): LonghaulClient {
  const options: ConnectOptions = { apiKey: step.api_key, timeoutMs: step.deadline_ms };
  if (step.silent) options.address = env.LONGHAUL_SILENT_SERVER;
  if (step.tls) options.address = env.LONGHAUL_TLS_SERVER;
  if (step.tls === "untrusted") delete env.LONGHAUL_CA_FILE;
  const client = connect(options);
  env.LONGHAUL_CA_FILE = CA_FILE;
  return client;
}

/** Does what a step says; answers as JSON. */
async function answer(step: Step): Promise<JsonValue> {
  const client = clientFor(step);
  const action = <Desc extends DescMessage>(schema: Desc) => fromJson(schema, step.with ?? {});
  const controlled = (response: ControlResponse) => toJson(ControlResponseSchema, response);
  switch (step.do) {
    case "submit":
      return toJson(SubmitJobResponseSchema, await client.submit(fromJson(SubmitJobRequestSchema, step.request)));
    case "get": {
      const request = fromJson(GetJobRequestSchema, step.request);
      return toJson(GetJobResponseSchema, await client.get(request.jobId, request));
    }
    case "wait":
      return toJson(JobSchema, await client.wait(step.job_id));
    case "pause":
      return controlled(await client.pause(step.job_id, action(PauseActionSchema)));
    case "resume":
      return controlled(await client.resume(step.job_id, action(ResumeActionSchema)));
    case "cancel":
      return controlled(await client.cancel(step.job_id, action(CancelActionSchema)));
    case "retry":
      return controlled(await client.retry(step.job_id, action(RetryActionSchema)));
    case "approve":
      return controlled(await client.approve(step.job_id, action(ApproveActionSchema)));
    case "reject":
      return controlled(await client.reject(step.job_id, action(RejectActionSchema)));
    case "request_changes":
      return controlled(await client.requestChanges(step.job_id, action(RequestChangesActionSchema)));
    case "list": {
      const ids = [];
      const selector = fromJson(JobSelectorSchema, step.selector);
      for await (const job of client.list({ selector, pageSize: step.page_size })) ids.push(job.jobId);
      return { job_ids: ids };
    }
    case "watch":
      return watched(client, step);
    case "vectors":
      return vectors(step);
    default:
      throw new Error(`no such step: ${step.do}`);
  }
}

async function watched(client: LonghaulClient, step: Step): Promise<JsonValue> {
  const sequences: number[] = [];
  const kinds: string[] = [];
  let snapshot: JsonValue = null;
  let text: string[] = [];
  let deltasAreOutput = false;
  let messages = 0;
  const options = { afterSequence: step.after_sequence, includeOutputDeltas: step.deltas };
  for await (const { case: kind, value } of client.watch(step.job_id, options)) {
    messages += 1;
    if (kind === "snapshot") snapshot = toJson(JobSchema, value);
    // Offsets count characters, not halves of surrogate pairs.
    if (kind === "outputDelta") text = [...text.slice(0, value.offset), ...value.text];
    if (kind === "event") {
      sequences.push(value.sequence);
      kinds.push(EventKindSchema.value[value.kind]!.name);
      if (value.detail.case === "stepFinished" && value.detail.value.kind === StepKind.RUN) {
        deltasAreOutput = text.length > 0 && value.detail.value.output === text.join("");
      }
      for (const next of step.on?.[value.sequence] ?? []) {
        if (typeof next === "string") await happen(next);
        else await run(next);
      }
    }
    if (messages === step.leave_after) break;
  }
  return { snapshot, sequences, kinds, deltas_are_output: deltasAreOutput };
}

/** Has something done to the world. */
async function happen(what: string): Promise<void> {
  const response = await fetch(`${env.LONGHAUL_CONFORMANCE}/${what}`, { method: "POST" });
  if (!response.ok) throw new Error(`${what}: ${response.status}`);
}

function vectors(step: Step): JsonValue {
  for (const { wire, json } of step.vectors) {
    const read = toJson(UsageSchema, fromBinary(UsageSchema, Buffer.from(wire, "base64")));
    const written = Buffer.from(toBinary(UsageSchema, fromJson(UsageSchema, json))).toString("base64");
    if (!isDeepStrictEqual(read, json) || written !== wire) fail(step, { wire, json }, { wire: written, json: read });
  }
  return {};
}

/** Runs a step and tells what is not as it should be. */
async function run(step: Step): Promise<void> {
  let got: JsonValue;
  try {
    got = await answer(step);
  } catch (error) {
    if (!(error instanceof LonghaulError) || !step.refused) return fail(step, step.expect, error);
    const { code, reason, fields } = error;
    const { codes = [step.refused.code], ...wanted } = step.refused;
    const right = codes.includes(code) && reason === (wanted.reason ?? reason) &&
      isDeepStrictEqual(fields.map(({ field }) => field), wanted.fields ?? fields.map(({ field }) => field));
    return right ? undefined : fail(step, step.refused, error);
  }
  if (step.refused) return fail(step, step.refused, got);
  for (const [path, wanted, is] of differences(got, step.expect ?? {})) fail(step, wanted, is, path);
}

/** Where something is not what is expected of it, with what was expected and what is. */
function* differences(got: unknown, wanted: unknown, path = ""): Generator<[string, unknown, unknown]> {
  if (Array.isArray(wanted) && Array.isArray(got) && got.length === wanted.length) {
    for (const [at, part] of wanted.entries()) yield* differences(got[at], part, `${path}[${at}]`);
  } else if (typeof wanted === "object" && wanted && !Array.isArray(wanted) && typeof got === "object" && got) {
    for (const [name, part] of Object.entries(wanted)) yield* differences(got[name as never], part, `${path}.${name}`);
  } else if (wanted !== got && !(wanted === false && got === undefined)) {
    yield [path, wanted, got];
  }
}

function fail(step: Step, wanted: unknown, got: unknown, path = ""): void {
  failures += 1;
  const shown = (what: unknown) => (what instanceof Error ? what.stack : JSON.stringify(what))?.slice(0, 1000);
  console.log(step.name ?? `${step.do} ${step.job_id}`);
  console.log(`  expected${path && ` at ${path}`}: ${shown(wanted)}\n  came: ${shown(got)}`);
}

const [mode, jobId = ""] = process.argv.slice(2);
if (mode === "follow") {
  for await (const message of connect().watch(jobId, { afterSequence: 0 })) {
    if (message.case === "event") process.stdout.write(`${message.value.sequence}\n`);
  }
} else {
  const scenario = await fetch(`${env.LONGHAUL_CONFORMANCE}/scenario?client=typescript`);
  const { steps } = (await scenario.json()) as { steps: Step[] };
  for (const step of steps) await run(step);
  process.exitCode = failures ? 1 : 0;
}
