package longhaul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

type stream = grpc.ServerStreamingServer[longhaulv1.WatchJobResponse]

func snapshot(last int32) *longhaulv1.WatchJobResponse {
	return &longhaulv1.WatchJobResponse{Content: &longhaulv1.WatchJobResponse_Snapshot{Snapshot: &longhaulv1.Job{LastSequence: last}}}
}

func event(sequence int32) *longhaulv1.WatchJobResponse {
	return &longhaulv1.WatchJobResponse{Content: &longhaulv1.WatchJobResponse_Event{Event: &longhaulv1.Event{Sequence: sequence}}}
}

func delta(text string) *longhaulv1.WatchJobResponse {
	return &longhaulv1.WatchJobResponse{Content: &longhaulv1.WatchJobResponse_OutputDelta{OutputDelta: &longhaulv1.OutputDelta{Text: text}}}
}

func heartbeat() *longhaulv1.WatchJobResponse {
	return &longhaulv1.WatchJobResponse{Content: &longhaulv1.WatchJobResponse_Heartbeat{Heartbeat: &longhaulv1.Heartbeat{}}}
}

// A call is what one call of a watch brings and how it ends; without an end it never does.
type call struct {
	messages []*longhaulv1.WatchJobResponse
	end      func(context.Context) error
}

func sends(messages ...*longhaulv1.WatchJobResponse) call { return call{messages: messages} }

func (c call) then(err error) call {
	c.end = func(context.Context) error { return err }
	return c
}

// watching serves one call after the other, the last one again and again, and notes after_sequence of each.
func watching(after *[]string, calls ...call) *server {
	return &server{watch: func(request *longhaulv1.WatchJobRequest, stream stream) error {
		asked := "snapshot"
		if request.AfterSequence != nil {
			asked = fmt.Sprint(request.GetAfterSequence())
		}
		*after = append(*after, asked)
		call := calls[min(len(*after), len(calls))-1]
		for _, message := range call.messages {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		if call.end == nil {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		return call.end(stream.Context())
	}}
}

// collect goes through a watch and writes down what it brings.
func collect(ctx context.Context, client *Client, request *longhaulv1.WatchJobRequest) (seen []string, failed error) {
	for message, err := range client.Watch(ctx, request) {
		switch {
		case err != nil:
			failed = err
		case message.GetSnapshot() != nil:
			seen = append(seen, fmt.Sprintf("snapshot %d", message.GetSnapshot().GetLastSequence()))
		case message.GetEvent() != nil:
			seen = append(seen, fmt.Sprint(message.GetEvent().GetSequence()))
		default:
			seen = append(seen, message.GetOutputDelta().GetText())
		}
	}
	return seen, failed
}

func TestAWatchGoesOnWhereItBroke(t *testing.T) {
	var after []string
	s := watching(&after,
		sends().then(status.Error(codes.Unavailable, "away")),
		sends(snapshot(3), heartbeat()).then(status.Error(codes.Internal, "cut")),
		sends(event(4), delta("a")).then(status.Error(codes.Canceled, "cut")),
		sends(delta("a"), event(3), event(4), event(5)).then(status.Error(codes.Unknown, "cut")),
		sends(event(5)).then(status.Error(codes.Aborted, "cut")),
		sends().then(status.Error(codes.DataLoss, "cut")),
		sends().then(failure(codes.ResourceExhausted, "busy", reason("RATE_LIMITED"), retryAfter(time.Minute))),
		sends(event(6)).then(nil),
	)
	s.against(t, func(t *testing.T, client *Client) {
		request, started := &longhaulv1.WatchJobRequest{JobId: "job"}, time.Now()
		seen, err := collect(t.Context(), client, request)
		if err != nil || !slices.Equal(seen, strings.Split("snapshot 3,4,a,a,5,6", ",")) {
			t.Errorf("%q, %v", seen, err)
		}
		if !slices.Equal(after, strings.Split("snapshot,snapshot,3,4,5,5,5,5", ",")) {
			t.Errorf("%q", after)
		}
		if took := time.Since(started); took < time.Minute || took > 62*time.Second {
			t.Errorf("it took %s, and the server asked for a minute", took)
		}
		if request.AfterSequence != nil {
			t.Error("the caller's request was changed")
		}
	})
}

func TestAWatchAfterASequence(t *testing.T) {
	var after []string
	s := watching(&after, sends().then(status.Error(codes.Unavailable, "away")), sends(event(8), event(9)).then(nil))
	s.against(t, func(t *testing.T, client *Client) {
		seen, err := collect(t.Context(), client, &longhaulv1.WatchJobRequest{AfterSequence: proto.Int32(8)})
		if err != nil || !slices.Equal(seen, []string{"9"}) || !slices.Equal(after, []string{"8", "8"}) {
			t.Errorf("%q after %q, %v", seen, after, err)
		}
	})
}

func TestAWatchEndsWithARefusal(t *testing.T) {
	for _, refusal := range []error{
		failure(codes.NotFound, "no such job", reason("JOB_NOT_FOUND")),
		failure(codes.Internal, "a fault", reason("INTERNAL")),
		failure(codes.Unauthenticated, "revoked", reason("KEY_INVALID")),
		status.Error(codes.Unimplemented, "no such method"),
	} {
		var after []string
		watching(&after, sends(event(1)).then(refusal)).against(t, func(t *testing.T, client *Client) {
			seen, err := collect(t.Context(), client, &longhaulv1.WatchJobRequest{})
			var e *Error
			if !errors.As(err, &e) || e.Code != status.Code(refusal) || len(seen) != 1 || len(after) != 1 {
				t.Errorf("%q, %v after %d calls", seen, err, len(after))
			}
		})
	}
}

func TestAWatchGivesUp(t *testing.T) {
	var after []string
	s := watching(&after, sends(event(1)).then(status.Error(codes.Unavailable, "cut")), sends().then(status.Error(codes.Unavailable, "away")))
	for _, test := range []struct {
		options  []Option
		patience time.Duration
	}{{nil, 5 * time.Minute}, {[]Option{WithPatience(time.Minute)}, time.Minute}} {
		after = nil
		s.against(t, func(t *testing.T, client *Client) {
			started := time.Now()
			seen, err := collect(t.Context(), client, &longhaulv1.WatchJobRequest{})
			took := time.Since(started)
			if len(seen) != 1 || err == nil || err.Error() != "longhaul: Unavailable: away" ||
				took > test.patience || took < test.patience-longestPause {
				t.Errorf("%q, %v after %s", seen, err, took)
			}
		}, test.options...)
	}
}

func TestALineThatIsSilentIsDead(t *testing.T) {
	var after []string
	s := watching(&after, sends(event(1)), sends(event(2)), sends())
	s.against(t, func(t *testing.T, client *Client) {
		var came []time.Duration
		started, sequences := time.Now(), []int32{}
		for message, err := range client.Watch(t.Context(), &longhaulv1.WatchJobRequest{}) {
			came = append(came, time.Since(started))
			if err != nil {
				if status.Code(err) != codes.Unavailable || errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				continue
			}
			sequences = append(sequences, message.GetEvent().GetSequence())
		}
		if !slices.Equal(sequences, []int32{1, 2}) || came[1] < silence || came[1] > silence+firstPause {
			t.Errorf("%v came at %s", sequences, came)
		}
	})
}

func TestHeartbeatsKeepAWatchAlive(t *testing.T) {
	calls := 0
	s := &server{watch: func(_ *longhaulv1.WatchJobRequest, stream stream) error {
		calls++
		for range 60 {
			time.Sleep(15 * time.Second)
			if err := stream.Send(heartbeat()); err != nil {
				return err
			}
		}
		return stream.Send(event(1))
	}}
	s.against(t, func(t *testing.T, client *Client) {
		seen, err := collect(t.Context(), client, &longhaulv1.WatchJobRequest{})
		if err != nil || len(seen) != 1 || calls != 1 {
			t.Errorf("%q, %v after %d calls", seen, err, calls)
		}
	})
}

func TestACallerMayTakeItsTime(t *testing.T) {
	var after []string
	s := watching(&after, sends(event(1), event(2)).then(status.Error(codes.Unavailable, "cut")), sends(event(3)).then(nil))
	s.against(t, func(t *testing.T, client *Client) {
		var seen []int32
		for message, err := range client.Watch(t.Context(), &longhaulv1.WatchJobRequest{}) {
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, message.GetEvent().GetSequence())
			time.Sleep(time.Hour)
		}
		if !slices.Equal(seen, []int32{1, 2, 3}) || !slices.Equal(after, []string{"snapshot", "2"}) {
			t.Errorf("%v after %q", seen, after)
		}
	})
}

func TestLeavingAWatchEndsTheCall(t *testing.T) {
	var after []string
	ended := make(chan error, 1)
	held := sends(event(1), event(2))
	held.end = func(ctx context.Context) error {
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	watching(&after, held).against(t, func(t *testing.T, client *Client) {
		for range client.Watch(t.Context(), &longhaulv1.WatchJobRequest{}) {
			break
		}
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	})
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	for name, call := range map[string]call{
		"while it listens": sends(event(1)),
		"while it pauses":  sends(event(1)).then(failure(codes.Unavailable, "", retryAfter(time.Minute))),
	} {
		var after []string
		watching(&after, call).against(t, func(t *testing.T, client *Client) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Second, cancel)
			started := time.Now()
			seen, err := collect(ctx, client, &longhaulv1.WatchJobRequest{})
			if took := time.Since(started); took != 10*time.Second || len(seen) != 1 || len(after) != 1 || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %q, %v after %s", name, seen, err, took)
			}
		})
	}
}

func TestAWatchEndsWithItsClient(t *testing.T) {
	var after []string
	watching(&after, sends(event(1))).against(t, func(t *testing.T, client *Client) {
		time.AfterFunc(10*time.Second, func() { client.Close() })
		started := time.Now()
		_, err := collect(t.Context(), client, &longhaulv1.WatchJobRequest{})
		if took := time.Since(started); took != 10*time.Second || err == nil {
			t.Errorf("%v after %s", err, took)
		}
	})
}
