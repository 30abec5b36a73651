package dev.longhaul;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.BadRequest;
import com.google.rpc.BadRequest.FieldViolation;
import com.google.rpc.ErrorInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;

class LonghaulExceptionTest {
    private static final Metadata.Key<byte[]> DETAILS =
            Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

    @Test
    void allThatTheServerSaysIsRead() {
        var info = ErrorInfo.newBuilder().setDomain("longhaul.dev").setReason("INVALID_REQUEST").putMetadata("a", "b");
        var field = FieldViolation.newBuilder().setField("task").setDescription("is too long");
        var fields = BadRequest.newBuilder().addFieldViolations(field);
        var cause = FakeServer.error(Code.INVALID_ARGUMENT, info.build(), fields.build());
        var error = new LonghaulException(cause);
        assertEquals(Code.INVALID_ARGUMENT, error.code());
        assertEquals("INVALID_ARGUMENT: it is said here", error.getMessage());
        assertEquals("INVALID_REQUEST", error.reason());
        assertEquals(Map.of("a", "b"), error.metadata());
        assertEquals(List.of(new LonghaulException.Violation("task", "is too long")), error.violations());
        assertEquals(Optional.empty(), error.retryAfter());
        assertSame(cause, error.getCause());
    }

    @Test
    void thePauseThatTheServerAsksForIsRead() {
        var error = new LonghaulException(FakeServer.unavailable(Duration.ofMillis(1500)));
        assertEquals(Optional.of(Duration.ofMillis(1500)), error.retryAfter());
    }

    @Test
    void aReasonOfSomebodyElseIsNone() {
        var info = ErrorInfo.newBuilder().setDomain("example.com").setReason("PROXY").putMetadata("a", "b").build();
        var error = new LonghaulException(FakeServer.error(Code.INTERNAL, info));
        assertEquals("", error.reason());
        assertEquals(Map.of(), error.metadata());
    }

    @Test
    void whatHasNoDetailsOrBrokenOnesIsAnErrorAllTheSame() {
        var broken = new Metadata();
        broken.put(DETAILS, new byte[] {-1, -1, -1});
        for (var cause : List.of(Status.INTERNAL.asRuntimeException(), Status.INTERNAL.asRuntimeException(broken))) {
            var error = new LonghaulException(cause);
            assertEquals(Code.INTERNAL, error.code());
            assertEquals("", error.reason());
            assertEquals(List.of(), error.violations());
        }
    }

    @RepeatedTest(20)
    void pausesDoubleUpToFiveSecondsAndHalfOfThemIsChance() {
        var error = new LonghaulException(FakeServer.error(Code.UNAVAILABLE));
        for (var failures = 1; failures < 100; failures++) {
            var most = failures < 7 ? 50L << failures : 5000;
            var pause = error.pause(failures).toMillis();
            assertTrue(most / 2 <= pause && pause <= most, failures + " failures, " + pause + " ms");
        }
    }

    @Test
    void theServersPauseIsKept() {
        var error = new LonghaulException(FakeServer.unavailable(Duration.ofMinutes(2)));
        assertEquals(Duration.ofMinutes(2), error.pause(1));
    }
}
