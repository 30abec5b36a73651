package dev.longhaul;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/** A call that failed or that the server refused. Its cause is gRPC's own exception. */
@SuppressWarnings("serial") // What Map.copyOf and List.copyOf make can be serialized.
public final class LonghaulException extends RuntimeException {
    private static final Metadata.Key<byte[]> DETAILS =
            Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

    private final Status.Code code;
    private final String reason;
    private final Map<String, String> metadata;
    private final List<Violation> violations;
    private final Duration retryAfter;

    /**
     * A field of a request that is wrong.
     *
     * @param field its path, such as {@code steps[0].run.prompt}
     * @param description what is wrong with it
     */
    public record Violation(String field, String description) implements Serializable {}

    /**
     * Reads what the server said.
     *
     * @param cause what a generated stub threw
     */
    public LonghaulException(StatusRuntimeException cause) {
        super(cause.getMessage(), cause);
        var info = ErrorInfo.getDefaultInstance();
        var wrong = new ArrayList<Violation>();
        Duration delay = null;
        var trailers = cause.getTrailers();
        var details = trailers == null || !trailers.containsKey(DETAILS) ? new byte[0] : trailers.get(DETAILS);
        try {
            for (var detail : com.google.rpc.Status.parseFrom(details).getDetailsList()) {
                if (detail.is(ErrorInfo.class) && detail.unpack(ErrorInfo.class).getDomain().equals("longhaul.dev")) {
                    info = detail.unpack(ErrorInfo.class);
                } else if (detail.is(BadRequest.class)) {
                    detail.unpack(BadRequest.class).getFieldViolationsList()
                            .forEach(each -> wrong.add(new Violation(each.getField(), each.getDescription())));
                } else if (detail.is(RetryInfo.class)) {
                    var asked = detail.unpack(RetryInfo.class).getRetryDelay();
                    delay = Duration.ofSeconds(asked.getSeconds(), asked.getNanos());
                }
            }
        } catch (InvalidProtocolBufferException e) {
            addSuppressed(e);
        }
        this.code = cause.getStatus().getCode();
        this.reason = info.getReason();
        this.metadata = Map.copyOf(info.getMetadataMap());
        this.violations = List.copyOf(wrong);
        this.retryAfter = delay;
    }

    /** The code of gRPC, such as {@code NOT_FOUND}. */
    public Status.Code code() {
        return code;
    }

    /** A word of the closed list in the proto, such as {@code JOB_NOT_FOUND}; empty if Longhaul has not said it. */
    public String reason() {
        return reason;
    }

    /** More about the reason, such as the {@code status} of a job that cannot be moved. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** The fields of the request that are wrong. */
    public List<Violation> violations() {
        return violations;
    }

    /** How long the server wants the next try to wait. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /** Whether the same call may go through the next time. */
    boolean isTransient() {
        return code == Status.Code.UNAVAILABLE || code == Status.Code.RESOURCE_EXHAUSTED;
    }

    /** Whether the server is away or the line to it broke. */
    boolean isBrokenLine() {
        return switch (code) {
            case UNKNOWN, INTERNAL, CANCELLED, ABORTED, DATA_LOSS -> reason.isEmpty();
            default -> isTransient();
        };
    }

    /** The pause after so many failures: the one the server asks for, else one that doubles, half of it by chance. */
    Duration pause(int failures) {
        var longest = Math.min(100 << Math.min(failures - 1, 6), 5_000);
        var chosen = ThreadLocalRandom.current().nextInt(longest / 2, longest + 1);
        return retryAfter().filter(asked -> !asked.isZero()).orElse(Duration.ofMillis(chosen));
    }
}
