package longhaul

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

// Submit stores a job. A request without a job_id is sent with a new one, the same in all tries, so that a reply that is
// lost costs nothing.
func (c *Client) Submit(ctx context.Context, request *longhaulv1.SubmitJobRequest) (*longhaulv1.SubmitJobResponse, error) {
	return c.stub.SubmitJob(ctx, request)
}

// Get shows a job.
func (c *Client) Get(ctx context.Context, request *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
	return c.stub.GetJob(ctx, request)
}

// Wait answers the job once it stands still (awaits approval, is paused) or has ended. While the server is away it goes
// on until the context's deadline, and then answers [context.DeadlineExceeded]; or if there is none, as long as
// [WithPatience] says.
func (c *Client) Wait(ctx context.Context, jobID string) (*longhaulv1.Job, error) {
	patience := c.patience
	if _, bounded := ctx.Deadline(); bounded {
		patience = math.MaxInt64
	}
	// Many proxies cut a line that is silent for a minute.
	request := &longhaulv1.GetJobRequest{JobId: jobID, WaitSeconds: 50}
	out := outage{since: time.Now()}
	for {
		response, err := c.stub.GetJob(ctx, request)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = errSilent
		}
		if err != nil {
			if err := c.sitOut(ctx, &out, err, patience); err != nil {
				return nil, err
			}
			continue
		}
		switch job := response.GetJob(); job.GetStatus() {
		case longhaulv1.JobStatus_JOB_STATUS_QUEUED, longhaulv1.JobStatus_JOB_STATUS_RUNNING:
			out = outage{since: time.Now()}
		default:
			return job, nil
		}
	}
}

// List goes through all jobs that a request selects, newest first, and gets each page when it is reached.
func (c *Client) List(ctx context.Context, request *longhaulv1.ListJobsRequest) iter.Seq2[*longhaulv1.Job, error] {
	return func(yield func(*longhaulv1.Job, error) bool) {
		page := &longhaulv1.ListJobsRequest{}
		proto.Merge(page, request)
		for {
			response, err := c.stub.ListJobs(ctx, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, job := range response.GetJobs() {
				if !yield(job, nil) {
					return
				}
			}
			if page.PageToken = response.GetNextPageToken(); page.PageToken == "" {
				return
			}
		}
	}
}

// A ControlOption adds to an action on a job.
type ControlOption func(*longhaulv1.ControlRequest)

// WithRequestID names an action, which then takes effect once, however often it is repeated and by whom. Without it each
// call has an id of its own, the same in all tries.
func WithRequestID(id string) ControlOption {
	return func(request *longhaulv1.ControlRequest) { request.RequestId = id }
}

// Pause holds a job where it is. The action may be nil.
func (c *Client) Pause(ctx context.Context, jobID string, action *longhaulv1.PauseAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_Pause{Pause: action}}, options)
}

// Resume lets a paused job go on. The action may be nil.
func (c *Client) Resume(ctx context.Context, jobID string, action *longhaulv1.ResumeAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_Resume{Resume: action}}, options)
}

// Cancel ends a job. The action may be nil.
func (c *Client) Cancel(ctx context.Context, jobID string, action *longhaulv1.CancelAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_Cancel{Cancel: action}}, options)
}

// Retry begins a job again that failed or was cancelled. The action may be nil.
func (c *Client) Retry(ctx context.Context, jobID string, action *longhaulv1.RetryAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_Retry{Retry: action}}, options)
}

// Approve decides the pending approval: the job goes on. The action may be nil.
func (c *Client) Approve(ctx context.Context, jobID string, action *longhaulv1.ApproveAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_Approve{Approve: action}}, options)
}

// Reject decides the pending approval: the job ends. The action may be nil.
func (c *Client) Reject(ctx context.Context, jobID string, action *longhaulv1.RejectAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_Reject{Reject: action}}, options)
}

// RequestChanges decides the pending approval: the step that it shows is done again, with the comment in mind.
func (c *Client) RequestChanges(ctx context.Context, jobID string, action *longhaulv1.RequestChangesAction, options ...ControlOption) (*longhaulv1.ControlResponse, error) {
	return c.control(ctx, jobID, &longhaulv1.ControlRequest{Action: &longhaulv1.ControlRequest_RequestChanges{RequestChanges: action}}, options)
}

func (c *Client) control(ctx context.Context, jobID string, request *longhaulv1.ControlRequest, options []ControlOption) (*longhaulv1.ControlResponse, error) {
	request.JobId = jobID
	for _, option := range options {
		option(request)
	}
	return c.stub.Control(ctx, request)
}
