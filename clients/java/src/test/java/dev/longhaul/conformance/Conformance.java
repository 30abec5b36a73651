package dev.longhaul.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.Message;
import com.google.protobuf.MessageOrBuilder;
import com.google.protobuf.util.JsonFormat;
import dev.longhaul.LonghaulClient;
import dev.longhaul.LonghaulException;
import dev.longhaul.v1.ApproveAction;
import dev.longhaul.v1.CancelAction;
import dev.longhaul.v1.GetJobRequest;
import dev.longhaul.v1.Job;
import dev.longhaul.v1.JobSelector;
import dev.longhaul.v1.ListJobsRequest;
import dev.longhaul.v1.OutputDelta;
import dev.longhaul.v1.PauseAction;
import dev.longhaul.v1.RejectAction;
import dev.longhaul.v1.RequestChangesAction;
import dev.longhaul.v1.ResumeAction;
import dev.longhaul.v1.RetryAction;
import dev.longhaul.v1.StepKind;
import dev.longhaul.v1.SubmitJobRequest;
import dev.longhaul.v1.Usage;
import dev.longhaul.v1.WatchJobRequest;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Base64;

/**
 * Proves the client against a server: {@code scenario} goes through the steps that all clients share, and
 * {@code follow JOB_ID} prints the sequence of each event as it comes.
 */
public final class Conformance {
    private final LonghaulClient usual;
    private boolean wentWell = true;

    private Conformance(LonghaulClient usual) {
        this.usual = usual;
    }

    /** Runs one of them; the process fails if a step does. */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        if (arguments[0].equals("follow")) {
            follow(arguments[1]);
            return;
        }
        try (var client = LonghaulClient.connect()) {
            if (!new Conformance(client).scenario()) {
                System.exit(1);
            }
        }
    }

    private static void follow(String jobId) {
        try (var client = LonghaulClient.connect();
                var watch = client.watch(jobId, 0)) {
            for (var message : watch) {
                if (message.hasEvent()) {
                    System.out.println(message.getEvent().getSequence());
                    System.out.flush();
                }
            }
        }
    }

    private boolean scenario() throws IOException, InterruptedException {
        var scenario = JsonParser.parseString(askWorld("GET", "scenario?client=java")).getAsJsonObject();
        for (var step : scenario.getAsJsonArray("steps")) {
            run(step.getAsJsonObject());
        }
        return wentWell;
    }

    private void run(JsonObject step) throws IOException, InterruptedException {
        String fault;
        try {
            var answer = isUsual(step) ? call(usual, step) : callElsewhere(step);
            fault = step.has("refused") ? "not refused: " + cut(answer) : difference("", step.get("expect"), answer);
        } catch (LonghaulException error) {
            fault = step.has("refused") ? difference(step.getAsJsonObject("refused"), error) : error.toString();
        }
        if (fault != null) {
            wentWell = false;
            System.out.println((step.has("name") ? step.get("name").getAsString() : cut(step)) + ": " + fault);
        }
    }

    private static boolean isUsual(JsonObject step) {
        return !step.has("api_key") && !step.has("silent") && !step.has("tls");
    }

    private JsonElement callElsewhere(JsonObject step) throws IOException, InterruptedException {
        var builder = LonghaulClient.builder();
        if (step.has("api_key")) {
            builder.apiKey(step.get("api_key").getAsString());
        }
        if (step.has("silent")) {
            builder.address(System.getenv("LONGHAUL_SILENT_SERVER"));
        }
        if (step.has("tls")) {
            builder.address(System.getenv("LONGHAUL_TLS_SERVER"));
            if (step.get("tls").getAsString().equals("untrusted")) {
                builder.caFile(null);
            }
        }
        try (var client = builder.connect()) {
            return call(client, step);
        }
    }

    private JsonElement call(LonghaulClient connected, JsonObject step) throws IOException, InterruptedException {
        var client = step.has("deadline_ms")
                ? connected.withDeadline(Duration.ofMillis(step.get("deadline_ms").getAsLong()))
                : connected;
        var jobId = step.has("job_id") ? step.get("job_id").getAsString() : "";
        var with = step.has("with") ? step.getAsJsonObject("with") : new JsonObject();
        return switch (step.get("do").getAsString()) {
            case "submit" -> json(client.submit(parse(step.get("request"), SubmitJobRequest.newBuilder()).build()));
            case "get" -> json(client.get(parse(step.get("request"), GetJobRequest.newBuilder()).build()));
            case "wait" -> json(client.await(jobId));
            case "pause" -> json(client.pause(jobId, parse(with, PauseAction.newBuilder()).getNow()));
            case "resume" -> json(client.resume(jobId, parse(with, ResumeAction.newBuilder()).getBudgetUsd()));
            case "cancel" -> json(client.cancel(jobId, parse(with, CancelAction.newBuilder()).getComment()));
            case "retry" -> json(client.retry(jobId, parse(with, RetryAction.newBuilder()).getFromStep()));
            case "approve" -> json(client.approve(jobId, parse(with, ApproveAction.newBuilder()).build()));
            case "reject" -> json(client.reject(jobId, parse(with, RejectAction.newBuilder()).build()));
            case "request_changes" ->
                json(client.requestChanges(jobId, parse(with, RequestChangesAction.newBuilder()).build()));
            case "list" -> list(client, step);
            case "watch" -> watch(client, jobId, step);
            case "vectors" -> vectors(step.getAsJsonArray("vectors"));
            default -> throw new IllegalArgumentException("unknown step: " + step);
        };
    }

    private static JsonElement list(LonghaulClient client, JsonObject step) throws IOException {
        var request = ListJobsRequest.newBuilder()
                .setSelector(parse(step.get("selector"), JobSelector.newBuilder()))
                .setPageSize(step.get("page_size").getAsInt());
        var ids = new JsonArray();
        client.list(request.build()).map(Job::getJobId).forEach(ids::add);
        var answer = new JsonObject();
        answer.add("job_ids", ids);
        return answer;
    }

    private JsonElement watch(LonghaulClient client, String jobId, JsonObject step)
            throws IOException, InterruptedException {
        var request = WatchJobRequest.newBuilder().setJobId(jobId).setIncludeOutputDeltas(step.has("deltas"));
        if (step.has("after_sequence")) {
            request.setAfterSequence(step.get("after_sequence").getAsInt());
        }
        var left = step.has("leave_after") ? step.get("leave_after").getAsInt() : Integer.MAX_VALUE;
        var answer = new JsonObject();
        var sequences = new JsonArray();
        var kinds = new JsonArray();
        var text = new StringBuilder();
        try (var watch = client.watch(request.build())) {
            for (; left > 0 && watch.hasNext(); left--) {
                var message = watch.next();
                var event = message.getEvent();
                switch (message.getContentCase()) {
                    case SNAPSHOT -> answer.add("snapshot", json(message.getSnapshot()));
                    case OUTPUT_DELTA -> put(text, message.getOutputDelta());
                    case EVENT -> {
                        sequences.add(event.getSequence());
                        kinds.add(event.getKind().name());
                        var finished = event.getStepFinished();
                        if (finished.getKind() == StepKind.STEP_KIND_RUN) {
                            var isOutput = !text.isEmpty() && finished.getOutput().contentEquals(text);
                            answer.addProperty("deltas_are_output", isOutput);
                        }
                        react(step, event.getSequence());
                    }
                    default -> throw new IllegalStateException("unexpected: " + message);
                }
            }
        }
        answer.add("sequences", sequences);
        answer.add("kinds", kinds);
        return answer;
    }

    /** Offsets count characters, where Java counts halves of some of them. */
    private static void put(StringBuilder text, OutputDelta delta) {
        text.setLength(text.offsetByCodePoints(0, delta.getOffset()));
        text.append(delta.getText());
    }

    private void react(JsonObject step, int sequence) throws IOException, InterruptedException {
        var reactions = step.has("on") ? step.getAsJsonObject("on").getAsJsonArray(Integer.toString(sequence)) : null;
        for (var reaction : reactions == null ? new JsonArray() : reactions) {
            if (reaction.isJsonObject()) {
                run(reaction.getAsJsonObject());
            } else {
                askWorld("POST", reaction.getAsString());
            }
        }
    }

    /** Asks through a connection of its own: the world closes each after its answer. */
    private static String askWorld(String method, String path) throws IOException, InterruptedException {
        var place = URI.create(System.getenv("LONGHAUL_CONFORMANCE") + "/" + path);
        var request = HttpRequest.newBuilder(place).method(method, BodyPublishers.noBody()).build();
        var answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(answer + ": " + answer.body());
        }
        return answer.body();
    }

    private static JsonElement vectors(JsonArray vectors) throws IOException {
        var answer = new JsonObject();
        for (var vector : vectors) {
            var wire = vector.getAsJsonObject().get("wire").getAsString();
            var json = vector.getAsJsonObject().get("json");
            var usage = Usage.parseFrom(Base64.getDecoder().decode(wire));
            var back = Base64.getEncoder().encodeToString(parse(json, Usage.newBuilder()).build().toByteArray());
            if (!json(usage).equals(json) || !back.equals(wire)) {
                throw new IllegalStateException(wire + " is " + usage + ", and " + json + " is " + back);
            }
        }
        return answer;
    }

    private static <B extends Message.Builder> B parse(JsonElement json, B builder) throws IOException {
        JsonFormat.parser().merge(json.toString(), builder);
        return builder;
    }

    private static JsonElement json(MessageOrBuilder message) throws IOException {
        return JsonParser.parseString(JsonFormat.printer().print(message));
    }

    /** What of the expectation is not in the answer; null if all is. */
    private static String difference(String path, JsonElement expected, JsonElement came) {
        if (expected == null) {
            return null;
        }
        if (expected instanceof JsonObject object && came instanceof JsonObject other) {
            for (var field : object.entrySet()) {
                var fault = difference(path + "." + field.getKey(), field.getValue(), other.get(field.getKey()));
                if (fault != null) {
                    return fault;
                }
            }
            return null;
        }
        if (expected instanceof JsonArray list && came instanceof JsonArray other && list.size() == other.size()) {
            for (var index = 0; index < list.size(); index++) {
                var fault = difference(path + "[" + index + "]", list.get(index), other.get(index));
                if (fault != null) {
                    return fault;
                }
            }
            return null;
        }
        var isLeftOut = came == null && expected.equals(new JsonPrimitive(false));
        return isLeftOut || expected.equals(came) ? null : path + ": expected " + cut(expected) + ", came " + cut(came);
    }

    /** What of the expected refusal the error does not say; null if it says all. */
    private static String difference(JsonObject refused, LonghaulException error) {
        var codes = refused.has("codes") ? refused.getAsJsonArray("codes") : new JsonArray();
        var said = new JsonObject();
        said.addProperty("code", error.code().name());
        said.addProperty("reason", error.reason());
        said.add("codes", codes.contains(said.get("code")) ? codes : JsonNull.INSTANCE);
        var fields = new JsonArray();
        error.violations().forEach(violation -> fields.add(violation.field()));
        said.add("fields", fields);
        var fault = difference("", refused, said);
        return fault == null ? null : fault + " of " + error;
    }

    private static String cut(JsonElement json) {
        var text = (json == null ? JsonNull.INSTANCE : json).toString();
        return text.length() <= 500 ? text : text.substring(0, 500) + "…";
    }
}
