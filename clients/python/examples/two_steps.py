"""Has a model write a line, shows how it gets there, and approves it: LONGHAUL_SERVER and LONGHAUL_API_KEY say where.

Here the program approves as soon as it is asked; in life a person does, on the page that the server sends them to.
"""

from longhaul import Client
from longhaul.v1.event_pb2 import EVENT_KIND_APPROVAL_REQUESTED, Event, EventKind
from longhaul.v1.job_pb2 import JobStatus
from longhaul.v1.job_service_pb2 import SubmitJobRequest
from longhaul.v1.submission_pb2 import ApprovalStep, RunStep, Step

JOB = SubmitJobRequest(
    task="A budgeting app for students",
    steps=[
        Step(name="draft", run=RunStep(prompt="Write two sentences of launch copy for: {{ task }}.")),
        Step(approval=ApprovalStep(note="May this go out?", approvers=["+15550100"])),
    ],
)


def show(event: Event) -> None:
    """Prints an event, and what a step has used once it is finished."""
    kind = EventKind.Name(event.kind).removeprefix("EVENT_KIND_").lower().replace("_", " ")
    print(f"{event.sequence}. {kind}{f', step {event.step}' if event.step else ''}")
    if event.HasField("step_finished") and event.step_finished.HasField("usage"):
        usage, cost = event.step_finished.usage, event.step_finished.cost_usd
        print(
            f"   {usage.input_tokens} tokens read, {usage.output_tokens} written, {cost or 'an unknown number of'} USD"
        )


def main() -> None:
    """Runs the job to its end."""
    with Client() as client:
        submitted = client.submit(JOB)
        job_id = submitted.job.job_id
        for warning in submitted.warnings:
            print(f"note: {warning}")
        for message in client.watch(job_id, after_sequence=0, include_output_deltas=True):
            match message.WhichOneof("content"):
                case "output_delta":
                    print(f"   {message.output_delta.offset:5} {message.output_delta.text!r}")
                case "event":
                    show(message.event)
                    if message.event.kind == EVENT_KIND_APPROVAL_REQUESTED:
                        approval_id = message.event.approval_requested.approval_id
                        client.approve(job_id, approval_id=approval_id, comment="Looks good.")
        job = client.get(job_id).job
        print(f"{JobStatus.Name(job.status)} for {job.cost_usd or '0'} USD:\n{job.output}")


if __name__ == "__main__":
    main()
