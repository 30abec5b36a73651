package dev.longhaul;

import io.grpc.Context;
import io.grpc.ManagedChannel;
import java.time.Duration;

/** The time since a server was last heard, if it should have been. */
final class Outage {
    private final ManagedChannel channel;
    private final Duration patience;
    private int failures;
    private long since;

    Outage(ManagedChannel channel, Duration patience) {
        this.channel = channel;
        this.patience = patience;
    }

    /** The server was heard. */
    void end() {
        failures = 0;
    }

    /** How long to wait before the next try. Throws the error where it cannot pass, or the caller wants no more. */
    Duration pause(LonghaulException error, boolean mayPass) {
        failures++;
        if (failures == 1) {
            since = System.nanoTime();
        }
        var pause = error.pause(failures);
        var lasted = Duration.ofNanos(System.nanoTime() - since);
        var isLeft = channel.isShutdown() || Context.current().isCancelled();
        if (!mayPass || isLeft || lasted.plus(pause).compareTo(patience) > 0) {
            throw error;
        }
        // The channel's own pauses between connections grow to two minutes.
        channel.resetConnectBackoff();
        return pause;
    }
}
