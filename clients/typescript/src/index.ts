export { connect, type ConnectOptions, type TlsOptions } from "./connect.js";
export * from "./web.js";
