package dev.longhaul;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.longhaul.v1.ControlRequest;
import dev.longhaul.v1.JobStatus;
import dev.longhaul.v1.PauseAction;
import dev.longhaul.v1.SubmitJobRequest;
import io.grpc.Deadline;
import io.grpc.Status.Code;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class LonghaulClientTest {
    private static final Duration SOON = Duration.ofNanos(1);

    private FakeServer server;
    private LonghaulClient client;

    @BeforeEach
    void start() throws IOException {
        server = new FakeServer();
        client = server.client();
    }

    @AfterEach
    void stop() {
        server.close();
    }

    @ParameterizedTest
    @CsvSource({
        "example.com:50051, example.com:50051",
        "http://127.0.0.1:50051, 127.0.0.1:50051",
        "https://example.com:443/, example.com:443",
        "http://[::1]:50051, [::1]:50051",
        "http://example.com, example.com:80",
        "https://[::1]/, [::1]:443",
        "'', 127.0.0.1:50051",
    })
    void anAddressNamesAHostAndAPort(String address, String authority) {
        try (var connected = new LonghaulClient.Builder(Map.of("LONGHAUL_SERVER", address)).connect()) {
            assertEquals(authority, connected.channel().authority());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"example.com", "[::1]", "http://", ":1", "http://a:", "a:65536", "ftp://a:1", "https://a@example.com:1", "https://a:1/jobs"})
    void whatIsNoAddressIsRefused(String address) {
        var builder = LonghaulClient.builder().address(address);
        assertThrows(IllegalArgumentException.class, builder::connect);
    }

    @Test
    void authoritiesCountWhereTlsIsSpoken() {
        var builder = new LonghaulClient.Builder(Map.of("LONGHAUL_CA_FILE", "none.pem"));
        builder.address("http://127.0.0.1:1").connect().close();
        builder.address("https://127.0.0.1:1");
        assertThrows(UncheckedIOException.class, builder::connect);
        builder.caFile(null).connect().close();
        builder.clientCertificate(Path.of("none.pem"), Path.of("none.key"));
        assertThrows(UncheckedIOException.class, builder::connect);
    }

    @Test
    void whatIsSaidAboutTlsIsNotPassedOver() {
        for (var address : List.of("http://127.0.0.1:1", "127.0.0.1:1")) {
            var trusting = LonghaulClient.builder().address(address).caFile(Path.of("none.pem"));
            assertThrows(IllegalArgumentException.class, trusting::connect);
            var showing = LonghaulClient.builder().address(address);
            showing.clientCertificate(Path.of("none.pem"), Path.of("none.key"));
            assertThrows(IllegalArgumentException.class, showing::connect);
        }
    }

    @Test
    void aSubmitIsRepeatedWithTheIdItWasGiven() {
        server.failures.addAll(Collections.nCopies(4, FakeServer.unavailable(SOON)));
        assertTrue(client.submit(SubmitJobRequest.getDefaultInstance()).getCreated());
        assertEquals(5, server.requests.size());
        var requests = new HashSet<>(server.requests);
        assertEquals(1, requests.size());
        UUID.fromString(((SubmitJobRequest) requests.iterator().next()).getJobId());
    }

    @Test
    void anActionHasAnIdOfItsOwn() {
        client.cancel("job", "");
        client.cancel("job", "");
        var pause = PauseAction.getDefaultInstance();
        client.control(ControlRequest.newBuilder().setRequestId("mine").setPause(pause).build());
        var ids = server.requests.stream().map(request -> ((ControlRequest) request).getRequestId()).toList();
        UUID.fromString(ids.get(0));
        assertFalse(ids.get(0).equals(ids.get(1)));
        assertEquals("mine", ids.get(2));
    }

    @Test
    void aCallIsTriedFiveTimes() {
        server.failures.addAll(Collections.nCopies(5, FakeServer.unavailable(SOON)));
        var error = assertThrows(LonghaulException.class, () -> client.get("job"));
        assertEquals(Code.UNAVAILABLE, error.code());
        assertEquals(5, server.requests.size());
    }

    @ParameterizedTest
    @EnumSource(value = Code.class, mode = EnumSource.Mode.EXCLUDE, names = {"OK", "UNAVAILABLE", "RESOURCE_EXHAUSTED"})
    void whatWasRefusedIsNotTriedAgain(Code code) {
        server.failures.add(FakeServer.error(code));
        var error = assertThrows(LonghaulException.class, () -> client.get("job"));
        assertEquals(code, error.code());
        assertEquals(1, server.requests.size());
    }

    @Test
    void aPauseThatOutlastsTheDeadlineIsNotBegun() {
        server.failures.add(FakeServer.unavailable(Duration.ofHours(1)));
        var error = assertThrows(LonghaulException.class, () -> client.get("job"));
        assertEquals(Duration.ofHours(1), error.retryAfter().orElseThrow());
        assertEquals(1, server.requests.size());
    }

    @Test
    void awaitingOutlastsTheServersAbsence() {
        server.failures.addAll(Collections.nCopies(7, FakeServer.unavailable(SOON)));
        server.statuses.add(JobStatus.JOB_STATUS_QUEUED);
        server.statuses.add(JobStatus.JOB_STATUS_RUNNING);
        server.statuses.add(JobStatus.JOB_STATUS_PAUSED);
        assertEquals(JobStatus.JOB_STATUS_PAUSED, client.await("job").getStatus());
        assertEquals(10, server.requests.size());
    }

    @Test
    void awaitingEndsWithItsTimeoutAndNotBefore() {
        var timeout = Duration.ofSeconds(2);
        var end = Deadline.after(timeout.toNanos(), TimeUnit.NANOSECONDS);
        server.failures.add(FakeServer.unavailable(Duration.ofHours(1)));
        var error = assertThrows(LonghaulException.class, () -> client.await("job", timeout));
        assertTrue(end.isExpired());
        assertEquals(Code.DEADLINE_EXCEEDED, error.code());
        assertEquals(Code.UNAVAILABLE, ((LonghaulException) error.getCause().getCause()).code());
        error = assertThrows(LonghaulException.class, () -> client.await("job", Duration.ZERO));
        assertEquals(Code.DEADLINE_EXCEEDED, error.code());
    }

    @Test
    void awaitingAsksAgainWhereNoAnswerCame() {
        server.failures.add(FakeServer.error(Code.DEADLINE_EXCEEDED));
        assertEquals(JobStatus.JOB_STATUS_COMPLETED, client.await("job", Duration.ofMinutes(1)).getStatus());
        assertEquals(2, server.requests.size());
    }

    @Test
    void awaitingGivesUpWhereItIsRefused() {
        server.failures.add(FakeServer.error(Code.NOT_FOUND));
        var error = assertThrows(LonghaulException.class, () -> client.await("job"));
        assertEquals(Code.NOT_FOUND, error.code());
        assertEquals(1, server.requests.size());
    }

    @Test
    void anInterruptedPauseIsLeft() {
        server.failures.add(FakeServer.unavailable(Duration.ofSeconds(20)));
        Thread.currentThread().interrupt();
        var error = assertThrows(LonghaulException.class, () -> client.get("job"));
        assertEquals(Code.CANCELLED, error.code());
        assertTrue(Thread.interrupted());
    }
}
