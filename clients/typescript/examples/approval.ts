// Has a text written, shows it as it arrives, approves it, and tells what it took.
import { connect, EventKind, JobStatus, LonghaulError } from "@longhaul/client";

const client = connect();

async function main(): Promise<void> {
  const { job } = await client.submit({
    task: "The launch of a budgeting app",
    steps: [
      { name: "draft", kind: { case: "run", value: { prompt: "Write two lines about {{ task }}." } } },
      { kind: { case: "approval", value: { note: "May this go out?", approvers: ["+15550100"] } } },
    ],
  });
  const jobId = job!.jobId;
  console.log(`submitted ${jobId}`);

  for await (const message of client.watch(jobId, { afterSequence: 0, includeOutputDeltas: true })) {
    if (message.case === "outputDelta") {
      // An offset of 0 begins a text, also one that was broken off and begins anew.
      if (message.value.offset === 0) process.stdout.write("\n");
      process.stdout.write(message.value.text);
    }
    if (message.case !== "event") continue;
    const { kind, step, detail } = message.value;
    console.log(`\n${EventKind[kind]}${step ? ` in step ${step}` : ""}: ${message.value.message}`);
    if (detail.case === "stepFinished" && detail.value.usage) {
      const { inputTokens, outputTokens } = detail.value.usage;
      console.log(`  ${inputTokens} tokens read, ${outputTokens} written, for $${detail.value.costUsd || "0"}`);
    }
    if (detail.case === "approvalRequested") {
      await client.approve(jobId, { approvalId: detail.value.approvalId, comment: "Looks good." });
    }
  }

  const end = await client.wait(jobId);
  console.log(`\n${JobStatus[end.status]} for $${end.costUsd}: ${end.output}`);
  if (end.status !== JobStatus.COMPLETED) process.exitCode = 1;
}

try {
  await main();
} catch (error) {
  if (!(error instanceof LonghaulError)) throw error;
  console.error(`${error.code} ${error.reason}: ${error.message}`);
  process.exitCode = 1;
}
