// What goes over the line, against a real one.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import { test, type TestContext } from "node:test";
import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { ErrorInfoSchema } from "../src/error_details.js";
import { connect, JobService, LonghaulClient, LonghaulError } from "../src/index.js";

type Listener = (request: http2.Http2ServerRequest, response: http2.Http2ServerResponse) => void;

/** Serves until the test is over; answers where. */
async function serve(
  t: TestContext,
  service: Partial<ServiceImpl<typeof JobService>>,
  through = (answer: Listener): Listener => answer,
): Promise<string> {
  const routes = (router: ConnectRouter) => router.service(JobService, service);
  const server = http2.createServer(through(connectNodeAdapter({ routes })));
  const sessions: http2.ServerHttp2Session[] = [];
  server.on("session", (session) => sessions.push(session));
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.close();
    for (const session of sessions) session.destroy();
  });
  return `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

test("the key that is shown is the one that is given, else that of the environment", async (t) => {
  const shown: (string | null)[] = [];
  const address = await serve(t, {
    getJob: (_, { requestHeader }) => (shown.push(requestHeader.get("authorization")), {}),
  });
  t.after(() => delete process.env.LONGHAUL_API_KEY);
  process.env.LONGHAUL_API_KEY = "lh_environment";
  await connect({ address }).get("a");
  await connect({ address, apiKey: "lh_given" }).get("a");
  await connect({ address, apiKey: "" }).get("a");
  assert.deepEqual(shown, ["Bearer lh_environment", "Bearer lh_given", null]);
});

test("leaving a watch tells the server", async (t) => {
  let left: Promise<unknown> | undefined;
  const address = await serve(t, {
    async *watchJob(_, { signal }) {
      left = once(signal, "abort");
      yield { content: { case: "event" as const, value: { sequence: 1 } } };
      await left;
    },
  });
  for await (const _ of connect({ address }).watch("a")) break;
  await left;
});

test("a line that breaks under a call is tried again, and under a watch too", async (t) => {
  let calls = 0;
  const address = await serve(
    t,
    {
      getJob: () => ({ job: { jobId: "a" } }),
      async *watchJob() {
        yield { content: { case: "event" as const, value: { sequence: 1 } } };
      },
    },
    (answer) => (request, response) => {
      calls += 1;
      if (calls % 2) request.stream.session?.destroy();
      else answer(request, response);
    },
  );
  const client = connect({ address });
  assert.equal((await client.get("a")).job?.jobId, "a");
  const sequences = [];
  for await (const message of client.watch("a")) sequences.push(message.case === "event" && message.value.sequence);
  assert.deepEqual(sequences, [1]);
  assert.equal(calls, 4);
});

test("a connection that does not come about is given up", async (t) => {
  const server = net.createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const caller = new AbortController();
  const client = connect({ address: `https://127.0.0.1:${(server.address() as net.AddressInfo).port}` });
  const got = client.get("a", { signal: caller.signal });
  const [socket] = await once(server, "connection");
  t.mock.timers.tick(20_000);
  await once(socket.resume(), "close");
  caller.abort();
  await assert.rejects(got, (error) => error instanceof LonghaulError && error.code === "CANCELLED");
});

test("all of it works in browsers, over gRPC-Web", async (t) => {
  const routes = (router: ConnectRouter) => router.service(JobService, {
    getJob() {
      const info = { desc: ErrorInfoSchema, value: { reason: "JOB_NOT_FOUND", domain: "longhaul.dev" } };
      throw new ConnectError("no such job", Code.NotFound, {}, [info]);
    },
    async *watchJob() {
      yield { content: { case: "event" as const, value: { sequence: 1 } } };
    },
  });
  const server = http.createServer(connectNodeAdapter({ routes }));
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close() && server.closeAllConnections());
  const baseUrl = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
  const client = new LonghaulClient(createGrpcWebTransport({ baseUrl }));
  await assert.rejects(client.get("a"), (error) => error instanceof LonghaulError && error.reason === "JOB_NOT_FOUND");
  const kinds = [];
  for await (const message of client.watch("a")) kinds.push(message.case);
  assert.deepEqual(kinds, ["event"]);
});
