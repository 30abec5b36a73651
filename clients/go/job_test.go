package longhaul

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

var isUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString

func TestASubmitHasOneIDInAllItsTries(t *testing.T) {
	var ids []string
	s := &server{submit: func(request *longhaulv1.SubmitJobRequest) (*longhaulv1.SubmitJobResponse, error) {
		if ids = append(ids, request.GetJobId()); len(ids) == 1 {
			return nil, status.Error(codes.Unavailable, "")
		}
		return &longhaulv1.SubmitJobResponse{Job: &longhaulv1.Job{JobId: request.GetJobId(), Task: request.GetTask()}}, nil
	}}
	s.against(t, func(t *testing.T, client *Client) {
		request := &longhaulv1.SubmitJobRequest{Task: "Launch copy"}
		response, err := client.Submit(t.Context(), request)
		if err != nil || response.GetJob().GetTask() != "Launch copy" || len(ids) != 2 || ids[0] != ids[1] || !isUUID(ids[0]) {
			t.Errorf("%v, %v, %v", response, ids, err)
		}
		if request.GetJobId() != "" {
			t.Error("the caller's request was changed")
		}
		if client.Submit(t.Context(), request); ids[2] == ids[0] {
			t.Error("two jobs have one id")
		}
		if client.Submit(t.Context(), &longhaulv1.SubmitJobRequest{JobId: "own"}); ids[3] != "own" {
			t.Errorf("the job is not called %s", ids[3])
		}
	})
}

func TestActions(t *testing.T) {
	var sent *longhaulv1.ControlRequest
	s := &server{control: func(request *longhaulv1.ControlRequest) (*longhaulv1.ControlResponse, error) {
		sent = request
		return &longhaulv1.ControlResponse{}, nil
	}}
	s.against(t, func(t *testing.T, c *Client) {
		ctx, id := t.Context(), "job"
		for name, act := range map[string]func() (*longhaulv1.ControlResponse, error){
			"*longhaulv1.ControlRequest_Pause":          func() (*longhaulv1.ControlResponse, error) { return c.Pause(ctx, id, nil) },
			"*longhaulv1.ControlRequest_Resume":         func() (*longhaulv1.ControlResponse, error) { return c.Resume(ctx, id, nil) },
			"*longhaulv1.ControlRequest_Cancel":         func() (*longhaulv1.ControlResponse, error) { return c.Cancel(ctx, id, nil) },
			"*longhaulv1.ControlRequest_Retry":          func() (*longhaulv1.ControlResponse, error) { return c.Retry(ctx, id, nil) },
			"*longhaulv1.ControlRequest_Approve":        func() (*longhaulv1.ControlResponse, error) { return c.Approve(ctx, id, nil) },
			"*longhaulv1.ControlRequest_Reject":         func() (*longhaulv1.ControlResponse, error) { return c.Reject(ctx, id, nil) },
			"*longhaulv1.ControlRequest_RequestChanges": func() (*longhaulv1.ControlResponse, error) { return c.RequestChanges(ctx, id, nil) },
		} {
			if _, err := act(); err != nil || sent.GetJobId() != id || !isUUID(sent.GetRequestId()) {
				t.Errorf("%v, %v", sent, err)
			}
			if got := reflect.TypeOf(sent.GetAction()).String(); got != name {
				t.Errorf("%s was sent as %s", name, got)
			}
		}
		if c.Cancel(ctx, id, &longhaulv1.CancelAction{Comment: "Off."}, WithRequestID("own")); sent.GetRequestId() != "own" || sent.GetCancel().GetComment() != "Off." {
			t.Error(sent)
		}
	})
}

func TestAnActionOnManyHasOneIDInAllItsTries(t *testing.T) {
	var ids []string
	s := &server{all: func(request *longhaulv1.ControlJobsRequest) (*longhaulv1.ControlJobsResponse, error) {
		if ids = append(ids, request.GetRequestId()); len(ids) == 1 {
			return nil, status.Error(codes.Unavailable, "")
		}
		return &longhaulv1.ControlJobsResponse{}, nil
	}}
	s.against(t, func(t *testing.T, client *Client) {
		request := &longhaulv1.ControlJobsRequest{PageSize: 1}
		if _, err := client.Stub().ControlJobs(t.Context(), request); err != nil || len(ids) != 2 || ids[0] != ids[1] || !isUUID(ids[0]) {
			t.Errorf("%v, %v", ids, err)
		}
		if request.GetRequestId() != "" {
			t.Error("the caller's request was changed")
		}
		if client.Stub().ControlJobs(t.Context(), &longhaulv1.ControlJobsRequest{RequestId: "own"}); ids[2] != "own" {
			t.Errorf("the action is not called %s", ids[2])
		}
	})
}

func TestAList(t *testing.T) {
	pages := map[string]*longhaulv1.ListJobsResponse{
		"":  {Jobs: []*longhaulv1.Job{{JobId: "4"}, {JobId: "3"}}, NextPageToken: "b"},
		"b": {NextPageToken: "c"},
		"c": {Jobs: []*longhaulv1.Job{{JobId: "2"}}, NextPageToken: "d"},
	}
	asked := 0
	s := &server{list: func(request *longhaulv1.ListJobsRequest) (*longhaulv1.ListJobsResponse, error) {
		if asked++; pages[request.GetPageToken()] == nil {
			return nil, failure(codes.InvalidArgument, "", reason("INVALID_REQUEST"))
		}
		return pages[request.GetPageToken()], nil
	}}
	s.against(t, func(t *testing.T, client *Client) {
		var ids []string
		var failed *Error
		for job, err := range client.List(t.Context(), nil) {
			if err != nil {
				errors.As(err, &failed)
			}
			ids = append(ids, job.GetJobId())
		}
		if !slices.Equal(ids, []string{"4", "3", "2", ""}) || failed == nil || failed.Reason != "INVALID_REQUEST" || asked != 4 {
			t.Errorf("%v, %v after %d pages", ids, failed, asked)
		}
		for range client.List(t.Context(), &longhaulv1.ListJobsRequest{}) {
			break
		}
		if asked != 5 {
			t.Errorf("%d pages were asked for, and one was looked at", asked-4)
		}
	})
}

func TestAWaitSitsOutWhatPasses(t *testing.T) {
	asked := 0
	s := &server{get: func(ctx context.Context, request *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
		job := &longhaulv1.Job{JobId: request.GetJobId(), Status: longhaulv1.JobStatus_JOB_STATUS_RUNNING}
		wait := time.Duration(request.GetWaitSeconds()) * time.Second
		switch asked++; {
		case asked == 1: // the job goes on
			time.Sleep(wait)
		case asked < 20: // the server is away
			return nil, status.Error(codes.Unavailable, "")
		case asked == 20: // it goes away in the midst of an answer
			time.Sleep(wait - time.Second)
			return nil, status.Error(codes.Unavailable, "")
		case asked == 21: // so that for this one no time is left
			<-ctx.Done()
			return nil, ctx.Err()
		default:
			job.Status = longhaulv1.JobStatus_JOB_STATUS_PAUSED
		}
		return &longhaulv1.GetJobResponse{Job: job}, nil
	}}
	s.against(t, func(t *testing.T, client *Client) {
		if job, err := client.Wait(t.Context(), "job"); err != nil || job.GetJobId() != "job" || asked != 22 {
			t.Errorf("%v, %v after %d calls", job, err, asked)
		}
	})
}

func TestAWaitEnds(t *testing.T) {
	s := &server{get: func(context.Context, *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
		return nil, status.Error(codes.Unavailable, "away")
	}}
	s.against(t, func(t *testing.T, client *Client) {
		started := time.Now()
		_, err := client.Wait(t.Context(), "job")
		if took := time.Since(started); status.Code(err) != codes.Unavailable || took < 290*time.Second || took > 302*time.Second {
			t.Errorf("without a deadline: %v after %s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		started = time.Now()
		_, err = client.Wait(ctx, "job")
		if before, _ := errors.AsType[*Error](errors.Unwrap(err)); before == nil || before.Code != codes.Unavailable || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("with a deadline: %v, and before that %v", err, before)
		}
		if took := time.Since(started); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "away") || took != time.Hour {
			t.Errorf("with a deadline: %v after %s", err, took)
		}
	})
}
