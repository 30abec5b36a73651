package longhaul

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

// failure is an error as a server sends it.
func failure(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	s, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func reason(reason string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Domain: "longhaul.dev", Reason: reason, Metadata: map[string]string{"status": "PAUSED"}}
}

func retryAfter(delay time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}

func TestWhatAnErrorTells(t *testing.T) {
	violations := []*errdetails.BadRequest_FieldViolation{{Field: "task", Description: "too long"}, {Field: "steps", Description: "none"}}
	sent := failure(codes.InvalidArgument, "the request is wrong",
		&errdetails.ErrorInfo{Domain: "elsewhere.example", Reason: "OTHER"}, reason("INVALID_REQUEST"),
		&errdetails.BadRequest{FieldViolations: violations}, retryAfter(1500*time.Millisecond))
	var e *Error
	if !errors.As(fmt.Errorf("submitting: %w", newError(sent)), &e) {
		t.Fatal("it is no *Error")
	}
	if e.Code != codes.InvalidArgument || e.Message != "the request is wrong" || e.Reason != "INVALID_REQUEST" ||
		e.Metadata["status"] != "PAUSED" || e.RetryAfter != 1500*time.Millisecond ||
		len(e.Violations) != 2 || e.Violations[1].GetField() != "steps" || e.Violations[1].GetDescription() != "none" {
		t.Errorf("%#v", e)
	}
	if want := "longhaul: INVALID_REQUEST: the request is wrong"; e.Error() != want {
		t.Errorf("%q", e.Error())
	}
	if !errors.Is(e, sent) || status.Code(e) != codes.InvalidArgument {
		t.Error("the error of gRPC is lost")
	}
	if e := newError(failure(codes.Internal, "", &errdetails.ErrorInfo{Domain: "elsewhere.example", Reason: "OTHER"})); e.Reason != "" {
		t.Errorf("the reason %s is not ours", e.Reason)
	}
}

func TestAnErrorIsThatOfTheContext(t *testing.T) {
	for code, want := range map[codes.Code]error{codes.Canceled: context.Canceled, codes.DeadlineExceeded: context.DeadlineExceeded} {
		e := newError(status.Error(code, ""))
		for _, target := range []error{context.Canceled, context.DeadlineExceeded} {
			if errors.Is(e, target) != (target == want) {
				t.Errorf("%v and %v", e, target)
			}
		}
	}
}

func TestPausesGrow(t *testing.T) {
	e := newError(status.Error(codes.Unavailable, ""))
	for failures, longest := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond,
		6: 3200 * time.Millisecond, 7: 5 * time.Second, 1000: 5 * time.Second,
	} {
		for range 100 {
			if pause := e.pause(failures); pause < longest/2 || pause >= longest {
				t.Fatalf("%s after %d failures", pause, failures)
			}
		}
	}
	if pause := newError(failure(codes.Unavailable, "", retryAfter(7*time.Second))).pause(1); pause != 7*time.Second {
		t.Errorf("%s, and the server asks for 7s", pause)
	}
}

func TestCallsAreRepeated(t *testing.T) {
	away, busy := status.Error(codes.Unavailable, "away"), failure(codes.ResourceExhausted, "busy", retryAfter(2*time.Second))
	for name, test := range map[string]struct {
		failures []error
		calls    int
		code     codes.Code
		atLeast  time.Duration
		below    time.Duration
	}{
		"what passes":             {[]error{away, busy, away}, 4, codes.OK, 2250 * time.Millisecond, 2500 * time.Millisecond},
		"five times":              {[]error{away, away, away, away, away, away}, 5, codes.Unavailable, 750 * time.Millisecond, 1500 * time.Millisecond},
		"not what is refused":     {[]error{status.Error(codes.Internal, "")}, 1, codes.Internal, 0, 1},
		"not beyond the deadline": {[]error{busy, failure(codes.Unavailable, "", retryAfter(29*time.Second))}, 2, codes.Unavailable, 2 * time.Second, 3 * time.Second},
		"not what was called off": {[]error{status.Error(codes.Canceled, "")}, 1, codes.Canceled, 0, 1},
		"not what takes too long": {[]error{status.Error(codes.DeadlineExceeded, "")}, 1, codes.DeadlineExceeded, 0, 1},
		"not what broke":          {[]error{status.Error(codes.Unknown, "")}, 1, codes.Unknown, 0, 1},
	} {
		calls := 0
		s := &server{get: func(context.Context, *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
			if calls++; calls <= len(test.failures) {
				return nil, test.failures[calls-1]
			}
			return &longhaulv1.GetJobResponse{}, nil
		}}
		s.against(t, func(t *testing.T, client *Client) {
			started := time.Now()
			_, err := client.Get(t.Context(), &longhaulv1.GetJobRequest{})
			took := time.Since(started)
			if status.Code(err) != test.code || calls != test.calls || took < test.atLeast || took >= test.below {
				t.Errorf("%s: %v after %d calls and %s", name, err, calls, took)
			}
		})
	}
}

func TestACallEndsWithItsDeadline(t *testing.T) {
	silent := &server{get: func(ctx context.Context, _ *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for name, test := range map[string]struct {
		options []Option
		context time.Duration
		wait    int32
		took    time.Duration
	}{
		"if nothing is said":      {took: 30 * time.Second},
		"beside the wait":         {wait: 60, took: 90 * time.Second},
		"of the client":           {options: []Option{WithCallTimeout(3 * time.Second)}, took: 3 * time.Second},
		"of the context":          {context: 200 * time.Millisecond, took: 200 * time.Millisecond},
		"of a context that waits": {context: time.Hour, took: time.Hour},
	} {
		silent.against(t, func(t *testing.T, client *Client) {
			ctx, started := t.Context(), time.Now()
			if test.context > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.context)
				defer cancel()
			}
			_, err := client.Get(ctx, &longhaulv1.GetJobRequest{WaitSeconds: test.wait})
			if took := time.Since(started); took != test.took || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		}, test.options...)
	}
}

func TestACallThatIsCancelledBetweenTries(t *testing.T) {
	s := &server{get: func(context.Context, *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
		return nil, failure(codes.Unavailable, "", retryAfter(10*time.Second))
	}}
	s.against(t, func(t *testing.T, client *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := client.Get(ctx, &longhaulv1.GetJobRequest{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
