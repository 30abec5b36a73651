package dev.longhaul;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.ErrorInfo;
import dev.longhaul.v1.Event;
import dev.longhaul.v1.Heartbeat;
import dev.longhaul.v1.Job;
import dev.longhaul.v1.OutputDelta;
import dev.longhaul.v1.WatchJobRequest;
import dev.longhaul.v1.WatchJobResponse;
import io.grpc.Status.Code;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@Timeout(60)
class WatchTest {
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final WatchJobResponse SNAPSHOT =
            WatchJobResponse.newBuilder().setSnapshot(Job.newBuilder().setLastSequence(2)).build();
    private static final WatchJobResponse HEARTBEAT =
            WatchJobResponse.newBuilder().setHeartbeat(Heartbeat.getDefaultInstance()).build();
    private static final WatchJobResponse DELTA =
            WatchJobResponse.newBuilder().setOutputDelta(OutputDelta.getDefaultInstance()).build();

    private FakeServer server;

    @BeforeEach
    void start() throws IOException {
        server = new FakeServer();
    }

    @AfterEach
    void stop() {
        server.close();
    }

    private static WatchJobResponse event(int sequence) {
        return WatchJobResponse.newBuilder().setEvent(Event.newBuilder().setSequence(sequence)).build();
    }

    private List<Integer> positions() {
        return server.requests.stream()
                .map(request -> (WatchJobRequest) request)
                .map(request -> request.hasAfterSequence() ? request.getAfterSequence() : null)
                .toList();
    }

    @ParameterizedTest
    @EnumSource(
            value = Code.class,
            names = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "UNKNOWN", "INTERNAL", "CANCELLED", "ABORTED", "DATA_LOSS"})
    void aBrokenWatchGoesOnAfterWhatItHasDelivered(Code code) {
        server.watches.add(watch -> watch.onError(FakeServer.error(code)));
        server.watches.add(watch -> {
            watch.onNext(SNAPSHOT);
            watch.onNext(event(3));
            watch.onNext(HEARTBEAT);
            watch.onError(FakeServer.error(code));
        });
        server.watches.add(watch -> {
            watch.onNext(event(2));
            watch.onNext(event(3));
            watch.onNext(DELTA);
            watch.onNext(event(4));
            watch.onCompleted();
        });
        var seen = new ArrayList<WatchJobResponse>();
        try (var watch = server.client().watch("job")) {
            for (var message : watch) {
                seen.add(message);
            }
            assertThrows(NoSuchElementException.class, watch::next);
        }
        assertEquals(List.of(SNAPSHOT, event(3), DELTA, event(4)), seen);
        assertEquals(Arrays.asList(null, null, 3), positions());
    }

    @Test
    void whatTheServerRefusesIsThrown() {
        var info = ErrorInfo.newBuilder().setDomain("longhaul.dev").setReason("INTERNAL").build();
        for (var refusal : List.of(FakeServer.error(Code.INTERNAL, info), FakeServer.error(Code.OUT_OF_RANGE))) {
            server.watches.add(watch -> {
                watch.onNext(event(1));
                watch.onError(refusal);
            });
            var watch = server.client().watch("job");
            assertEquals(event(1), watch.next());
            assertEquals(refusal.getStatus().getCode(), assertThrows(LonghaulException.class, watch::hasNext).code());
            assertFalse(watch.hasNext());
        }
        assertEquals(2, server.requests.size());
    }

    @Test
    void itGivesUpWithTheLastError() {
        server.watches.add(watch -> watch.onError(FakeServer.unavailable(Duration.ofMillis(1))));
        server.watches.add(watch -> watch.onError(FakeServer.unavailable(Duration.ofMinutes(1))));
        var watch = server.watch(Duration.ofSeconds(50), LONG);
        var error = assertThrows(LonghaulException.class, watch::hasNext);
        assertEquals(Duration.ofMinutes(1), error.retryAfter().orElseThrow());
        assertEquals(2, server.requests.size());
    }

    @Test
    void aSilentLineIsLeftForAnother() throws InterruptedException {
        var cancelled = new CountDownLatch(1);
        server.watches.add(watch -> watch.setOnCancelHandler(cancelled::countDown));
        try (var watch = server.watch(LONG, Duration.ofMillis(20))) {
            assertFalse(watch.hasNext());
        }
        cancelled.await();
        assertTrue(server.requests.size() > 1);
    }

    @Test
    void leavingItCancelsTheCall() throws InterruptedException {
        var cancelled = new CountDownLatch(1);
        server.watches.add(watch -> {
            watch.setOnCancelHandler(cancelled::countDown);
            watch.onNext(event(1));
            watch.onNext(event(2));
        });
        var watch = server.client().watch("job");
        try (watch) {
            assertEquals(event(1), watch.next());
        }
        assertFalse(watch.hasNext());
        cancelled.await();
        assertEquals(1, server.requests.size());
    }

    @Test
    void closingItEndsTheWaitOfAnotherThread() {
        var open = new CompletableFuture<Void>();
        server.watches.add(watch -> open.complete(null));
        var watch = server.client().watch("job");
        var more = CompletableFuture.supplyAsync(watch::hasNext);
        open.join();
        watch.close();
        assertFalse(more.join());
    }

    @Test
    void anInterruptLeavesIt() throws InterruptedException {
        var cancelled = new CountDownLatch(1);
        server.watches.add(watch -> {
            watch.setOnCancelHandler(cancelled::countDown);
            watch.onNext(event(1));
        });
        var watch = server.client().watch("job");
        watch.next();
        Thread.currentThread().interrupt();
        assertEquals(Code.CANCELLED, assertThrows(LonghaulException.class, watch::hasNext).code());
        assertTrue(Thread.interrupted());
        cancelled.await();
    }

    @Test
    void aClosedClientIsNotTriedAgain() {
        var client = server.client();
        server.watches.add(watch -> watch.onNext(event(1)));
        var watch = client.watch("job");
        watch.next();
        client.close();
        assertEquals(Code.UNAVAILABLE, assertThrows(LonghaulException.class, watch::hasNext).code());
        assertEquals(1, server.requests.size());
    }
}
