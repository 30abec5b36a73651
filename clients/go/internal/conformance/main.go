// Command conformance goes through the scenario that all clients share, or follows one job.
//
//	conformance scenario
//	conformance follow JOB_ID
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	longhaul "longhaul.dev/clients/go"
	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

func main() {
	run := scenario
	if len(os.Args) == 3 && os.Args[1] == "follow" {
		run = follow
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// follow prints the sequence of each event of a job.
func follow(ctx context.Context) error {
	client, err := longhaul.Connect()
	if err != nil {
		return err
	}
	request := &longhaulv1.WatchJobRequest{JobId: os.Args[2], AfterSequence: proto.Int32(0)}
	for message, err := range client.Watch(ctx, request) {
		if err != nil {
			return err
		}
		if event := message.GetEvent(); event != nil {
			fmt.Println(event.GetSequence())
		}
	}
	return nil
}

// A step is one call, as the scenario has it.
type step struct {
	Name          string
	Do            string
	APIKey        *string `json:"api_key"`
	TLS           string
	Silent        bool
	DeadlineMS    int64 `json:"deadline_ms"`
	Request       json.RawMessage
	Selector      json.RawMessage
	With          json.RawMessage
	JobID         string `json:"job_id"`
	PageSize      int32  `json:"page_size"`
	AfterSequence *int32 `json:"after_sequence"`
	LeaveAfter    int    `json:"leave_after"`
	Deltas        bool
	On            map[string][]json.RawMessage
	Vectors       []vector
	Expect        any
	Refused       *refusal
}

type vector struct {
	Wire string
	JSON json.RawMessage
}

type refusal struct {
	Code   codes.Code
	Codes  []codes.Code
	Reason string
	Fields []string
}

func scenario(ctx context.Context) error {
	response, err := http.Get(os.Getenv("LONGHAUL_CONFORMANCE") + "/scenario?client=go")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var all struct{ Steps []step }
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil {
		return err
	}
	client, err := longhaul.Connect()
	if err != nil {
		return err
	}
	failed := 0
	for number, step := range all.Steps {
		if err := step.prove(ctx, client); err != nil {
			failed++
			fmt.Printf("step %d, %s %q: %.2000s\n", number+1, step.Do, step.Name, err)
		}
	}
	if failed > 0 || len(all.Steps) == 0 {
		return fmt.Errorf("%d of %d steps failed", failed, len(all.Steps))
	}
	return nil
}

// prove makes the call and holds what comes of it against what is expected.
func (s *step) prove(ctx context.Context, client *longhaul.Client) error {
	if options := s.options(); options != nil {
		var err error
		if client, err = longhaul.Connect(options...); err != nil {
			return err
		}
		defer client.Close()
	}
	if s.DeadlineMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	answer, err := s.call(ctx, client)
	switch {
	case s.Refused != nil:
		return s.Refused.fits(err)
	case err != nil:
		return err
	default:
		return contains(answer, s.Expect, "answer")
	}
}

// options are those of a step that has a client of its own.
func (s *step) options() (options []longhaul.Option) {
	if s.APIKey != nil {
		options = append(options, longhaul.WithAPIKey(*s.APIKey))
	}
	if s.Silent {
		options = append(options, longhaul.WithAddress(os.Getenv("LONGHAUL_SILENT_SERVER")))
	}
	if s.TLS != "" {
		options = append(options, longhaul.WithAddress(os.Getenv("LONGHAUL_TLS_SERVER")))
	}
	if s.TLS == "untrusted" {
		options = append(options, longhaul.WithTLS(&tls.Config{}))
	}
	return options
}

// fits says how an error differs from the refusal that is expected.
func (r *refusal) fits(err error) error {
	e, refused := errors.AsType[*longhaul.Error](err)
	if !refused {
		return fmt.Errorf("expected %+v, came %v", *r, err)
	}
	var fields []string
	for _, violation := range e.Violations {
		fields = append(fields, violation.GetField())
	}
	if !slices.Contains(append(r.Codes, r.Code), e.Code) ||
		r.Reason != "" && r.Reason != e.Reason ||
		r.Fields != nil && !slices.Equal(r.Fields, fields) {
		return fmt.Errorf("expected %+v, came %w", *r, err)
	}
	return nil
}

// contains says what of the JSON that is expected is not in the one that came.
func contains(came, expected any, path string) error {
	switch expected := expected.(type) {
	case nil:
		return nil
	case map[string]any:
		fields, _ := came.(map[string]any)
		for name, value := range expected {
			if err := contains(fields[name], value, path+"."+name); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if items, _ := came.([]any); len(items) == len(expected) {
			for i, value := range expected {
				if err := contains(items[i], value, fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		if came == expected || came == nil && expected == false {
			return nil
		}
	}
	return fmt.Errorf("%s: expected %.500v, came %.500v", path, expected, came)
}

// call does what the step says, and answers the JSON of what came.
func (s *step) call(ctx context.Context, client *longhaul.Client) (any, error) {
	switch s.Do {
	case "submit":
		return answer(client.Submit(ctx, parse(s.Request, &longhaulv1.SubmitJobRequest{})))
	case "get":
		return answer(client.Get(ctx, parse(s.Request, &longhaulv1.GetJobRequest{})))
	case "wait":
		return answer(client.Wait(ctx, s.JobID))
	case "pause":
		return answer(client.Pause(ctx, s.JobID, parse(s.With, &longhaulv1.PauseAction{})))
	case "resume":
		return answer(client.Resume(ctx, s.JobID, parse(s.With, &longhaulv1.ResumeAction{})))
	case "cancel":
		return answer(client.Cancel(ctx, s.JobID, parse(s.With, &longhaulv1.CancelAction{})))
	case "retry":
		return answer(client.Retry(ctx, s.JobID, parse(s.With, &longhaulv1.RetryAction{})))
	case "approve":
		return answer(client.Approve(ctx, s.JobID, parse(s.With, &longhaulv1.ApproveAction{})))
	case "reject":
		return answer(client.Reject(ctx, s.JobID, parse(s.With, &longhaulv1.RejectAction{})))
	case "request_changes":
		return answer(client.RequestChanges(ctx, s.JobID, parse(s.With, &longhaulv1.RequestChangesAction{})))
	case "list":
		return s.list(ctx, client)
	case "watch":
		return s.watch(ctx, client)
	case "vectors":
		return nil, s.turnVectors()
	default:
		return nil, fmt.Errorf("nothing is known of %q", s.Do)
	}
}

// parse reads a message; what the scenario says is wrong is not for the client to see.
func parse[M proto.Message](text json.RawMessage, message M) M {
	if text != nil {
		if err := protojson.Unmarshal(text, message); err != nil {
			panic(err)
		}
	}
	return message
}

// answer turns a message into its JSON.
func answer[M proto.Message](message M, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var value any
	return value, json.Unmarshal(text, &value)
}

func (s *step) list(ctx context.Context, client *longhaul.Client) (any, error) {
	request := &longhaulv1.ListJobsRequest{Selector: parse(s.Selector, &longhaulv1.JobSelector{}), PageSize: s.PageSize}
	ids := []any{}
	for job, err := range client.List(ctx, request) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, job.GetJobId())
	}
	return map[string]any{"job_ids": ids}, nil
}

func (s *step) watch(ctx context.Context, client *longhaul.Client) (any, error) {
	request := &longhaulv1.WatchJobRequest{JobId: s.JobID, AfterSequence: s.AfterSequence, IncludeOutputDeltas: s.Deltas}
	sequences, kinds := []any{}, []any{}
	seen := map[string]any{}
	var text []rune
	messages := 0
	for message, err := range client.Watch(ctx, request) {
		if err != nil {
			return nil, err
		}
		switch content := message.GetContent().(type) {
		case *longhaulv1.WatchJobResponse_Snapshot:
			if seen["snapshot"], err = answer(content.Snapshot, nil); err != nil {
				return nil, err
			}
		case *longhaulv1.WatchJobResponse_OutputDelta:
			text = append(text[:content.OutputDelta.GetOffset()], []rune(content.OutputDelta.GetText())...)
		case *longhaulv1.WatchJobResponse_Event:
			event := content.Event
			sequences = append(sequences, float64(event.GetSequence()))
			kinds = append(kinds, event.GetKind().String())
			if finished := event.GetStepFinished(); finished.GetKind() == longhaulv1.StepKind_STEP_KIND_RUN {
				seen["deltas_are_output"] = len(text) > 0 && string(text) == finished.GetOutput()
			}
			for _, action := range s.On[strconv.Itoa(int(event.GetSequence()))] {
				if err := act(ctx, client, action); err != nil {
					return nil, fmt.Errorf("after event %d: %w", event.GetSequence(), err)
				}
			}
		}
		if messages++; messages == s.LeaveAfter {
			break
		}
	}
	seen["sequences"], seen["kinds"] = sequences, kinds
	return seen, nil
}

// act has something done to the world, or goes through a step.
func act(ctx context.Context, client *longhaul.Client, action json.RawMessage) error {
	var happening string
	if json.Unmarshal(action, &happening) == nil {
		response, err := http.Post(os.Getenv("LONGHAUL_CONFORMANCE")+"/"+happening, "", nil)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", happening, response.Status)
		}
		return nil
	}
	var step step
	if err := json.Unmarshal(action, &step); err != nil {
		return err
	}
	return step.prove(ctx, client)
}

func (s *step) turnVectors() error {
	for _, vector := range s.Vectors {
		wire, err := base64.StdEncoding.DecodeString(vector.Wire)
		if err != nil {
			return err
		}
		usage := &longhaulv1.Usage{}
		if err := proto.Unmarshal(wire, usage); err != nil {
			return err
		}
		came, err := answer(usage, nil)
		if err != nil {
			return err
		}
		var expected any
		if err := json.Unmarshal(vector.JSON, &expected); err != nil {
			return err
		}
		if !reflect.DeepEqual(came, expected) {
			return fmt.Errorf("%s: expected %v, came %v", vector.Wire, expected, came)
		}
		back, err := proto.MarshalOptions{Deterministic: true}.Marshal(parse(vector.JSON, &longhaulv1.Usage{}))
		if err != nil || !bytes.Equal(back, wire) {
			return fmt.Errorf("%s: expected %x, came %x, %v", vector.JSON, wire, back, err)
		}
	}
	return nil
}
