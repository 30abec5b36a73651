package dev.longhaul;

import dev.longhaul.v1.ApproveAction;
import dev.longhaul.v1.CancelAction;
import dev.longhaul.v1.ControlRequest;
import dev.longhaul.v1.ControlResponse;
import dev.longhaul.v1.GetJobRequest;
import dev.longhaul.v1.GetJobResponse;
import dev.longhaul.v1.Job;
import dev.longhaul.v1.JobServiceGrpc;
import dev.longhaul.v1.JobServiceGrpc.JobServiceBlockingStub;
import dev.longhaul.v1.JobStatus;
import dev.longhaul.v1.ListJobsRequest;
import dev.longhaul.v1.ListJobsResponse;
import dev.longhaul.v1.PauseAction;
import dev.longhaul.v1.RejectAction;
import dev.longhaul.v1.RequestChangesAction;
import dev.longhaul.v1.ResumeAction;
import dev.longhaul.v1.RetryAction;
import dev.longhaul.v1.SubmitJobRequest;
import dev.longhaul.v1.SubmitJobResponse;
import dev.longhaul.v1.WatchJobRequest;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.Deadline;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A client of a Longhaul server, for any number of threads.
 *
 * <p>A call takes at most 30 seconds, if nothing else is said. What is {@code UNAVAILABLE} or
 * {@code RESOURCE_EXHAUSTED} is tried up to five times within that. All that fails throws a {@link LonghaulException}.
 */
public final class LonghaulClient implements AutoCloseable {
    private static final int ATTEMPTS = 5;
    private static final int WAIT_SECONDS = 50; // Many proxies cut a line that is silent for a minute.
    private static final Duration FOREVER = Duration.ofDays(36_500);
    private static final Duration SILENCE = Duration.ofSeconds(45);

    private final ManagedChannel channel;
    private final Duration deadline;
    private final Duration patience;

    LonghaulClient(ManagedChannel channel, Duration deadline, Duration patience) {
        this.channel = channel;
        this.deadline = deadline;
        this.patience = patience;
    }

    /** Connects as {@code LONGHAUL_SERVER}, {@code LONGHAUL_API_KEY} and {@code LONGHAUL_CA_FILE} say. */
    public static LonghaulClient connect() {
        return builder().connect();
    }

    /** Says how to connect, where it is not as the environment says. */
    public static Builder builder() {
        return new Builder(System.getenv());
    }

    /** This client with another deadline for each call; both share, and close, one connection. */
    public LonghaulClient withDeadline(Duration deadline) {
        return new LonghaulClient(channel, deadline, patience);
    }

    /** Stores a job; makes a {@code job_id} if there is none. Repeating it with the same id makes no second job. */
    public SubmitJobResponse submit(SubmitJobRequest request) {
        var named = request.getJobId().isEmpty() ? request.toBuilder().setJobId(newId()).build() : request;
        return call(stub -> stub.submitJob(named));
    }

    /** Shows a job. */
    public Job get(String jobId) {
        return get(GetJobRequest.newBuilder().setJobId(jobId).build()).getJob();
    }

    /** Shows a job and what else is asked for; what it is to wait comes on top of the deadline. */
    public GetJobResponse get(GetJobRequest request) {
        return withDeadline(deadline.plusSeconds(request.getWaitSeconds())).call(stub -> stub.getJob(request));
    }

    /**
     * Waits until a job stands still, because it awaits approval or is paused, or has ended. It goes on while the server
     * is away, for as long as a watch does.
     */
    public Job await(String jobId) {
        return await(jobId, after(FOREVER), patience);
    }

    /**
     * Waits as {@link #await(String)} does, but for so long, also where the server is away.
     *
     * @throws LonghaulException with {@code DEADLINE_EXCEEDED} if the job still moves then, or is not heard of; among its
     *     causes is what went wrong last, if anything has
     */
    public Job await(String jobId, Duration timeout) {
        return await(jobId, after(timeout), FOREVER);
    }

    /** Goes through the jobs of all pages, newest first; each page is asked for when the one before was read. */
    public Stream<Job> list(ListJobsRequest request) {
        return Stream.iterate(page(request), Objects::nonNull, page -> {
            var token = page.getNextPageToken();
            return token.isEmpty() ? null : page(request.toBuilder().setPageToken(token).build());
        }).flatMap(page -> page.getJobsList().stream());
    }

    /** Watches a job from now on; the first message is a snapshot. */
    public Watch watch(String jobId) {
        return watch(WatchJobRequest.newBuilder().setJobId(jobId).build());
    }

    /** Watches a job from after this event on; from 0 on, it begins with the first. */
    public Watch watch(String jobId, int afterSequence) {
        return watch(WatchJobRequest.newBuilder().setJobId(jobId).setAfterSequence(afterSequence).build());
    }

    /** Watches a job as the request says; for pieces of answers and for notices too. */
    public Watch watch(WatchJobRequest request) {
        return new Watch(channel, request, patience, SILENCE);
    }

    /** Holds a job once the attempt in hand has ended. */
    public ControlResponse pause(String jobId) {
        return pause(jobId, false);
    }

    /** Holds a job; with {@code now} the attempt in hand is aborted, and begins again after the resume. */
    public ControlResponse pause(String jobId, boolean now) {
        return control(action(jobId).setPause(PauseAction.newBuilder().setNow(now)).build());
    }

    /** Lets a paused job go on. */
    public ControlResponse resume(String jobId) {
        return resume(jobId, "");
    }

    /** Lets a paused job go on, and cost so much in all: an exact decimal of US dollars, such as {@code 2.50}. */
    public ControlResponse resume(String jobId, String budgetUsd) {
        return control(action(jobId).setResume(ResumeAction.newBuilder().setBudgetUsd(budgetUsd)).build());
    }

    /** Ends a job; the comment, which may be empty, is shown in its history. */
    public ControlResponse cancel(String jobId, String comment) {
        return control(action(jobId).setCancel(CancelAction.newBuilder().setComment(comment)).build());
    }

    /** Begins a job again that failed or was cancelled, at the step where it ended. */
    public ControlResponse retry(String jobId) {
        return retry(jobId, 0);
    }

    /** Begins a job again that failed or was cancelled, at this step, numbered from 1. */
    public ControlResponse retry(String jobId, int fromStep) {
        return control(action(jobId).setRetry(RetryAction.newBuilder().setFromStep(fromStep)).build());
    }

    /** Votes for going on. */
    public ControlResponse approve(String jobId, ApproveAction vote) {
        return control(action(jobId).setApprove(vote).build());
    }

    /** Ends a job by a vote against it. */
    public ControlResponse reject(String jobId, RejectAction vote) {
        return control(action(jobId).setReject(vote).build());
    }

    /** Has the step that an approval shows done again. */
    public ControlResponse requestChanges(String jobId, RequestChangesAction vote) {
        return control(action(jobId).setRequestChanges(vote).build());
    }

    /** Moves a job; makes a {@code request_id} if there is none, so that repeating the call moves nothing twice. */
    public ControlResponse control(ControlRequest request) {
        var named = request.getRequestId().isEmpty() ? request.toBuilder().setRequestId(newId()).build() : request;
        return call(stub -> stub.control(named));
    }

    /**
     * Calls any method of the generated stub that answers once, such as
     * {@code client.call(stub -> stub.getUsage(request))}, with this client's deadline, retries and errors. A retry may
     * repeat what has already taken effect, so give the request an id where it takes one.
     */
    public <A> A call(Function<JobServiceBlockingStub, A> method) {
        var end = after(deadline);
        for (var failures = 1; ; failures++) {
            try {
                return method.apply(stub().withDeadline(end));
            } catch (StatusRuntimeException e) {
                var error = new LonghaulException(e);
                var pause = error.pause(failures);
                var isLate = pause.compareTo(Duration.ofNanos(end.timeRemaining(TimeUnit.NANOSECONDS))) > 0;
                if (failures == ATTEMPTS || !error.isTransient() || isLate || channel.isShutdown()) {
                    throw error;
                }
                channel.resetConnectBackoff();
                sleep(pause.toNanos());
            }
        }
    }

    /** What generated stubs of any kind are made with. It sends the key; deadlines and retries are up to you. */
    public Channel channel() {
        return channel;
    }

    /** Closes the connection; calls and watches that are open fail. */
    @Override
    public void close() {
        channel.shutdownNow();
    }

    static LonghaulException interrupted(InterruptedException cause) {
        Thread.currentThread().interrupt();
        var status = Status.CANCELLED.withDescription("interrupted").withCause(cause);
        return new LonghaulException(status.asRuntimeException());
    }

    private Job await(String jobId, Deadline end, Duration patience) {
        var request = GetJobRequest.newBuilder().setJobId(jobId).setWaitSeconds(WAIT_SECONDS).build();
        var outage = new Outage(channel, patience);
        LonghaulException last = null;
        while (!end.isExpired()) {
            try {
                var answered = after(deadline.plusSeconds(WAIT_SECONDS));
                var job = stub().withDeadline(end.minimum(answered)).getJob(request).getJob();
                outage.end();
                last = null;
                if (job.getStatus() != JobStatus.JOB_STATUS_QUEUED && job.getStatus() != JobStatus.JOB_STATUS_RUNNING) {
                    return job;
                }
            } catch (StatusRuntimeException e) {
                var isLate = e.getStatus().getCode() == Status.Code.DEADLINE_EXCEEDED;
                if (isLate && end.isExpired()) {
                    break;
                }
                last = new LonghaulException(e);
                // The deadline was that of one question, not of the wait.
                var pause = outage.pause(last, isLate || last.isBrokenLine());
                sleep(Math.min(pause.toNanos(), end.timeRemaining(TimeUnit.NANOSECONDS)));
            }
        }
        var late = Status.DEADLINE_EXCEEDED.withDescription("the job did not come to stand still in time");
        throw new LonghaulException(late.withCause(last).asRuntimeException());
    }

    private static void sleep(long nanos) {
        try {
            TimeUnit.NANOSECONDS.sleep(nanos);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    private JobServiceBlockingStub stub() {
        return JobServiceGrpc.newBlockingStub(channel);
    }

    private ListJobsResponse page(ListJobsRequest request) {
        return call(stub -> stub.listJobs(request));
    }

    private static ControlRequest.Builder action(String jobId) {
        return ControlRequest.newBuilder().setJobId(jobId);
    }

    private static Deadline after(Duration time) {
        return Deadline.after(time.toNanos(), TimeUnit.NANOSECONDS);
    }

    private static String newId() {
        return UUID.randomUUID().toString();
    }

    /**
     * How to connect. What is not said is as {@code LONGHAUL_SERVER}, {@code LONGHAUL_API_KEY} and
     * {@code LONGHAUL_CA_FILE} say.
     */
    public static final class Builder {
        private static final Pattern ADDRESS =
                Pattern.compile("(?:(https?)://)?(\\[[^\\]]+]|[^@:/]+)(?::(\\d{1,5}))?/?");

        private String address;
        private String apiKey;
        private Path usualCaFile;
        private Path caFile;
        private Path certificate;
        private Path privateKey;
        private Duration deadline = Duration.ofSeconds(30);
        private Duration patience = Duration.ofMinutes(5);

        Builder(Map<String, String> environment) {
            var server = environment.getOrDefault("LONGHAUL_SERVER", "");
            var authorities = environment.getOrDefault("LONGHAUL_CA_FILE", "");
            address = server.isEmpty() ? "http://127.0.0.1:50051" : server;
            apiKey = environment.getOrDefault("LONGHAUL_API_KEY", "");
            usualCaFile = authorities.isEmpty() ? null : Path.of(authorities);
        }

        /**
         * The server: {@code host:port}, {@code http://host:port}, or {@code https://host:port} for TLS. After a scheme
         * the port may be left out: it is then 80, or 443 for TLS.
         */
        public Builder address(String address) {
            this.address = address;
            return this;
        }

        /** The API key; empty for none. It is sent with each call, over plaintext too. */
        public Builder apiKey(String apiKey) {
            this.apiKey = apiKey;
            return this;
        }

        /** The authorities that TLS trusts, as PEM; null for those of the Java runtime. */
        public Builder caFile(Path caFile) {
            this.caFile = caFile;
            usualCaFile = null;
            return this;
        }

        /** The certificate that is shown to the server over TLS, and its key as PKCS #8, both as PEM. */
        public Builder clientCertificate(Path certificate, Path privateKey) {
            this.certificate = certificate;
            this.privateKey = privateKey;
            return this;
        }

        /** How long a call may take, with all its tries; 30 seconds if nothing is said. */
        public Builder deadline(Duration deadline) {
            this.deadline = deadline;
            return this;
        }

        /** How long a watch, or an await, goes on without hearing the server; 5 minutes if nothing is said. */
        public Builder patience(Duration patience) {
            this.patience = patience;
            return this;
        }

        /**
         * Makes the client; it connects with its first call.
         *
         * @throws IllegalArgumentException if the address is none, or not https where something is said about TLS
         * @throws UncheckedIOException if a file cannot be read
         */
        public LonghaulClient connect() {
            var parts = ADDRESS.matcher(address);
            var port = parts.matches() ? port(parts.group(1), parts.group(3)) : 0;
            if (port < 1 || port > 65_535) {
                throw new IllegalArgumentException("not host:port, http://host:port or https://host:port: " + address);
            }
            var isSecure = "https".equals(parts.group(1));
            if (!isSecure && (caFile != null || certificate != null)) {
                throw new IllegalArgumentException("TLS is spoken at https://host:port, not at " + address);
            }
            var headers = new Metadata();
            if (!apiKey.isEmpty()) {
                headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + apiKey);
            }
            try {
                var credentials = isSecure ? tls() : InsecureChannelCredentials.create();
                var channel = Grpc.newChannelBuilderForAddress(parts.group(2), port, credentials)
                        .intercept(MetadataUtils.newAttachHeadersInterceptor(headers))
                        .keepAliveTime(30, TimeUnit.SECONDS)
                        .maxInboundMessageSize(16 << 20)
                        .build();
                return new LonghaulClient(channel, deadline, patience);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** The port that is named, else the usual one of the scheme; 0 if there is neither. */
        private static int port(String scheme, String named) {
            if (named != null) {
                return Integer.parseInt(named);
            }
            return scheme == null ? 0 : scheme.equals("https") ? 443 : 80;
        }

        private ChannelCredentials tls() throws IOException {
            var tls = TlsChannelCredentials.newBuilder();
            var authorities = caFile == null ? usualCaFile : caFile;
            if (authorities != null) {
                tls.trustManager(authorities.toFile());
            }
            if (certificate != null) {
                tls.keyManager(certificate.toFile(), privateKey.toFile());
            }
            return tls.build();
        }
    }
}
