package dev.longhaul.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * JobService submits jobs, shows them, moves them and lets clients watch them.
 * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
 * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
 * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
 * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
 *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
 *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
 *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
 *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
 *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
 *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
 *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
 *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
 *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
 *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
 *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
 *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
 *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
 *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
 *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
 *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
 *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
 *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
 *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
 *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
 *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
 *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
 *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
 *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
 *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
 *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
 *   INTERNAL                 INTERNAL             a fault of the server, described in its log
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class JobServiceGrpc {

  private JobServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "longhaul.v1.JobService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.SubmitJobRequest,
      dev.longhaul.v1.SubmitJobResponse> getSubmitJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitJob",
      requestType = dev.longhaul.v1.SubmitJobRequest.class,
      responseType = dev.longhaul.v1.SubmitJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.SubmitJobRequest,
      dev.longhaul.v1.SubmitJobResponse> getSubmitJobMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.SubmitJobRequest, dev.longhaul.v1.SubmitJobResponse> getSubmitJobMethod;
    if ((getSubmitJobMethod = JobServiceGrpc.getSubmitJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getSubmitJobMethod = JobServiceGrpc.getSubmitJobMethod) == null) {
          JobServiceGrpc.getSubmitJobMethod = getSubmitJobMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.SubmitJobRequest, dev.longhaul.v1.SubmitJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitJob"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.SubmitJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.SubmitJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("SubmitJob"))
              .build();
        }
      }
    }
    return getSubmitJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.GetJobRequest,
      dev.longhaul.v1.GetJobResponse> getGetJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetJob",
      requestType = dev.longhaul.v1.GetJobRequest.class,
      responseType = dev.longhaul.v1.GetJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.GetJobRequest,
      dev.longhaul.v1.GetJobResponse> getGetJobMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.GetJobRequest, dev.longhaul.v1.GetJobResponse> getGetJobMethod;
    if ((getGetJobMethod = JobServiceGrpc.getGetJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getGetJobMethod = JobServiceGrpc.getGetJobMethod) == null) {
          JobServiceGrpc.getGetJobMethod = getGetJobMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.GetJobRequest, dev.longhaul.v1.GetJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.GetJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.GetJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("GetJob"))
              .build();
        }
      }
    }
    return getGetJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.ControlRequest,
      dev.longhaul.v1.ControlResponse> getControlMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Control",
      requestType = dev.longhaul.v1.ControlRequest.class,
      responseType = dev.longhaul.v1.ControlResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.ControlRequest,
      dev.longhaul.v1.ControlResponse> getControlMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.ControlRequest, dev.longhaul.v1.ControlResponse> getControlMethod;
    if ((getControlMethod = JobServiceGrpc.getControlMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getControlMethod = JobServiceGrpc.getControlMethod) == null) {
          JobServiceGrpc.getControlMethod = getControlMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.ControlRequest, dev.longhaul.v1.ControlResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Control"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ControlRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ControlResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("Control"))
              .build();
        }
      }
    }
    return getControlMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.RevokeLinksRequest,
      dev.longhaul.v1.RevokeLinksResponse> getRevokeLinksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RevokeLinks",
      requestType = dev.longhaul.v1.RevokeLinksRequest.class,
      responseType = dev.longhaul.v1.RevokeLinksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.RevokeLinksRequest,
      dev.longhaul.v1.RevokeLinksResponse> getRevokeLinksMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.RevokeLinksRequest, dev.longhaul.v1.RevokeLinksResponse> getRevokeLinksMethod;
    if ((getRevokeLinksMethod = JobServiceGrpc.getRevokeLinksMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getRevokeLinksMethod = JobServiceGrpc.getRevokeLinksMethod) == null) {
          JobServiceGrpc.getRevokeLinksMethod = getRevokeLinksMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.RevokeLinksRequest, dev.longhaul.v1.RevokeLinksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RevokeLinks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.RevokeLinksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.RevokeLinksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("RevokeLinks"))
              .build();
        }
      }
    }
    return getRevokeLinksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.WatchJobRequest,
      dev.longhaul.v1.WatchJobResponse> getWatchJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchJob",
      requestType = dev.longhaul.v1.WatchJobRequest.class,
      responseType = dev.longhaul.v1.WatchJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.WatchJobRequest,
      dev.longhaul.v1.WatchJobResponse> getWatchJobMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.WatchJobRequest, dev.longhaul.v1.WatchJobResponse> getWatchJobMethod;
    if ((getWatchJobMethod = JobServiceGrpc.getWatchJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getWatchJobMethod = JobServiceGrpc.getWatchJobMethod) == null) {
          JobServiceGrpc.getWatchJobMethod = getWatchJobMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.WatchJobRequest, dev.longhaul.v1.WatchJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchJob"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.WatchJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.WatchJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("WatchJob"))
              .build();
        }
      }
    }
    return getWatchJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.ListJobsRequest,
      dev.longhaul.v1.ListJobsResponse> getListJobsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListJobs",
      requestType = dev.longhaul.v1.ListJobsRequest.class,
      responseType = dev.longhaul.v1.ListJobsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.ListJobsRequest,
      dev.longhaul.v1.ListJobsResponse> getListJobsMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.ListJobsRequest, dev.longhaul.v1.ListJobsResponse> getListJobsMethod;
    if ((getListJobsMethod = JobServiceGrpc.getListJobsMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getListJobsMethod = JobServiceGrpc.getListJobsMethod) == null) {
          JobServiceGrpc.getListJobsMethod = getListJobsMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.ListJobsRequest, dev.longhaul.v1.ListJobsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListJobs"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ListJobsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ListJobsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("ListJobs"))
              .build();
        }
      }
    }
    return getListJobsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.ControlJobsRequest,
      dev.longhaul.v1.ControlJobsResponse> getControlJobsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ControlJobs",
      requestType = dev.longhaul.v1.ControlJobsRequest.class,
      responseType = dev.longhaul.v1.ControlJobsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.ControlJobsRequest,
      dev.longhaul.v1.ControlJobsResponse> getControlJobsMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.ControlJobsRequest, dev.longhaul.v1.ControlJobsResponse> getControlJobsMethod;
    if ((getControlJobsMethod = JobServiceGrpc.getControlJobsMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getControlJobsMethod = JobServiceGrpc.getControlJobsMethod) == null) {
          JobServiceGrpc.getControlJobsMethod = getControlJobsMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.ControlJobsRequest, dev.longhaul.v1.ControlJobsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ControlJobs"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ControlJobsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ControlJobsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("ControlJobs"))
              .build();
        }
      }
    }
    return getControlJobsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.ListNoticesRequest,
      dev.longhaul.v1.ListNoticesResponse> getListNoticesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListNotices",
      requestType = dev.longhaul.v1.ListNoticesRequest.class,
      responseType = dev.longhaul.v1.ListNoticesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.ListNoticesRequest,
      dev.longhaul.v1.ListNoticesResponse> getListNoticesMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.ListNoticesRequest, dev.longhaul.v1.ListNoticesResponse> getListNoticesMethod;
    if ((getListNoticesMethod = JobServiceGrpc.getListNoticesMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getListNoticesMethod = JobServiceGrpc.getListNoticesMethod) == null) {
          JobServiceGrpc.getListNoticesMethod = getListNoticesMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.ListNoticesRequest, dev.longhaul.v1.ListNoticesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListNotices"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ListNoticesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ListNoticesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("ListNotices"))
              .build();
        }
      }
    }
    return getListNoticesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.ResendNoticeRequest,
      dev.longhaul.v1.ResendNoticeResponse> getResendNoticeMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResendNotice",
      requestType = dev.longhaul.v1.ResendNoticeRequest.class,
      responseType = dev.longhaul.v1.ResendNoticeResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.ResendNoticeRequest,
      dev.longhaul.v1.ResendNoticeResponse> getResendNoticeMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.ResendNoticeRequest, dev.longhaul.v1.ResendNoticeResponse> getResendNoticeMethod;
    if ((getResendNoticeMethod = JobServiceGrpc.getResendNoticeMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getResendNoticeMethod = JobServiceGrpc.getResendNoticeMethod) == null) {
          JobServiceGrpc.getResendNoticeMethod = getResendNoticeMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.ResendNoticeRequest, dev.longhaul.v1.ResendNoticeResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResendNotice"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ResendNoticeRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.ResendNoticeResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("ResendNotice"))
              .build();
        }
      }
    }
    return getResendNoticeMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.longhaul.v1.GetUsageRequest,
      dev.longhaul.v1.GetUsageResponse> getGetUsageMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetUsage",
      requestType = dev.longhaul.v1.GetUsageRequest.class,
      responseType = dev.longhaul.v1.GetUsageResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.longhaul.v1.GetUsageRequest,
      dev.longhaul.v1.GetUsageResponse> getGetUsageMethod() {
    io.grpc.MethodDescriptor<dev.longhaul.v1.GetUsageRequest, dev.longhaul.v1.GetUsageResponse> getGetUsageMethod;
    if ((getGetUsageMethod = JobServiceGrpc.getGetUsageMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getGetUsageMethod = JobServiceGrpc.getGetUsageMethod) == null) {
          JobServiceGrpc.getGetUsageMethod = getGetUsageMethod =
              io.grpc.MethodDescriptor.<dev.longhaul.v1.GetUsageRequest, dev.longhaul.v1.GetUsageResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetUsage"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.GetUsageRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.longhaul.v1.GetUsageResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("GetUsage"))
              .build();
        }
      }
    }
    return getGetUsageMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static JobServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceStub>() {
        @java.lang.Override
        public JobServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceStub(channel, callOptions);
        }
      };
    return JobServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static JobServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingV2Stub>() {
        @java.lang.Override
        public JobServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return JobServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static JobServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingStub>() {
        @java.lang.Override
        public JobServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceBlockingStub(channel, callOptions);
        }
      };
    return JobServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static JobServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceFutureStub>() {
        @java.lang.Override
        public JobServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceFutureStub(channel, callOptions);
        }
      };
    return JobServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * JobService submits jobs, shows them, moves them and lets clients watch them.
   * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
   * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
   * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
   * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
   *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
   *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
   *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
   *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
   *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
   *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
   *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
   *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
   *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
   *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
   *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
   *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
   *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
   *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
   *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
   *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
   *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
   *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
   *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
   *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
   *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
   *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
   *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
   *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
   *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
   *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
   *   INTERNAL                 INTERNAL             a fault of the server, described in its log
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * SubmitJob stores a job; OK means that it is committed.
     * The same job_id with the same content answers with the job as it is now and created=false,
     * so a submit is safe to repeat; the same job_id with other content is refused with JOB_ID_CONFLICT.
     * Of a job that was pruned it answers how and when it ended, and a warning; its id is never used again.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","task":"Launch copy","steps":[
     *     {"run":{"prompt":"Write one line about a budgeting app."}},
     *     {"approval":{"note":"May this go out?","approvers":["+15550100"]}}]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/SubmitJob
     * </pre>
     */
    default void submitJob(dev.longhaul.v1.SubmitJobRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.SubmitJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubmitJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetJob shows a job with its steps, its pending approval, its usage and its cost.
     * With wait_seconds it answers when the job stands still or has ended, or when that time is over.
     * With include_links it makes links, so it is not marked as a call without side effects.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","wait_seconds":30}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetJob
     * </pre>
     */
    default void getJob(dev.longhaul.v1.GetJobRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.GetJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Control moves a job: pause, resume, cancel, retry, approve, reject; status only looks.
     * Repeating what has already taken effect answers OK with changed=false.
     * What contradicts the job's state is refused with JOB_STATE_CONFLICT.
     * With a request_id a repetition is answered as the first time, whatever has become of the job meanwhile.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","approve":{"comment":"Looks good."}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/Control
     * </pre>
     */
    default void control(dev.longhaul.v1.ControlRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ControlResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getControlMethod(), responseObserver);
    }

    /**
     * <pre>
     * RevokeLinks takes back the links of a job, or those of one approver: from then on they open what an unknown link
     * opens, and decide nothing. What was decided through them stays. Links that are made later, by a reminder, by
     * ResendNotice or by GetJob with include_links, are new ones and open. Repeating it revokes what has come since.
     *   grpcurl -plaintext -d '{"job_id":"hello-1"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/RevokeLinks
     * </pre>
     */
    default void revokeLinks(dev.longhaul.v1.RevokeLinksRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.RevokeLinksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRevokeLinksMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchJob streams a job's history as it happens, without gap or repeat, from any replica.
     * Without after_sequence it begins with a snapshot, then sends the events that follow it.
     * With after_sequence it replays the events after that number, then goes on live: to resume a watch
     * that broke off, pass the last sequence it delivered.
     * It ends with OK once the job has ended and every event has been sent; and with UNAUTHENTICATED within seconds once
     * its key was revoked or has expired.
     * With include_output_deltas it also sends the text of answers as it arrives, with include_notices what becomes of
     * what people and endpoints are told.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","after_sequence":0}' &#92;
     *     localhost:50051 longhaul.v1.JobService/WatchJob
     * </pre>
     */
    default void watchJob(dev.longhaul.v1.WatchJobRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.WatchJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListJobs pages through jobs, newest first; an empty next_page_token is the only end mark.
     * However many jobs come, move or go meanwhile, no job is on two pages, and none that matches all along is left out.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_AWAITING_APPROVAL"]},"include_counts":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListJobs
     * </pre>
     */
    default void listJobs(dev.longhaul.v1.ListJobsRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ListJobsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListJobsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ControlJobs does one action to all jobs that a selector picks, newest first and so many a call: pause, resume,
     * cancel or retry.
     * Each job goes through what Control does, and one that cannot stops no other. Jobs that the action has nothing to do
     * to do not match: a cancel passes over what has ended, a retry takes what failed or was cancelled and nothing else.
     * While the answer says more=true, call again with its next_page_token: each job is tried once, and it comes to an end.
     * A call that was lost may be repeated as it was; with a request_id no job is moved a second time by that.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_QUEUED"],"labels":{"team":"growth"}},
     *     "cancel":{"comment":"The launch is off."},"dry_run":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ControlJobs
     * </pre>
     */
    default void controlJobs(dev.longhaul.v1.ControlJobsRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ControlJobsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getControlJobsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListNotices shows pages of what people and endpoints were told, newest first; an empty next_page_token is the only
     * end mark. What failed or is unconfirmed stays listed as that until it is sent again.
     *   grpcurl -plaintext -d '{"deliveries":["DELIVERY_FAILED","DELIVERY_UNCONFIRMED"]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListNotices
     * </pre>
     */
    default void listNotices(dev.longhaul.v1.ListNoticesRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ListNoticesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListNoticesMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResendNotice has a notice sent again that failed or is unconfirmed; a request for a decision gets fresh links.
     * Repeating it changes nothing while the notice waits to be sent.
     *   grpcurl -plaintext -d '{"notice_id":"01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ResendNotice
     * </pre>
     */
    default void resendNotice(dev.longhaul.v1.ResendNoticeRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ResendNoticeResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResendNoticeMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetUsage adds up what model calls used and cost, by day, model, label or job; an empty next_page_token is the
     * only end mark. Every call counts, also of attempts that were lost or cancelled.
     *   grpcurl -plaintext -d '{"group_by":"USAGE_GROUPING_MODEL","selector":{"statuses":["JOB_STATUS_COMPLETED"]}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetUsage
     * </pre>
     */
    default void getUsage(dev.longhaul.v1.GetUsageRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.GetUsageResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetUsageMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service JobService.
   * <pre>
   * JobService submits jobs, shows them, moves them and lets clients watch them.
   * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
   * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
   * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
   * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
   *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
   *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
   *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
   *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
   *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
   *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
   *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
   *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
   *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
   *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
   *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
   *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
   *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
   *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
   *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
   *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
   *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
   *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
   *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
   *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
   *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
   *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
   *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
   *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
   *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
   *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
   *   INTERNAL                 INTERNAL             a fault of the server, described in its log
   * </pre>
   */
  public static abstract class JobServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return JobServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service JobService.
   * <pre>
   * JobService submits jobs, shows them, moves them and lets clients watch them.
   * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
   * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
   * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
   * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
   *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
   *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
   *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
   *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
   *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
   *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
   *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
   *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
   *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
   *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
   *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
   *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
   *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
   *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
   *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
   *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
   *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
   *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
   *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
   *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
   *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
   *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
   *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
   *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
   *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
   *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
   *   INTERNAL                 INTERNAL             a fault of the server, described in its log
   * </pre>
   */
  public static final class JobServiceStub
      extends io.grpc.stub.AbstractAsyncStub<JobServiceStub> {
    private JobServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * SubmitJob stores a job; OK means that it is committed.
     * The same job_id with the same content answers with the job as it is now and created=false,
     * so a submit is safe to repeat; the same job_id with other content is refused with JOB_ID_CONFLICT.
     * Of a job that was pruned it answers how and when it ended, and a warning; its id is never used again.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","task":"Launch copy","steps":[
     *     {"run":{"prompt":"Write one line about a budgeting app."}},
     *     {"approval":{"note":"May this go out?","approvers":["+15550100"]}}]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/SubmitJob
     * </pre>
     */
    public void submitJob(dev.longhaul.v1.SubmitJobRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.SubmitJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSubmitJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetJob shows a job with its steps, its pending approval, its usage and its cost.
     * With wait_seconds it answers when the job stands still or has ended, or when that time is over.
     * With include_links it makes links, so it is not marked as a call without side effects.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","wait_seconds":30}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetJob
     * </pre>
     */
    public void getJob(dev.longhaul.v1.GetJobRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.GetJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Control moves a job: pause, resume, cancel, retry, approve, reject; status only looks.
     * Repeating what has already taken effect answers OK with changed=false.
     * What contradicts the job's state is refused with JOB_STATE_CONFLICT.
     * With a request_id a repetition is answered as the first time, whatever has become of the job meanwhile.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","approve":{"comment":"Looks good."}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/Control
     * </pre>
     */
    public void control(dev.longhaul.v1.ControlRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ControlResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getControlMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RevokeLinks takes back the links of a job, or those of one approver: from then on they open what an unknown link
     * opens, and decide nothing. What was decided through them stays. Links that are made later, by a reminder, by
     * ResendNotice or by GetJob with include_links, are new ones and open. Repeating it revokes what has come since.
     *   grpcurl -plaintext -d '{"job_id":"hello-1"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/RevokeLinks
     * </pre>
     */
    public void revokeLinks(dev.longhaul.v1.RevokeLinksRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.RevokeLinksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRevokeLinksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchJob streams a job's history as it happens, without gap or repeat, from any replica.
     * Without after_sequence it begins with a snapshot, then sends the events that follow it.
     * With after_sequence it replays the events after that number, then goes on live: to resume a watch
     * that broke off, pass the last sequence it delivered.
     * It ends with OK once the job has ended and every event has been sent; and with UNAUTHENTICATED within seconds once
     * its key was revoked or has expired.
     * With include_output_deltas it also sends the text of answers as it arrives, with include_notices what becomes of
     * what people and endpoints are told.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","after_sequence":0}' &#92;
     *     localhost:50051 longhaul.v1.JobService/WatchJob
     * </pre>
     */
    public void watchJob(dev.longhaul.v1.WatchJobRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.WatchJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListJobs pages through jobs, newest first; an empty next_page_token is the only end mark.
     * However many jobs come, move or go meanwhile, no job is on two pages, and none that matches all along is left out.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_AWAITING_APPROVAL"]},"include_counts":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListJobs
     * </pre>
     */
    public void listJobs(dev.longhaul.v1.ListJobsRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ListJobsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListJobsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ControlJobs does one action to all jobs that a selector picks, newest first and so many a call: pause, resume,
     * cancel or retry.
     * Each job goes through what Control does, and one that cannot stops no other. Jobs that the action has nothing to do
     * to do not match: a cancel passes over what has ended, a retry takes what failed or was cancelled and nothing else.
     * While the answer says more=true, call again with its next_page_token: each job is tried once, and it comes to an end.
     * A call that was lost may be repeated as it was; with a request_id no job is moved a second time by that.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_QUEUED"],"labels":{"team":"growth"}},
     *     "cancel":{"comment":"The launch is off."},"dry_run":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ControlJobs
     * </pre>
     */
    public void controlJobs(dev.longhaul.v1.ControlJobsRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ControlJobsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getControlJobsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListNotices shows pages of what people and endpoints were told, newest first; an empty next_page_token is the only
     * end mark. What failed or is unconfirmed stays listed as that until it is sent again.
     *   grpcurl -plaintext -d '{"deliveries":["DELIVERY_FAILED","DELIVERY_UNCONFIRMED"]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListNotices
     * </pre>
     */
    public void listNotices(dev.longhaul.v1.ListNoticesRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ListNoticesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListNoticesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResendNotice has a notice sent again that failed or is unconfirmed; a request for a decision gets fresh links.
     * Repeating it changes nothing while the notice waits to be sent.
     *   grpcurl -plaintext -d '{"notice_id":"01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ResendNotice
     * </pre>
     */
    public void resendNotice(dev.longhaul.v1.ResendNoticeRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.ResendNoticeResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResendNoticeMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetUsage adds up what model calls used and cost, by day, model, label or job; an empty next_page_token is the
     * only end mark. Every call counts, also of attempts that were lost or cancelled.
     *   grpcurl -plaintext -d '{"group_by":"USAGE_GROUPING_MODEL","selector":{"statuses":["JOB_STATUS_COMPLETED"]}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetUsage
     * </pre>
     */
    public void getUsage(dev.longhaul.v1.GetUsageRequest request,
        io.grpc.stub.StreamObserver<dev.longhaul.v1.GetUsageResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetUsageMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service JobService.
   * <pre>
   * JobService submits jobs, shows them, moves them and lets clients watch them.
   * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
   * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
   * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
   * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
   *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
   *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
   *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
   *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
   *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
   *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
   *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
   *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
   *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
   *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
   *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
   *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
   *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
   *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
   *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
   *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
   *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
   *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
   *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
   *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
   *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
   *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
   *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
   *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
   *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
   *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
   *   INTERNAL                 INTERNAL             a fault of the server, described in its log
   * </pre>
   */
  public static final class JobServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<JobServiceBlockingV2Stub> {
    private JobServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * SubmitJob stores a job; OK means that it is committed.
     * The same job_id with the same content answers with the job as it is now and created=false,
     * so a submit is safe to repeat; the same job_id with other content is refused with JOB_ID_CONFLICT.
     * Of a job that was pruned it answers how and when it ended, and a warning; its id is never used again.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","task":"Launch copy","steps":[
     *     {"run":{"prompt":"Write one line about a budgeting app."}},
     *     {"approval":{"note":"May this go out?","approvers":["+15550100"]}}]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/SubmitJob
     * </pre>
     */
    public dev.longhaul.v1.SubmitJobResponse submitJob(dev.longhaul.v1.SubmitJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSubmitJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetJob shows a job with its steps, its pending approval, its usage and its cost.
     * With wait_seconds it answers when the job stands still or has ended, or when that time is over.
     * With include_links it makes links, so it is not marked as a call without side effects.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","wait_seconds":30}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetJob
     * </pre>
     */
    public dev.longhaul.v1.GetJobResponse getJob(dev.longhaul.v1.GetJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Control moves a job: pause, resume, cancel, retry, approve, reject; status only looks.
     * Repeating what has already taken effect answers OK with changed=false.
     * What contradicts the job's state is refused with JOB_STATE_CONFLICT.
     * With a request_id a repetition is answered as the first time, whatever has become of the job meanwhile.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","approve":{"comment":"Looks good."}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/Control
     * </pre>
     */
    public dev.longhaul.v1.ControlResponse control(dev.longhaul.v1.ControlRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getControlMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RevokeLinks takes back the links of a job, or those of one approver: from then on they open what an unknown link
     * opens, and decide nothing. What was decided through them stays. Links that are made later, by a reminder, by
     * ResendNotice or by GetJob with include_links, are new ones and open. Repeating it revokes what has come since.
     *   grpcurl -plaintext -d '{"job_id":"hello-1"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/RevokeLinks
     * </pre>
     */
    public dev.longhaul.v1.RevokeLinksResponse revokeLinks(dev.longhaul.v1.RevokeLinksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRevokeLinksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchJob streams a job's history as it happens, without gap or repeat, from any replica.
     * Without after_sequence it begins with a snapshot, then sends the events that follow it.
     * With after_sequence it replays the events after that number, then goes on live: to resume a watch
     * that broke off, pass the last sequence it delivered.
     * It ends with OK once the job has ended and every event has been sent; and with UNAUTHENTICATED within seconds once
     * its key was revoked or has expired.
     * With include_output_deltas it also sends the text of answers as it arrives, with include_notices what becomes of
     * what people and endpoints are told.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","after_sequence":0}' &#92;
     *     localhost:50051 longhaul.v1.JobService/WatchJob
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.longhaul.v1.WatchJobResponse>
        watchJob(dev.longhaul.v1.WatchJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListJobs pages through jobs, newest first; an empty next_page_token is the only end mark.
     * However many jobs come, move or go meanwhile, no job is on two pages, and none that matches all along is left out.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_AWAITING_APPROVAL"]},"include_counts":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListJobs
     * </pre>
     */
    public dev.longhaul.v1.ListJobsResponse listJobs(dev.longhaul.v1.ListJobsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ControlJobs does one action to all jobs that a selector picks, newest first and so many a call: pause, resume,
     * cancel or retry.
     * Each job goes through what Control does, and one that cannot stops no other. Jobs that the action has nothing to do
     * to do not match: a cancel passes over what has ended, a retry takes what failed or was cancelled and nothing else.
     * While the answer says more=true, call again with its next_page_token: each job is tried once, and it comes to an end.
     * A call that was lost may be repeated as it was; with a request_id no job is moved a second time by that.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_QUEUED"],"labels":{"team":"growth"}},
     *     "cancel":{"comment":"The launch is off."},"dry_run":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ControlJobs
     * </pre>
     */
    public dev.longhaul.v1.ControlJobsResponse controlJobs(dev.longhaul.v1.ControlJobsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getControlJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListNotices shows pages of what people and endpoints were told, newest first; an empty next_page_token is the only
     * end mark. What failed or is unconfirmed stays listed as that until it is sent again.
     *   grpcurl -plaintext -d '{"deliveries":["DELIVERY_FAILED","DELIVERY_UNCONFIRMED"]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListNotices
     * </pre>
     */
    public dev.longhaul.v1.ListNoticesResponse listNotices(dev.longhaul.v1.ListNoticesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListNoticesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResendNotice has a notice sent again that failed or is unconfirmed; a request for a decision gets fresh links.
     * Repeating it changes nothing while the notice waits to be sent.
     *   grpcurl -plaintext -d '{"notice_id":"01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ResendNotice
     * </pre>
     */
    public dev.longhaul.v1.ResendNoticeResponse resendNotice(dev.longhaul.v1.ResendNoticeRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResendNoticeMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetUsage adds up what model calls used and cost, by day, model, label or job; an empty next_page_token is the
     * only end mark. Every call counts, also of attempts that were lost or cancelled.
     *   grpcurl -plaintext -d '{"group_by":"USAGE_GROUPING_MODEL","selector":{"statuses":["JOB_STATUS_COMPLETED"]}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetUsage
     * </pre>
     */
    public dev.longhaul.v1.GetUsageResponse getUsage(dev.longhaul.v1.GetUsageRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetUsageMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service JobService.
   * <pre>
   * JobService submits jobs, shows them, moves them and lets clients watch them.
   * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
   * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
   * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
   * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
   *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
   *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
   *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
   *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
   *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
   *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
   *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
   *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
   *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
   *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
   *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
   *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
   *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
   *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
   *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
   *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
   *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
   *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
   *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
   *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
   *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
   *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
   *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
   *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
   *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
   *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
   *   INTERNAL                 INTERNAL             a fault of the server, described in its log
   * </pre>
   */
  public static final class JobServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<JobServiceBlockingStub> {
    private JobServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * SubmitJob stores a job; OK means that it is committed.
     * The same job_id with the same content answers with the job as it is now and created=false,
     * so a submit is safe to repeat; the same job_id with other content is refused with JOB_ID_CONFLICT.
     * Of a job that was pruned it answers how and when it ended, and a warning; its id is never used again.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","task":"Launch copy","steps":[
     *     {"run":{"prompt":"Write one line about a budgeting app."}},
     *     {"approval":{"note":"May this go out?","approvers":["+15550100"]}}]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/SubmitJob
     * </pre>
     */
    public dev.longhaul.v1.SubmitJobResponse submitJob(dev.longhaul.v1.SubmitJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSubmitJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetJob shows a job with its steps, its pending approval, its usage and its cost.
     * With wait_seconds it answers when the job stands still or has ended, or when that time is over.
     * With include_links it makes links, so it is not marked as a call without side effects.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","wait_seconds":30}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetJob
     * </pre>
     */
    public dev.longhaul.v1.GetJobResponse getJob(dev.longhaul.v1.GetJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Control moves a job: pause, resume, cancel, retry, approve, reject; status only looks.
     * Repeating what has already taken effect answers OK with changed=false.
     * What contradicts the job's state is refused with JOB_STATE_CONFLICT.
     * With a request_id a repetition is answered as the first time, whatever has become of the job meanwhile.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","approve":{"comment":"Looks good."}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/Control
     * </pre>
     */
    public dev.longhaul.v1.ControlResponse control(dev.longhaul.v1.ControlRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getControlMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RevokeLinks takes back the links of a job, or those of one approver: from then on they open what an unknown link
     * opens, and decide nothing. What was decided through them stays. Links that are made later, by a reminder, by
     * ResendNotice or by GetJob with include_links, are new ones and open. Repeating it revokes what has come since.
     *   grpcurl -plaintext -d '{"job_id":"hello-1"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/RevokeLinks
     * </pre>
     */
    public dev.longhaul.v1.RevokeLinksResponse revokeLinks(dev.longhaul.v1.RevokeLinksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRevokeLinksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchJob streams a job's history as it happens, without gap or repeat, from any replica.
     * Without after_sequence it begins with a snapshot, then sends the events that follow it.
     * With after_sequence it replays the events after that number, then goes on live: to resume a watch
     * that broke off, pass the last sequence it delivered.
     * It ends with OK once the job has ended and every event has been sent; and with UNAUTHENTICATED within seconds once
     * its key was revoked or has expired.
     * With include_output_deltas it also sends the text of answers as it arrives, with include_notices what becomes of
     * what people and endpoints are told.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","after_sequence":0}' &#92;
     *     localhost:50051 longhaul.v1.JobService/WatchJob
     * </pre>
     */
    public java.util.Iterator<dev.longhaul.v1.WatchJobResponse> watchJob(
        dev.longhaul.v1.WatchJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListJobs pages through jobs, newest first; an empty next_page_token is the only end mark.
     * However many jobs come, move or go meanwhile, no job is on two pages, and none that matches all along is left out.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_AWAITING_APPROVAL"]},"include_counts":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListJobs
     * </pre>
     */
    public dev.longhaul.v1.ListJobsResponse listJobs(dev.longhaul.v1.ListJobsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ControlJobs does one action to all jobs that a selector picks, newest first and so many a call: pause, resume,
     * cancel or retry.
     * Each job goes through what Control does, and one that cannot stops no other. Jobs that the action has nothing to do
     * to do not match: a cancel passes over what has ended, a retry takes what failed or was cancelled and nothing else.
     * While the answer says more=true, call again with its next_page_token: each job is tried once, and it comes to an end.
     * A call that was lost may be repeated as it was; with a request_id no job is moved a second time by that.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_QUEUED"],"labels":{"team":"growth"}},
     *     "cancel":{"comment":"The launch is off."},"dry_run":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ControlJobs
     * </pre>
     */
    public dev.longhaul.v1.ControlJobsResponse controlJobs(dev.longhaul.v1.ControlJobsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getControlJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListNotices shows pages of what people and endpoints were told, newest first; an empty next_page_token is the only
     * end mark. What failed or is unconfirmed stays listed as that until it is sent again.
     *   grpcurl -plaintext -d '{"deliveries":["DELIVERY_FAILED","DELIVERY_UNCONFIRMED"]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListNotices
     * </pre>
     */
    public dev.longhaul.v1.ListNoticesResponse listNotices(dev.longhaul.v1.ListNoticesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListNoticesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResendNotice has a notice sent again that failed or is unconfirmed; a request for a decision gets fresh links.
     * Repeating it changes nothing while the notice waits to be sent.
     *   grpcurl -plaintext -d '{"notice_id":"01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ResendNotice
     * </pre>
     */
    public dev.longhaul.v1.ResendNoticeResponse resendNotice(dev.longhaul.v1.ResendNoticeRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResendNoticeMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetUsage adds up what model calls used and cost, by day, model, label or job; an empty next_page_token is the
     * only end mark. Every call counts, also of attempts that were lost or cancelled.
     *   grpcurl -plaintext -d '{"group_by":"USAGE_GROUPING_MODEL","selector":{"statuses":["JOB_STATUS_COMPLETED"]}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetUsage
     * </pre>
     */
    public dev.longhaul.v1.GetUsageResponse getUsage(dev.longhaul.v1.GetUsageRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetUsageMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service JobService.
   * <pre>
   * JobService submits jobs, shows them, moves them and lets clients watch them.
   * The examples below run as pasted against `longhaul dev`, with grpcurl and no proto file.
   * Every error is a google.rpc.Status with exactly one ErrorInfo in the domain `longhaul.dev`; beside it a BadRequest
   * names fields, a ResourceInfo what was not found, a PreconditionFailure the state, a RetryInfo when to try again.
   * All of it together takes less than 3.5 KB. The reason of the ErrorInfo is one of:
   *   INVALID_REQUEST          INVALID_ARGUMENT     a BadRequest names each field that is wrong
   *   KEY_REQUIRED             UNAUTHENTICATED      an API key is needed: `authorization: Bearer lh_…`
   *   KEY_INVALID              UNAUTHENTICATED      the API key was revoked, has expired or never was
   *   SCOPE_REQUIRED           PERMISSION_DENIED    the API key lacks a scope; `scopes` says which
   *   JOB_NOT_FOUND            NOT_FOUND            no job of that id
   *   JOB_PRUNED               NOT_FOUND            the job ended and is no longer kept; `status` and `finished_at` say how and when
   *   STEP_NOT_FOUND           NOT_FOUND            the job has no step of that number
   *   APPROVAL_NOT_FOUND       NOT_FOUND            the job never asked an approval of that id
   *   NOTICE_NOT_FOUND         NOT_FOUND            no notice of that id
   *   JOB_ID_CONFLICT          ALREADY_EXISTS       the job_id is taken by another submission; `field` says where they differ
   *   REQUEST_ID_CONFLICT      ALREADY_EXISTS       the request_id was used for another action on this job; `action` says which
   *   JOB_STATE_CONFLICT       FAILED_PRECONDITION  the action contradicts the job's state; `status` says which that is
   *   NOTICE_KEPT              FAILED_PRECONDITION  the notice was sent or was overtaken by events; `delivery` says how far it has come
   *   APPROVAL_ID_REQUIRED     FAILED_PRECONDITION  the job has asked more than one approval: say which is meant
   *   APPROVAL_CLOSED          FAILED_PRECONDITION  the approval has been decided, has expired or was superseded
   *   CHANGES_NOT_ALLOWED      FAILED_PRECONDITION  the approval step does not let it be sent back, or no more
   *   EDIT_NOT_ALLOWED         FAILED_PRECONDITION  the approval step does not let what it shows be edited
   *   ALREADY_VOTED            FAILED_PRECONDITION  the approver has already decided the other way
   *   SPEC_VERSION_UNKNOWN     FAILED_PRECONDITION  a newer release stored the job; ask a server of that release, or update this one
   *   SEQUENCE_OUT_OF_RANGE    OUT_OF_RANGE         after_sequence lies beyond the job's last event
   *   UNAVAILABLE              UNAVAILABLE          the database is away or the server is stopping; try again
   *   WATCH_LAGGED             UNAVAILABLE          the client did not take what the watch had for it; watch again from its last sequence
   *   OVERLOADED               RESOURCE_EXHAUSTED   too many calls at once; try again
   *   RATE_LIMITED             RESOURCE_EXHAUSTED   too many calls in a short time; try again after the RetryInfo's delay
   *   DEADLINE_EXCEEDED        DEADLINE_EXCEEDED    the call took longer than the client or the server allows
   *   UNIMPLEMENTED            UNIMPLEMENTED        no such method, or a compression that is not spoken
   *   INTERNAL                 INTERNAL             a fault of the server, described in its log
   * </pre>
   */
  public static final class JobServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<JobServiceFutureStub> {
    private JobServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * SubmitJob stores a job; OK means that it is committed.
     * The same job_id with the same content answers with the job as it is now and created=false,
     * so a submit is safe to repeat; the same job_id with other content is refused with JOB_ID_CONFLICT.
     * Of a job that was pruned it answers how and when it ended, and a warning; its id is never used again.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","task":"Launch copy","steps":[
     *     {"run":{"prompt":"Write one line about a budgeting app."}},
     *     {"approval":{"note":"May this go out?","approvers":["+15550100"]}}]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/SubmitJob
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.SubmitJobResponse> submitJob(
        dev.longhaul.v1.SubmitJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSubmitJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetJob shows a job with its steps, its pending approval, its usage and its cost.
     * With wait_seconds it answers when the job stands still or has ended, or when that time is over.
     * With include_links it makes links, so it is not marked as a call without side effects.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","wait_seconds":30}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetJob
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.GetJobResponse> getJob(
        dev.longhaul.v1.GetJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Control moves a job: pause, resume, cancel, retry, approve, reject; status only looks.
     * Repeating what has already taken effect answers OK with changed=false.
     * What contradicts the job's state is refused with JOB_STATE_CONFLICT.
     * With a request_id a repetition is answered as the first time, whatever has become of the job meanwhile.
     *   grpcurl -plaintext -d '{"job_id":"hello-1","approve":{"comment":"Looks good."}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/Control
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.ControlResponse> control(
        dev.longhaul.v1.ControlRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getControlMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RevokeLinks takes back the links of a job, or those of one approver: from then on they open what an unknown link
     * opens, and decide nothing. What was decided through them stays. Links that are made later, by a reminder, by
     * ResendNotice or by GetJob with include_links, are new ones and open. Repeating it revokes what has come since.
     *   grpcurl -plaintext -d '{"job_id":"hello-1"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/RevokeLinks
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.RevokeLinksResponse> revokeLinks(
        dev.longhaul.v1.RevokeLinksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRevokeLinksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListJobs pages through jobs, newest first; an empty next_page_token is the only end mark.
     * However many jobs come, move or go meanwhile, no job is on two pages, and none that matches all along is left out.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_AWAITING_APPROVAL"]},"include_counts":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListJobs
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.ListJobsResponse> listJobs(
        dev.longhaul.v1.ListJobsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListJobsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ControlJobs does one action to all jobs that a selector picks, newest first and so many a call: pause, resume,
     * cancel or retry.
     * Each job goes through what Control does, and one that cannot stops no other. Jobs that the action has nothing to do
     * to do not match: a cancel passes over what has ended, a retry takes what failed or was cancelled and nothing else.
     * While the answer says more=true, call again with its next_page_token: each job is tried once, and it comes to an end.
     * A call that was lost may be repeated as it was; with a request_id no job is moved a second time by that.
     *   grpcurl -plaintext -d '{"selector":{"statuses":["JOB_STATUS_QUEUED"],"labels":{"team":"growth"}},
     *     "cancel":{"comment":"The launch is off."},"dry_run":true}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ControlJobs
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.ControlJobsResponse> controlJobs(
        dev.longhaul.v1.ControlJobsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getControlJobsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListNotices shows pages of what people and endpoints were told, newest first; an empty next_page_token is the only
     * end mark. What failed or is unconfirmed stays listed as that until it is sent again.
     *   grpcurl -plaintext -d '{"deliveries":["DELIVERY_FAILED","DELIVERY_UNCONFIRMED"]}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ListNotices
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.ListNoticesResponse> listNotices(
        dev.longhaul.v1.ListNoticesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListNoticesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResendNotice has a notice sent again that failed or is unconfirmed; a request for a decision gets fresh links.
     * Repeating it changes nothing while the notice waits to be sent.
     *   grpcurl -plaintext -d '{"notice_id":"01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f"}' &#92;
     *     localhost:50051 longhaul.v1.JobService/ResendNotice
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.ResendNoticeResponse> resendNotice(
        dev.longhaul.v1.ResendNoticeRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResendNoticeMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetUsage adds up what model calls used and cost, by day, model, label or job; an empty next_page_token is the
     * only end mark. Every call counts, also of attempts that were lost or cancelled.
     *   grpcurl -plaintext -d '{"group_by":"USAGE_GROUPING_MODEL","selector":{"statuses":["JOB_STATUS_COMPLETED"]}}' &#92;
     *     localhost:50051 longhaul.v1.JobService/GetUsage
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.longhaul.v1.GetUsageResponse> getUsage(
        dev.longhaul.v1.GetUsageRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetUsageMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_SUBMIT_JOB = 0;
  private static final int METHODID_GET_JOB = 1;
  private static final int METHODID_CONTROL = 2;
  private static final int METHODID_REVOKE_LINKS = 3;
  private static final int METHODID_WATCH_JOB = 4;
  private static final int METHODID_LIST_JOBS = 5;
  private static final int METHODID_CONTROL_JOBS = 6;
  private static final int METHODID_LIST_NOTICES = 7;
  private static final int METHODID_RESEND_NOTICE = 8;
  private static final int METHODID_GET_USAGE = 9;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_SUBMIT_JOB:
          serviceImpl.submitJob((dev.longhaul.v1.SubmitJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.SubmitJobResponse>) responseObserver);
          break;
        case METHODID_GET_JOB:
          serviceImpl.getJob((dev.longhaul.v1.GetJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.GetJobResponse>) responseObserver);
          break;
        case METHODID_CONTROL:
          serviceImpl.control((dev.longhaul.v1.ControlRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.ControlResponse>) responseObserver);
          break;
        case METHODID_REVOKE_LINKS:
          serviceImpl.revokeLinks((dev.longhaul.v1.RevokeLinksRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.RevokeLinksResponse>) responseObserver);
          break;
        case METHODID_WATCH_JOB:
          serviceImpl.watchJob((dev.longhaul.v1.WatchJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.WatchJobResponse>) responseObserver);
          break;
        case METHODID_LIST_JOBS:
          serviceImpl.listJobs((dev.longhaul.v1.ListJobsRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.ListJobsResponse>) responseObserver);
          break;
        case METHODID_CONTROL_JOBS:
          serviceImpl.controlJobs((dev.longhaul.v1.ControlJobsRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.ControlJobsResponse>) responseObserver);
          break;
        case METHODID_LIST_NOTICES:
          serviceImpl.listNotices((dev.longhaul.v1.ListNoticesRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.ListNoticesResponse>) responseObserver);
          break;
        case METHODID_RESEND_NOTICE:
          serviceImpl.resendNotice((dev.longhaul.v1.ResendNoticeRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.ResendNoticeResponse>) responseObserver);
          break;
        case METHODID_GET_USAGE:
          serviceImpl.getUsage((dev.longhaul.v1.GetUsageRequest) request,
              (io.grpc.stub.StreamObserver<dev.longhaul.v1.GetUsageResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getSubmitJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.SubmitJobRequest,
              dev.longhaul.v1.SubmitJobResponse>(
                service, METHODID_SUBMIT_JOB)))
        .addMethod(
          getGetJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.GetJobRequest,
              dev.longhaul.v1.GetJobResponse>(
                service, METHODID_GET_JOB)))
        .addMethod(
          getControlMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.ControlRequest,
              dev.longhaul.v1.ControlResponse>(
                service, METHODID_CONTROL)))
        .addMethod(
          getRevokeLinksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.RevokeLinksRequest,
              dev.longhaul.v1.RevokeLinksResponse>(
                service, METHODID_REVOKE_LINKS)))
        .addMethod(
          getWatchJobMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.longhaul.v1.WatchJobRequest,
              dev.longhaul.v1.WatchJobResponse>(
                service, METHODID_WATCH_JOB)))
        .addMethod(
          getListJobsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.ListJobsRequest,
              dev.longhaul.v1.ListJobsResponse>(
                service, METHODID_LIST_JOBS)))
        .addMethod(
          getControlJobsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.ControlJobsRequest,
              dev.longhaul.v1.ControlJobsResponse>(
                service, METHODID_CONTROL_JOBS)))
        .addMethod(
          getListNoticesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.ListNoticesRequest,
              dev.longhaul.v1.ListNoticesResponse>(
                service, METHODID_LIST_NOTICES)))
        .addMethod(
          getResendNoticeMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.ResendNoticeRequest,
              dev.longhaul.v1.ResendNoticeResponse>(
                service, METHODID_RESEND_NOTICE)))
        .addMethod(
          getGetUsageMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.longhaul.v1.GetUsageRequest,
              dev.longhaul.v1.GetUsageResponse>(
                service, METHODID_GET_USAGE)))
        .build();
  }

  private static abstract class JobServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    JobServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.longhaul.v1.JobServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("JobService");
    }
  }

  private static final class JobServiceFileDescriptorSupplier
      extends JobServiceBaseDescriptorSupplier {
    JobServiceFileDescriptorSupplier() {}
  }

  private static final class JobServiceMethodDescriptorSupplier
      extends JobServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    JobServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (JobServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new JobServiceFileDescriptorSupplier())
              .addMethod(getSubmitJobMethod())
              .addMethod(getGetJobMethod())
              .addMethod(getControlMethod())
              .addMethod(getRevokeLinksMethod())
              .addMethod(getWatchJobMethod())
              .addMethod(getListJobsMethod())
              .addMethod(getControlJobsMethod())
              .addMethod(getListNoticesMethod())
              .addMethod(getResendNoticeMethod())
              .addMethod(getGetUsageMethod())
              .build();
        }
      }
    }
    return result;
  }
}
