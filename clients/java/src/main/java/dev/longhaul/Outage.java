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

    /** How long to wait before the next try. Throws the error where there is to be none. */
    Duration pause(LonghaulException error) {
        failures++;
        if (failures == 1) {
            since = System.nanoTime();
        }
        var pause = error.pause(failures);
        var lasted = Duration.ofNanos(System.nanoTime() - since);
        if (!mayPass(error) || lasted.plus(pause).compareTo(patience) > 0) {
            throw error;
        }
        // The channel's own pauses between connections grow to two minutes.
        channel.resetConnectBackoff();
        return pause;
    }

    /** Whether trying again may help: the server is away or the line broke, and that is not what the caller did. */
    private boolean mayPass(LonghaulException error) {
        if (channel.isShutdown() || Context.current().isCancelled()) {
            return false;
        }
        return switch (error.code()) {
            case UNKNOWN, INTERNAL, CANCELLED, ABORTED, DATA_LOSS -> error.reason().isEmpty();
            default -> error.isTransient();
        };
    }
}
