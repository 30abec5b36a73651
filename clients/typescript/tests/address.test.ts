import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, urlOf } from "../src/connect.js";

test("an address may leave out the scheme", () => {
  assert.equal(urlOf("localhost:50051"), "http://localhost:50051");
  assert.equal(urlOf("127.0.0.1:1"), "http://127.0.0.1:1");
  assert.equal(urlOf("[::1]:50051"), "http://[::1]:50051");
  assert.equal(urlOf("http://jobs.example.com:50051/"), "http://jobs.example.com:50051");
  assert.equal(urlOf("HTTPS://jobs.example.com"), "https://jobs.example.com");
});

test("what is no address is refused", () => {
  for (const address of ["localhost", "", "ftp://a:1", "http://", "::1", "a:b", "http://a:1/path", "user@a:1", "a:1 "]) {
    assert.throws(() => urlOf(address), TypeError, address);
  }
});

test("nothing of TLS is dropped in silence", () => {
  assert.throws(() => connect({ address: "localhost:50051", tls: { ca: "" } }), /https/);
});
