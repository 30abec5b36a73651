package longhaul

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

const (
	attempts     = 5
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// errSilent stands for an answer that does not come.
var errSilent = status.Error(codes.Unavailable, "nothing comes from the server")

// passes reports whether another try is asked for.
func (e *Error) passes() bool {
	return e.Code == codes.Unavailable || e.Code == codes.ResourceExhausted
}

// broke reports whether the line broke: what the server itself refuses has a reason.
func (e *Error) broke() bool {
	switch e.Code {
	case codes.Unknown, codes.Internal, codes.Canceled, codes.Aborted, codes.DataLoss:
		return e.Reason == ""
	}
	return false
}

// pause is how long to wait after so many failures in a row.
func (e *Error) pause(failures int) time.Duration {
	if e.RetryAfter > 0 {
		return e.RetryAfter
	}
	longest := min(firstPause<<min(failures-1, 10), longestPause)
	return longest/2 + rand.N(longest/2)
}

// sleep waits for the next try, unless the caller does not.
func (e *Error) sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		ended := newError(status.FromContextError(ctx.Err()).Err())
		ended.Message += "; before that: " + e.Message
		ended.cause = errors.Join(ended.cause, e)
		return ended
	case <-time.After(pause):
		return nil
	}
}

// persist gives each call a deadline and the id that makes it safe to repeat, and repeats it while its failure passes by
// itself.
func persist(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn,
		call grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		limit := timeout
		switch asked := request.(type) {
		case *longhaulv1.GetJobRequest:
			limit += time.Duration(asked.GetWaitSeconds()) * time.Second
		case *longhaulv1.SubmitJobRequest:
			named := &longhaulv1.SubmitJobRequest{JobId: newID()}
			proto.Merge(named, asked)
			request = named
		case *longhaulv1.ControlRequest:
			named := &longhaulv1.ControlRequest{RequestId: newID()}
			proto.Merge(named, asked)
			request = named
		case *longhaulv1.ControlJobsRequest:
			named := &longhaulv1.ControlJobsRequest{RequestId: newID()}
			proto.Merge(named, asked)
			request = named
		}
		if _, bounded := ctx.Deadline(); !bounded && timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		for attempt := 1; ; attempt++ {
			err := call(ctx, method, request, reply, connection, options...)
			if err == nil {
				return nil
			}
			e := newError(err)
			pause := e.pause(attempt)
			deadline, bounded := ctx.Deadline()
			if !e.passes() || attempt == attempts || bounded && time.Until(deadline) < pause {
				return e
			}
			if err := e.sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
}

// newID makes a random UUID.
func newID() string {
	var id [16]byte
	crand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// An outage is the time since the server was last heard.
type outage struct {
	since    time.Time
	failures int
}

// sitOut waits until it is time for the next try, or answers the error with which to give up.
func (c *Client) sitOut(ctx context.Context, out *outage, err error, patience time.Duration) error {
	out.failures++
	e := newError(err)
	pause := e.pause(out.failures)
	closed := c.connection.GetState() == connectivity.Shutdown
	if closed || !e.passes() && !e.broke() || time.Since(out.since)+pause > patience {
		return e
	}
	return e.sleep(ctx, pause)
}
