package longhaul

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An Error is how a call fails. It wraps the error of gRPC, and is [context.Canceled] or [context.DeadlineExceeded]
// where its code says so.
type Error struct {
	// Code is that of gRPC.
	Code codes.Code
	// Message says in words what went wrong.
	Message string
	// Reason is a word of the closed list in the proto. Empty: it is not the server that says so.
	Reason string
	// Metadata belongs to the reason: the status of the job that stands in the way, for example.
	Metadata map[string]string
	// Violations say which fields of the request are wrong.
	Violations []*errdetails.BadRequest_FieldViolation
	// RetryAfter is how long the server asks to wait before the next try. 0: it does not.
	RetryAfter time.Duration

	cause error
}

// Error tells the reason, or if there is none the code, and the message.
func (e *Error) Error() string {
	return "longhaul: " + cmp.Or(e.Reason, e.Code.String()) + ": " + e.Message
}

// Unwrap answers the error of gRPC, joined by that of the last try where the time ended between two.
func (e *Error) Unwrap() error { return e.cause }

// Is makes the error [context.Canceled] or [context.DeadlineExceeded] where its code says so.
func (e *Error) Is(target error) bool {
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

func newError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	s := status.Convert(err)
	e := &Error{Code: s.Code(), Message: s.Message(), cause: err}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == "longhaul.dev" {
				e.Reason, e.Metadata = detail.GetReason(), detail.GetMetadata()
			}
		case *errdetails.BadRequest:
			e.Violations = detail.GetFieldViolations()
		case *errdetails.RetryInfo:
			e.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	return e
}
