import { ConnectError } from "@connectrpc/connect";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./error_details.js";

const CODES = [
  "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
  "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
] as const;

/** The name of a gRPC status code. */
export type ErrorCode = Exclude<(typeof CODES)[number], "OK">;

/** A field of a request that is wrong. */
export interface FieldViolation {
  /** Where it is, in the proto's names: `steps[0].run.prompt`. */
  field: string;
  /** What is wrong with it. */
  description: string;
}

/** Why a call was refused, or got no answer. */
export class LonghaulError extends Error {
  override readonly name = "LonghaulError";
  /** The server's word for what is wrong, one of the list in `job_service.proto`; empty if it said none. */
  readonly reason: string;
  /** What belongs to the reason, such as the `scopes` that are needed. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The fields that are wrong. */
  readonly fields: readonly FieldViolation[];
  /** How many milliseconds the server wants to be left alone, if it said so. */
  readonly retryAfterMs: number | undefined;

  constructor(
    /** The gRPC code. */
    readonly code: ErrorCode,
    message: string,
    said: Partial<Pick<LonghaulError, "reason" | "metadata" | "fields" | "retryAfterMs" | "cause">> = {},
  ) {
    super(message, { cause: said.cause });
    this.reason = said.reason ?? "";
    this.metadata = said.metadata ?? {};
    this.fields = said.fields ?? [];
    this.retryAfterMs = said.retryAfterMs;
  }

  /** What anything that was caught means; with the call's signal, whether it was the caller who cancelled it. */
  static from(cause: unknown, signal?: AbortSignal): LonghaulError {
    if (cause instanceof LonghaulError) return cause;
    if (signal?.aborted) return new LonghaulError("CANCELLED", "the caller cancelled the call", { cause });
    const error = ConnectError.from(cause);
    const code = lineBroke(error) ? "UNAVAILABLE" : (CODES[error.code] as ErrorCode);
    const info = error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === "longhaul.dev");
    const violations = error.findDetails(BadRequestSchema).flatMap((request) => request.fieldViolations);
    const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
    return new LonghaulError(code, error.rawMessage, {
      reason: info?.reason,
      metadata: info?.metadata,
      fields: violations.map(({ field, description }) => ({ field, description })),
      retryAfterMs: delay && durationMs(delay),
      cause,
    });
  }
}

/** Whether this is no word of the server's: Connect tells what Node saw of the line, which is UNAVAILABLE elsewhere. */
function lineBroke({ code, cause, metadata }: ConnectError): boolean {
  if (metadata.has("grpc-status")) return false;
  const name = CODES[code];
  const fromNode = cause instanceof Error && "code" in cause && typeof cause.code === "string";
  return name === "CANCELLED" || name === "ABORTED" || (name === "INTERNAL" && fromNode);
}

/** Whether the same call may well succeed a little later. */
export function passes(error: LonghaulError): boolean {
  return error.code === "UNAVAILABLE" || error.code === "RESOURCE_EXHAUSTED";
}
