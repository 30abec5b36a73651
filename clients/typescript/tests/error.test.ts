import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { LonghaulError } from "../src/index.js";

/** A field of a message as it is on the wire, for texts of less than 128 bytes. */
function field(number: number, value: string | Buffer): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.of((number << 3) | 2, bytes.length), bytes]);
}

/** An error as it comes from the line, with details. */
function refusal(code: Code, details: Record<string, Buffer[]> = {}, status = String(code)): ConnectError {
  const error = new ConnectError("no", code, status ? { "grpc-status": status } : {});
  error.details = Object.entries(details).map(([type, parts]) => ({ type, value: Buffer.concat(parts) }));
  return error;
}

test("all that a status says is told", () => {
  const cause = refusal(Code.InvalidArgument, {
    "google.rpc.ErrorInfo": [
      field(1, "INVALID_REQUEST"), field(2, "longhaul.dev"),
      field(3, Buffer.concat([field(1, "scopes"), field(2, "read")])),
    ],
    "google.rpc.BadRequest": [
      field(1, Buffer.concat([field(1, "steps[0].run.prompt"), field(2, "is required")])),
      field(1, Buffer.concat([field(1, "settings.priority"), field(2, "is too large"), field(3, "LATER")])),
    ],
    "google.rpc.RetryInfo": [field(1, Buffer.of(0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01))],
    "google.rpc.Help": [field(1, "unknown")],
  });
  const error = LonghaulError.from(cause);
  assert.equal(error.code, "INVALID_ARGUMENT");
  assert.equal(error.message, "no");
  assert.equal(error.reason, "INVALID_REQUEST");
  assert.deepEqual({ ...error.metadata }, { scopes: "read" });
  assert.deepEqual(error.fields, [
    { field: "steps[0].run.prompt", description: "is required" },
    { field: "settings.priority", description: "is too large" },
  ]);
  assert.equal(error.retryAfterMs, 1500);
  assert.equal(error.cause, cause);
});

test("a reason of another domain is none of ours", () => {
  const error = LonghaulError.from(
    refusal(Code.Unavailable, { "google.rpc.ErrorInfo": [field(1, "OVERLOADED"), field(2, "proxy.example.com")] }),
  );
  assert.equal(error.reason, "");
  assert.equal(error.retryAfterMs, undefined);
});

test("every code has the name gRPC gives it", () => {
  const named = (code: Code) => LonghaulError.from(refusal(code)).code;
  assert.equal(named(Code.Canceled), "CANCELLED");
  for (const [name, code] of Object.entries(Code)) {
    if (typeof code !== "number" || code === Code.Canceled) continue;
    assert.equal(named(code), name.replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase());
  }
});

test("a broken line is not taken for the server's word", () => {
  const code = (error: ConnectError) => LonghaulError.from(error).code;
  const fromNode = (code: Code, name: string) =>
    new ConnectError(name, code, {}, [], Object.assign(new Error(name), { code: name }));
  assert.equal(code(refusal(Code.Canceled, {}, "")), "UNAVAILABLE");
  assert.equal(code(fromNode(Code.Aborted, "ECONNRESET")), "UNAVAILABLE");
  assert.equal(code(fromNode(Code.Internal, "DEPTH_ZERO_SELF_SIGNED_CERT")), "UNAVAILABLE");
  assert.equal(code(new ConnectError("serialize binary: invalid int32", Code.Internal)), "INTERNAL");
});
