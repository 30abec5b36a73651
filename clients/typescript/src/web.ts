// All but what needs Node.
export * from "./client.js";
export { type ErrorCode, type FieldViolation, LonghaulError } from "./error.js";
export * from "./gen/longhaul/v1/event_pb.js";
export * from "./gen/longhaul/v1/job_pb.js";
export * from "./gen/longhaul/v1/job_service_pb.js";
export * from "./gen/longhaul/v1/submission_pb.js";
export * from "./gen/longhaul/v1/usage_pb.js";
