// The messages of google/rpc/error_details.proto that errors carry, described by hand: they are small, and no package
// of the npm registry has them for this runtime.
import { createFileRegistry, fromJson, type Message } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { type Duration, file_google_protobuf_duration, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

const text = (name: string, number: number) => ({ name, number, type: "TYPE_STRING", label: "LABEL_OPTIONAL" });
const list = (name: string, number: number, typeName: string) =>
  ({ name, number, type: "TYPE_MESSAGE", typeName, label: "LABEL_REPEATED" });

const registry = createFileRegistry(fromJson(FileDescriptorProtoSchema, {
  name: "google/rpc/error_details.proto",
  package: "google.rpc",
  syntax: "proto3",
  dependency: ["google/protobuf/duration.proto"],
  messageType: [{
    name: "ErrorInfo",
    field: [text("reason", 1), text("domain", 2), list("metadata", 3, ".google.rpc.ErrorInfo.MetadataEntry")],
    nestedType: [{ name: "MetadataEntry", field: [text("key", 1), text("value", 2)], options: { mapEntry: true } }],
  }, {
    name: "BadRequest",
    field: [list("field_violations", 1, ".google.rpc.BadRequest.FieldViolation")],
    nestedType: [{ name: "FieldViolation", field: [text("field", 1), text("description", 2)] }],
  }, {
    name: "RetryInfo",
    field: [{ ...list("retry_delay", 1, ".google.protobuf.Duration"), label: "LABEL_OPTIONAL" }],
  }],
}), () => file_google_protobuf_duration);
const schema = <Shape extends Message>(name: Shape["$typeName"]) => registry.getMessage(name) as GenMessage<Shape>;

type ErrorInfo = Message<"google.rpc.ErrorInfo"> & { reason: string; domain: string; metadata: Record<string, string> };
type BadRequest = Message<"google.rpc.BadRequest"> & { fieldViolations: { field: string; description: string }[] };
type RetryInfo = Message<"google.rpc.RetryInfo"> & { retryDelay?: Duration };

export const ErrorInfoSchema = schema<ErrorInfo>("google.rpc.ErrorInfo");
export const BadRequestSchema = schema<BadRequest>("google.rpc.BadRequest");
export const RetryInfoSchema = schema<RetryInfo>("google.rpc.RetryInfo");
