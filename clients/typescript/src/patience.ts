import { clone, create, type DescMessage, isMessage, type MessageInitShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { LonghaulError, passes } from "./error.js";
import {
  ControlJobsRequestSchema, ControlRequestSchema, SubmitJobRequestSchema,
} from "./gen/longhaul/v1/job_service_pb.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
const ATTEMPTS = 5;

/** How long, and how often, something that fails is tried again. */
export class Patience {
  #failures = 0;
  #since = performance.now();
  #last: LonghaulError | undefined;

  /** `toTheEnd`: the time is one for all that goes well, and nothing is thrown before it is over. */
  constructor(
    private readonly limitMs: number,
    private readonly attempts = Infinity,
    private readonly toTheEnd = false,
  ) {}

  /** How long it lasts from now on. */
  get leftMs(): number {
    return this.limitMs - (performance.now() - this.#since);
  }

  /** Begins anew, since something went well. */
  renew(): void {
    this.#failures = 0;
    this.#last = undefined;
    if (!this.toTheEnd) this.#since = performance.now();
  }

  /** Returns when it is time for the next try; throws the error, or that the time is over, if there is to be none. */
  async pause(error: LonghaulError, signal?: AbortSignal): Promise<void> {
    const doubledMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
    const pauseMs = error.retryAfterMs ?? doubledMs * (0.5 + Math.random() / 2);
    this.#failures += 1;
    if (!this.toTheEnd && (this.#failures >= this.attempts || pauseMs >= this.leftMs)) throw error;
    this.#last = passes(error) ? error : (this.#last ?? error);
    const over = new AbortController();
    await new Promise<unknown>((wake) => {
      const timer = setTimeout(wake, Math.min(pauseMs, this.leftMs));
      over.signal.addEventListener("abort", () => clearTimeout(timer));
      signal?.addEventListener("abort", wake, { signal: over.signal });
      if (signal?.aborted) wake(signal);
    });
    over.abort();
    if (signal?.aborted) throw LonghaulError.from(signal.reason, signal);
    if (this.toTheEnd && this.leftMs <= 0) {
      throw new LonghaulError("DEADLINE_EXCEEDED", `it took longer than ${this.limitMs} ms`, { cause: this.#last });
    }
  }
}

/** A copy of a request that has the id without which it could not be repeated. */
function named<Desc extends DescMessage>(schema: Desc, input: MessageInitShape<Desc>) {
  const request = clone(schema, create(schema, input));
  if (isMessage(request, SubmitJobRequestSchema)) request.jobId ||= crypto.randomUUID();
  if (isMessage(request, ControlRequestSchema) || isMessage(request, ControlJobsRequestSchema)) {
    request.requestId ||= crypto.randomUUID();
  }
  return request as MessageInitShape<Desc>;
}

/** A transport that shows the key with each call; unary calls have a deadline, are tried again, and throw our error. */
export function patient(transport: Transport, apiKey: string, timeoutMs: number): Transport {
  const shown = (header?: HeadersInit) => {
    const headers = new Headers(header);
    if (apiKey) headers.set("authorization", `Bearer ${apiKey}`);
    return headers;
  };
  return {
    async unary(method, signal, limitMs = timeoutMs, header, input, values) {
      const patience = new Patience(limitMs > 0 ? limitMs : Infinity, ATTEMPTS);
      const request = named(method.input, input);
      for (;;) {
        // The wire has whole milliseconds, and 0 stands for no deadline.
        const leftMs = limitMs > 0 ? Math.max(1, Math.ceil(patience.leftMs)) : 0;
        try {
          return await transport.unary(method, signal, leftMs, shown(header), request, values);
        } catch (cause) {
          const error = LonghaulError.from(cause, signal);
          if (!passes(error)) throw error;
          await patience.pause(error, signal);
        }
      }
    },
    stream: (method, signal, limitMs, header, input, values) =>
      transport.stream(method, signal, limitMs, shown(header), input, values),
  };
}
