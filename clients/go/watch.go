package longhaul

import (
	"context"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

// silence is how long nothing at all may come until a line is taken as dead: three heartbeats.
const silence = 45 * time.Second

// Watch goes through what happens to a job until it has ended: first a snapshot, or with after_sequence the events that
// follow it, then each event as it comes, and what else the request asks for. Heartbeats are left out.
//
// It connects again by itself, from the last sequence it has delivered, so that no event is lost or repeated; a text
// that is on its way then begins anew, with a piece at offset 0. It ends with an error that does not pass, with one that
// lasts longer than [WithPatience] says, or with the context. Leaving the loop ends the call.
func (c *Client) Watch(ctx context.Context, request *longhaulv1.WatchJobRequest) iter.Seq2[*longhaulv1.WatchJobResponse, error] {
	return func(yield func(*longhaulv1.WatchJobResponse, error) bool) {
		w := watch{request: &longhaulv1.WatchJobRequest{}, yield: yield, outage: outage{since: time.Now()}}
		proto.Merge(w.request, request)
		for {
			err := w.follow(ctx, c.stub)
			if err == nil {
				return
			}
			if err := c.sitOut(ctx, &w.outage, err, c.patience); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// A watch keeps in the request's after_sequence what it has delivered.
type watch struct {
	request *longhaulv1.WatchJobRequest
	yield   func(*longhaulv1.WatchJobResponse, error) bool
	outage  outage
}

// follow delivers what one call brings. It answers nil once there is no more, or no more is wanted.
func (w *watch) follow(ctx context.Context, stub longhaulv1.JobServiceClient) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()
	stream, err := stub.WatchJob(ctx, w.request)
	for err == nil {
		var message *longhaulv1.WatchJobResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		// How long the caller takes over a message is not the server's silence.
		alarm.Stop()
		if w.isNew(message) && !w.yield(message, nil) {
			return nil
		}
		alarm.Reset(silence)
		w.outage = outage{since: time.Now()}
	}
	switch {
	case err == io.EOF:
		return nil
	case context.Cause(ctx) == errSilent:
		return errSilent
	default:
		return err
	}
}

// isNew reports whether a message is to be delivered, and remembers its sequence.
func (w *watch) isNew(message *longhaulv1.WatchJobResponse) bool {
	switch content := message.GetContent().(type) {
	case *longhaulv1.WatchJobResponse_Heartbeat:
		return false
	case *longhaulv1.WatchJobResponse_Snapshot:
		w.request.AfterSequence = proto.Int32(content.Snapshot.GetLastSequence())
	case *longhaulv1.WatchJobResponse_Event:
		if content.Event.GetSequence() <= w.request.GetAfterSequence() {
			return false
		}
		w.request.AfterSequence = proto.Int32(content.Event.GetSequence())
	}
	return true
}
