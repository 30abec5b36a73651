package longhaul_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	longhaul "longhaul.dev/clients/go"
	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

var (
	ctx    = context.Background()
	client *longhaul.Client
	id     string
)

func ExampleClient_Watch() {
	request := &longhaulv1.WatchJobRequest{JobId: id, AfterSequence: proto.Int32(0), IncludeOutputDeltas: true}
	for message, err := range client.Watch(ctx, request) {
		if err != nil {
			log.Fatal(err)
		}
		switch content := message.Content.(type) {
		case *longhaulv1.WatchJobResponse_Event:
			fmt.Println(content.Event.Sequence, content.Event.Message)
		case *longhaulv1.WatchJobResponse_OutputDelta:
			fmt.Print(content.OutputDelta.Text)
		}
	}
}

func ExampleClient_Wait() {
	job, err := client.Wait(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	if approval := job.Approval; approval != nil {
		decided, err := client.Approve(ctx, id, &longhaulv1.ApproveAction{
			ApprovalId: approval.ApprovalId,
			Comment:    "Looks good.",
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decided.Job.Status)
	}
}

func ExampleClient_List() {
	request := &longhaulv1.ListJobsRequest{Selector: &longhaulv1.JobSelector{
		Statuses: []longhaulv1.JobStatus{longhaulv1.JobStatus_JOB_STATUS_FAILED},
		Labels:   map[string]string{"team": "growth"},
	}}
	for job, err := range client.List(ctx, request) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.JobId, job.Reason, job.CostUsd)
	}
}

func ExampleError() {
	request := &longhaulv1.SubmitJobRequest{}
	_, err := client.Submit(ctx, request)
	var failure *longhaul.Error
	if errors.As(err, &failure) {
		switch failure.Reason {
		case "JOB_ID_CONFLICT":
			fmt.Println("taken by another job, which differs in", failure.Metadata["field"])
		case "INVALID_REQUEST":
			for _, violation := range failure.Violations {
				fmt.Println(violation.Field, violation.Description)
			}
		}
	}
}

func ExampleWithTLS() {
	var caPEM []byte
	var key string
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(caPEM)
	certificate, err := tls.LoadX509KeyPair("client.pem", "client.key")
	if err != nil {
		log.Fatal(err)
	}
	client, err := longhaul.Connect(
		longhaul.WithAddress("https://queue.example.com:50051"),
		longhaul.WithAPIKey(key),
		longhaul.WithTLS(&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}}),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// What the README shows is what stands here, but for its first block, which is run.
func TestTheREADMEShowsTheseExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(.)`)
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)[1:] {
		if !strings.Contains(string(examples), line.ReplaceAllString(block[1], "\t$1")) {
			t.Errorf("this is no example:\n%s", block[1])
		}
	}
}
