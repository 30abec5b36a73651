import { readFileSync } from "node:fs";
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type ClientOptions, LonghaulClient } from "./client.js";

const CONNECTING_MS = 20_000;
const PINGS = { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 };

/** Whom to trust over TLS, and what to show there. All of it is PEM. */
export interface TlsOptions {
  /** The authorities to trust. Not given: those in the file of LONGHAUL_CA_FILE, else those that Node trusts. */
  ca?: string | Buffer;
  /** The client's own certificate, where the server asks for one. */
  cert?: string | Buffer;
  /** The key of that certificate. */
  key?: string | Buffer;
}

/** Which server to call, and as whom. */
export interface ConnectOptions extends ClientOptions {
  /** `host:port`, `http://…` or `https://…`. Not given: LONGHAUL_SERVER, else http://127.0.0.1:50051. */
  address?: string;
  /** The API key, shown with each call. Empty: none. Not given: LONGHAUL_API_KEY. */
  apiKey?: string;
  /** For an https address. */
  tls?: TlsOptions;
}

/** Makes a client. It connects with its first call, and again whenever it has to, and keeps no process from ending. */
export function connect({ address, apiKey, tls, timeoutMs }: ConnectOptions = {}): LonghaulClient {
  const { LONGHAUL_SERVER, LONGHAUL_API_KEY, LONGHAUL_CA_FILE } = process.env;
  const baseUrl = urlOf(address ?? (LONGHAUL_SERVER || "http://127.0.0.1:50051"));
  const secure = baseUrl.startsWith("https:");
  if (tls && !secure) throw new TypeError(`tls is for an https address, and not for ${baseUrl}`);
  const ca = tls?.ca ?? (secure && LONGHAUL_CA_FILE ? readFileSync(LONGHAUL_CA_FILE) : undefined);
  const sessionManager = new Line(baseUrl, PINGS, { ...tls, ca });
  const transport = createGrpcTransport({ baseUrl, sessionManager, readMaxBytes: 16 * 1024 * 1024 });
  return new LonghaulClient(transport, { apiKey: apiKey ?? LONGHAUL_API_KEY, timeoutMs });
}

/** The URL that an address stands for. */
export function urlOf(address: string): string {
  const [, scheme = "http://", host] = /^(https?:\/\/)?([^/?#@\s]+)\/?$/i.exec(address) ?? [];
  const saysPort = address !== host || /:\d+$/.test(host);
  if (!host || !saysPort || !URL.canParse(scheme + host)) {
    throw new TypeError(`an address is host:port, http://host:port or https://host:port, and not ${address}`);
  }
  return new URL(scheme + host).origin;
}

/** A connection that fails if it does not come about; who never answers over TLS would keep it waiting for ever. */
class Line extends Http2SessionManager {
  override async request(...call: Parameters<Http2SessionManager["request"]>) {
    const timer = setTimeout(() => {
      const error = new ConnectError(`no connection within ${CONNECTING_MS / 1000} seconds`, Code.Unavailable);
      if (this.state() === "connecting") this.abort(error);
    }, CONNECTING_MS);
    return super.request(...call).finally(() => clearTimeout(timer));
  }
}
