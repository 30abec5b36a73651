import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { LonghaulError, passes } from "./error.js";
import { type Job, JobStatus } from "./gen/longhaul/v1/job_pb.js";
import type * as proto from "./gen/longhaul/v1/job_service_pb.js";
import { JobService } from "./gen/longhaul/v1/job_service_pb.js";
import { Patience, patient } from "./patience.js";

const TIMEOUT_MS = 30_000;
/** How long one call waits for a job: as long as the server lets it. */
const WAIT_SECONDS = 60;
/** A watch that is alive hears something every 15 seconds. */
const SILENCE_MS = 45_000;
const GIVE_UP_MS = 300_000;

/** What a client needs beside a transport. */
export interface ClientOptions {
  /** The API key, shown with each call. Empty: none. */
  apiKey?: string;
  /** How long a call may take in milliseconds, with its repetitions. Not given: 30,000. 0: as long as it likes. */
  timeoutMs?: number;
}

/** What can be said of each call. */
export interface CallOptions {
  /** How long it may take in milliseconds, with its repetitions. Not given: the client's. 0: as long as it likes. */
  timeoutMs?: number;
  /** Cancels it. */
  signal?: AbortSignal;
  /** Metadata to send with it. */
  headers?: HeadersInit;
}

type Fields<Message> = Partial<Omit<Message, "$typeName" | "$unknown" | "jobId">>;

/** What of a job is to be shown. */
export type GetOptions = Omit<Fields<proto.GetJobRequest>, "waitSeconds"> & CallOptions;

/** The fields of an action, and the id under which it is done once, however often it is sent; not given: a new one. */
export type ActionOptions<Action> = Fields<Action> & { requestId?: string } & CallOptions;

/** Which jobs are listed. */
export type ListOptions = CallOptions & {
  /** Not given: all. */
  selector?: MessageInitShape<typeof proto.JobSelectorSchema>;
  /** How many jobs come with one call. */
  pageSize?: number;
};

/** Where a watch begins, and what else it tells. */
export type WatchOptions = Fields<proto.WatchJobRequest> & Omit<CallOptions, "timeoutMs"> & {
  /** How many milliseconds it tries to go on without hearing anything. Not given: 300,000. */
  giveUpAfterMs?: number;
};

/** What a watch tells: the job as it was at first, an event, a piece of an answer, or a notice. */
export type WatchMessage = Exclude<proto.WatchJobResponse["content"], { case: "heartbeat" } | { case: undefined }>;

/**
 * Calls a Longhaul server. Whatever it does can be repeated, and it does so itself where that helps; what it throws is
 * a LonghaulError. In Node `connect` makes one; elsewhere it takes a transport of Connect, such as that for gRPC-Web.
 */
export class LonghaulClient {
  /** The generated client, for what has no method here. Its unary calls get ids, are repeated, throw our error. */
  readonly raw: Client<typeof JobService>;

  constructor(transport: Transport, { apiKey = "", timeoutMs = TIMEOUT_MS }: ClientOptions = {}) {
    this.raw = createClient(JobService, patient(transport, apiKey, timeoutMs));
  }

  /** Stores a job. Without a `jobId` it makes one. */
  submit(
    job: MessageInitShape<typeof proto.SubmitJobRequestSchema>,
    options?: CallOptions,
  ): Promise<proto.SubmitJobResponse> {
    return this.raw.submitJob(job, options);
  }

  /** Shows a job as it is now. */
  get(jobId: string, options?: GetOptions): Promise<proto.GetJobResponse> {
    return this.raw.getJob({ ...options, jobId, waitSeconds: 0 }, options);
  }

  /**
   * Waits until a job awaits approval, is paused or has ended, and answers it as it is then; servers may come and go
   * meanwhile. After `timeoutMs`, and not before, it throws DEADLINE_EXCEEDED, also if the server is away then; the
   * last error, if there was one, is its `cause`. Where that is not given, it waits until none has answered for five
   * minutes.
   */
  async wait(jobId: string, options: CallOptions = {}): Promise<Job> {
    const limitMs = options.timeoutMs || 0;
    const patience = new Patience(limitMs || GIVE_UP_MS, Infinity, limitMs > 0);
    for (;;) {
      const leftMs = limitMs ? Math.max(1, patience.leftMs) : Infinity;
      const waitSeconds = Math.min(WAIT_SECONDS, Math.ceil(leftMs / 1000));
      const timeoutMs = Math.min(leftMs, waitSeconds * 1000 + TIMEOUT_MS);
      try {
        const { job } = await this.raw.getJob({ jobId, waitSeconds }, { ...options, timeoutMs });
        if (job && job.status !== JobStatus.QUEUED && job.status !== JobStatus.RUNNING) return job;
        patience.renew();
      } catch (cause) {
        const error = LonghaulError.from(cause);
        if (!passes(error) && error.code !== "DEADLINE_EXCEEDED") throw error;
        await patience.pause(error, options.signal);
      }
    }
  }

  /** Holds a job where it is; with `now` the attempt in hand is aborted. */
  pause(jobId: string, options?: ActionOptions<proto.PauseAction>): Promise<proto.ControlResponse> {
    return this.#control(jobId, "pause", options);
  }

  /** Lets a paused job go on; `budgetUsd` is what it may cost from now on, in all. */
  resume(jobId: string, options?: ActionOptions<proto.ResumeAction>): Promise<proto.ControlResponse> {
    return this.#control(jobId, "resume", options);
  }

  /** Ends a job. */
  cancel(jobId: string, options?: ActionOptions<proto.CancelAction>): Promise<proto.ControlResponse> {
    return this.#control(jobId, "cancel", options);
  }

  /** Begins a job again that failed or was cancelled, at the step where it ended or at `fromStep`. */
  retry(jobId: string, options?: ActionOptions<proto.RetryAction>): Promise<proto.ControlResponse> {
    return this.#control(jobId, "retry", options);
  }

  /** Decides the pending approval: go on, with `editedOutput` in the place of what was shown. */
  approve(jobId: string, options?: ActionOptions<proto.ApproveAction>): Promise<proto.ControlResponse> {
    return this.#control(jobId, "approve", options);
  }

  /** Decides the pending approval: end the job. */
  reject(jobId: string, options?: ActionOptions<proto.RejectAction>): Promise<proto.ControlResponse> {
    return this.#control(jobId, "reject", options);
  }

  /** Decides the pending approval: have the step it shows done again, as `comment` says. */
  requestChanges(
    jobId: string,
    options: ActionOptions<proto.RequestChangesAction> & { comment: string },
  ): Promise<proto.ControlResponse> {
    return this.#control(jobId, "requestChanges", options);
  }

  /** Goes through all jobs that are selected, newest first, page by page. */
  async *list(options: ListOptions = {}): AsyncGenerator<Job, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.raw.listJobs({ ...options, pageToken }, options);
      yield* page.jobs;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * Tells what happens to a job, until it has ended. Without `afterSequence` it begins with a snapshot.
   *
   * Where the line or the server breaks it watches on by itself, from the last sequence it told: no event is left out
   * or told twice. A text that was on its way then begins anew, with a piece whose offset is 0.
   * Leaving the loop ends the watch.
   */
  async *watch(jobId: string, options: WatchOptions = {}): AsyncGenerator<WatchMessage, void, undefined> {
    const patience = new Patience(options.giveUpAfterMs ?? GIVE_UP_MS);
    const request = { ...options, jobId };
    for (;;) {
      try {
        for await (const content of this.#watchOnce(request)) {
          switch (content.case) {
            case "snapshot":
              request.afterSequence = content.value.lastSequence;
              yield content;
              break;
            case "event":
              if (content.value.sequence <= (request.afterSequence ?? 0)) break;
              request.afterSequence = content.value.sequence;
              yield content;
              break;
            case "outputDelta":
            case "notice":
              yield content;
          }
          // Only now: the time that the caller takes over a message is not the server's.
          patience.renew();
        }
        return;
      } catch (cause) {
        const error = LonghaulError.from(cause, options.signal);
        if (options.signal?.aborted || !(passes(error) || brokeOff(error))) throw error;
        await patience.pause(error, options.signal);
      }
    }
  }

  async *#watchOnce(request: WatchOptions & { jobId: string }): AsyncGenerator<proto.WatchJobResponse["content"]> {
    const { signal, headers } = request;
    const call = new AbortController();
    signal?.addEventListener("abort", () => call.abort(signal.reason), { signal: call.signal });
    if (signal?.aborted) call.abort(signal.reason);
    try {
      const stream = this.raw.watchJob(request, { signal: call.signal, headers, timeoutMs: 0 });
      const messages = stream[Symbol.asyncIterator]();
      for (;;) {
        const next = await unlessSilent(messages.next());
        if (next.done) return;
        yield next.value.content;
      }
    } finally {
      // Connect lets a call go on whose iterator is left.
      call.abort();
    }
  }

  #control(jobId: string, name: string, options: ActionOptions<object> = {}): Promise<proto.ControlResponse> {
    const action = { case: name, value: options } as MessageInitShape<typeof proto.ControlRequestSchema>["action"];
    return this.raw.control({ jobId, requestId: options.requestId, action }, options);
  }
}

/** Whether something on the way ended a watch, and not the server: its own errors have a reason. */
function brokeOff({ code, reason }: LonghaulError): boolean {
  return !reason && ["UNKNOWN", "INTERNAL", "CANCELLED", "ABORTED", "DATA_LOSS"].includes(code);
}

/** What comes next, or an error if it takes so long that nothing will. */
function unlessSilent<T>(next: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const error = new LonghaulError("UNAVAILABLE", `nothing has come for ${SILENCE_MS / 1000} seconds`);
    const timer = setTimeout(reject, SILENCE_MS, error);
    next.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
