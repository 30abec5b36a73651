package dev.longhaul;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.rpc.RetryInfo;
import dev.longhaul.v1.ControlRequest;
import dev.longhaul.v1.ControlResponse;
import dev.longhaul.v1.GetJobRequest;
import dev.longhaul.v1.GetJobResponse;
import dev.longhaul.v1.Job;
import dev.longhaul.v1.JobServiceGrpc.JobServiceImplBase;
import dev.longhaul.v1.JobStatus;
import dev.longhaul.v1.SubmitJobRequest;
import dev.longhaul.v1.SubmitJobResponse;
import dev.longhaul.v1.WatchJobRequest;
import dev.longhaul.v1.WatchJobResponse;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** A server that fails and answers as it is told, and keeps what it was asked. */
final class FakeServer extends JobServiceImplBase implements AutoCloseable {
    /** What the next calls fail with; when that is used up they go through. */
    final Queue<StatusRuntimeException> failures = new ConcurrentLinkedQueue<>();

    /** How the job stands at the next calls; then it is completed. */
    final Queue<JobStatus> statuses = new ConcurrentLinkedQueue<>();

    /** What the next watches do; then they end. */
    final Queue<Consumer<ServerCallStreamObserver<WatchJobResponse>>> watches = new ConcurrentLinkedQueue<>();

    /** What it was asked. */
    final List<Message> requests = new CopyOnWriteArrayList<>();

    private final Server server;
    private final ManagedChannel channel;

    FakeServer() throws IOException {
        var name = InProcessServerBuilder.generateName();
        server = InProcessServerBuilder.forName(name).addService(this).build().start();
        channel = InProcessChannelBuilder.forName(name).build();
    }

    LonghaulClient client() {
        return new LonghaulClient(channel, Duration.ofSeconds(30), Duration.ofMinutes(5));
    }

    Watch watch(Duration patience, Duration silence) {
        return new Watch(channel, WatchJobRequest.newBuilder().setJobId("job").build(), patience, silence);
    }

    /** An error as the server makes them. */
    static StatusRuntimeException error(Code code, Message... details) {
        return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
                .setCode(code.value())
                .setMessage("it is said here")
                .addAllDetails(Stream.of(details).map(Any::pack).toList())
                .build());
    }

    /** An error that is to be tried again after so long. */
    static StatusRuntimeException unavailable(Duration delay) {
        var asked = RetryInfo.newBuilder();
        asked.getRetryDelayBuilder().setSeconds(delay.toSeconds()).setNanos(delay.toNanosPart());
        return error(Code.UNAVAILABLE, asked.build());
    }

    @Override
    public void submitJob(SubmitJobRequest request, StreamObserver<SubmitJobResponse> answer) {
        answer(request, SubmitJobResponse.newBuilder().setCreated(true).build(), answer);
    }

    @Override
    public void getJob(GetJobRequest request, StreamObserver<GetJobResponse> answer) {
        var status = failures.isEmpty() ? statuses.poll() : null;
        var job = Job.newBuilder().setStatus(status == null ? JobStatus.JOB_STATUS_COMPLETED : status);
        answer(request, GetJobResponse.newBuilder().setJob(job).build(), answer);
    }

    @Override
    public void control(ControlRequest request, StreamObserver<ControlResponse> answer) {
        answer(request, ControlResponse.newBuilder().setChanged(true).build(), answer);
    }

    @Override
    public void watchJob(WatchJobRequest request, StreamObserver<WatchJobResponse> answer) {
        requests.add(request);
        var watch = watches.poll();
        if (watch == null) {
            answer.onCompleted();
        } else {
            watch.accept((ServerCallStreamObserver<WatchJobResponse>) answer);
        }
    }

    private <A> void answer(Message request, A message, StreamObserver<A> answer) {
        requests.add(request);
        var failure = failures.poll();
        if (failure != null) {
            answer.onError(failure);
            return;
        }
        answer.onNext(message);
        answer.onCompleted();
    }

    @Override
    public void close() {
        channel.shutdownNow();
        server.shutdownNow();
    }
}
