package dev.longhaul;

import dev.longhaul.v1.JobServiceGrpc;
import dev.longhaul.v1.WatchJobRequest;
import dev.longhaul.v1.WatchJobResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * What happens to a job, as it happens: a snapshot, events, pieces of answers and notices, until the job has ended.
 *
 * <p>It connects again by itself where a line breaks or goes silent, and goes on after the last event it has delivered,
 * so no event is lost or comes twice. An answer that was arriving meanwhile is sent anew, from offset 0.
 *
 * <p>It is for one thread and one loop. Close it, or the call stays open when the loop is left early; any thread may.
 */
public final class Watch implements Iterator<WatchJobResponse>, Iterable<WatchJobResponse>, AutoCloseable {
    private final ManagedChannel channel;
    private final WatchJobRequest.Builder request;
    private final Outage outage;
    private final Duration silence;
    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile Line line;
    private WatchJobResponse next;

    Watch(ManagedChannel channel, WatchJobRequest request, Duration patience, Duration silence) {
        this.channel = channel;
        this.request = request.toBuilder();
        this.outage = new Outage(channel, patience);
        this.silence = silence;
    }

    /**
     * Waits for the next message; false once the job has ended and all was told, or the watch was closed.
     *
     * @throws LonghaulException if the server refuses, or could not be reached for too long
     */
    @Override
    public boolean hasNext() {
        try {
            while (next == null && !isClosed()) {
                receive();
            }
        } catch (InterruptedException e) {
            close();
            throw LonghaulClient.interrupted(e);
        } catch (LonghaulException e) {
            close();
            throw e;
        }
        return next != null && !isClosed();
    }

    @Override
    public WatchJobResponse next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        var message = next;
        next = null;
        return message;
    }

    /** This watch itself, for a {@code for} loop. */
    @Override
    public Iterator<WatchJobResponse> iterator() {
        return this;
    }

    /** Ends the watch and its call; a thread that waits for the next message is told that there is none. */
    @Override
    public void close() {
        closed.countDown();
        var open = line;
        if (open != null) {
            open.cancel();
        }
    }

    private boolean isClosed() {
        return closed.getCount() == 0;
    }

    private void receive() throws InterruptedException {
        try {
            if (line == null) {
                line = new Line(channel, request.build());
            }
            // A close that came just before found no line, or an older one.
            var message = isClosed() ? null : line.take(silence);
            if (message == null) {
                close();
                return;
            }
            outage.end();
            next = isNews(message) ? message : null;
        } catch (StatusRuntimeException e) {
            if (!isClosed()) {
                line = null;
                var error = new LonghaulException(e);
                var pause = outage.pause(error, error.isBrokenLine());
                closed.await(pause.toNanos(), TimeUnit.NANOSECONDS);
            }
        }
    }

    /** Whether a message is to be delivered; keeps in mind how far the watch has come. */
    private boolean isNews(WatchJobResponse message) {
        return switch (message.getContentCase()) {
            case SNAPSHOT -> advance(message.getSnapshot().getLastSequence());
            case EVENT -> advance(message.getEvent().getSequence());
            case OUTPUT_DELTA, NOTICE -> true;
            case HEARTBEAT, CONTENT_NOT_SET -> false;
        };
    }

    private boolean advance(int sequence) {
        if (request.hasAfterSequence() && sequence <= request.getAfterSequence()) {
            return false;
        }
        request.setAfterSequence(sequence);
        return true;
    }

    /** One call. What comes lies in a queue until it is taken: a message, the end, which is null, or an error. */
    private static final class Line extends ClientCall.Listener<WatchJobResponse> {
        private final BlockingQueue<Supplier<WatchJobResponse>> arrived = new LinkedBlockingQueue<>();
        private final ClientCall<WatchJobRequest, WatchJobResponse> call;

        Line(Channel channel, WatchJobRequest request) {
            call = channel.newCall(JobServiceGrpc.getWatchJobMethod(), CallOptions.DEFAULT);
            call.start(this, new Metadata());
            call.sendMessage(request);
            call.halfClose();
            call.request(1);
        }

        @Override
        public void onMessage(WatchJobResponse message) {
            arrived.add(() -> message);
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            arrived.add(() -> {
                if (status.isOk()) {
                    return null;
                }
                throw status.asRuntimeException(trailers);
            });
        }

        /** The next message, or null at the end. A line on which nothing comes for too long is dead. */
        WatchJobResponse take(Duration silence) throws InterruptedException {
            var first = arrived.poll(silence.toNanos(), TimeUnit.NANOSECONDS);
            if (first == null) {
                cancel();
                throw Status.UNAVAILABLE.withDescription("the watch was silent for " + silence).asRuntimeException();
            }
            var message = first.get();
            call.request(1);
            return message;
        }

        void cancel() {
            call.cancel("the watch was left", null);
        }
    }
}
