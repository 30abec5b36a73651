// Command approval submits a job that asks a model and then a person, shows how it goes, and approves it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"google.golang.org/protobuf/proto"

	longhaul "longhaul.dev/clients/go"
	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := longhaul.Connect()
	if err != nil {
		return err
	}
	defer client.Close()

	submitted, err := client.Submit(ctx, &longhaulv1.SubmitJobRequest{
		Task: "Launch copy for a budgeting app",
		Steps: []*longhaulv1.Step{
			{Name: "draft", Kind: &longhaulv1.Step_Run{Run: &longhaulv1.RunStep{
				Prompt: "Write one line about {{ task }}.",
			}}},
			{Name: "review", Kind: &longhaulv1.Step_Approval{Approval: &longhaulv1.ApprovalStep{
				Note:      "May this go out?",
				Approvers: []string{"+15550100"},
			}}},
		},
	})
	if err != nil {
		return err
	}
	id := submitted.GetJob().GetJobId()
	fmt.Println("submitted", id)

	messages := client.Watch(ctx, &longhaulv1.WatchJobRequest{
		JobId: id, AfterSequence: proto.Int32(0), IncludeOutputDeltas: true,
	})
	for message, err := range messages {
		if err != nil {
			return err
		}
		if delta := message.GetOutputDelta(); delta != nil {
			if delta.GetOffset() == 0 {
				fmt.Print("\n  ") // an answer begins, or begins anew
			}
			fmt.Print(delta.GetText())
			continue
		}
		event := message.GetEvent()
		fmt.Printf("\n%2d %s", event.GetSequence(), event.GetMessage())
		if done := event.GetStepFinished(); done.GetKind() == longhaulv1.StepKind_STEP_KIND_RUN {
			usage := done.GetUsage()
			fmt.Printf(" (%d tokens in, %d out, $%s)", usage.GetInputTokens(), usage.GetOutputTokens(), done.GetCostUsd())
		}
		if approval := event.GetApprovalRequested(); approval != nil {
			_, err := client.Approve(ctx, id, &longhaulv1.ApproveAction{
				ApprovalId: approval.GetApprovalId(), Comment: "Looks good.", OnBehalfOf: "+15550100",
			})
			if err != nil {
				return err
			}
		}
	}
	fmt.Println()

	got, err := client.Get(ctx, &longhaulv1.GetJobRequest{JobId: id})
	if err != nil {
		return err
	}
	job := got.GetJob()
	fmt.Printf("%s for $%s:\n%s\n", job.GetStatus(), job.GetCostUsd(), job.GetOutput())
	if job.GetStatus() != longhaulv1.JobStatus_JOB_STATUS_COMPLETED {
		return fmt.Errorf("job %s: %s", id, job.GetStatusMessage())
	}
	return nil
}
