import dev.longhaul.LonghaulClient;
import dev.longhaul.v1.ApprovalStep;
import dev.longhaul.v1.ApproveAction;
import dev.longhaul.v1.Event;
import dev.longhaul.v1.OutputDelta;
import dev.longhaul.v1.RunStep;
import dev.longhaul.v1.Step;
import dev.longhaul.v1.SubmitJobRequest;
import dev.longhaul.v1.WatchJobRequest;
import java.math.BigDecimal;

/** Has a line of launch copy written, shows it as it arrives, approves it and prints what became of it. */
public final class Launch {
    private Launch() {}

    /** Runs against the server that the environment names. */
    public static void main(String[] arguments) {
        var write = RunStep.newBuilder().setPrompt("Write one line about {{ task }}.");
        var ask = ApprovalStep.newBuilder().setNote("May this go out?").addApprovers("+15550100");
        var submission = SubmitJobRequest.newBuilder()
                .setTask("a budgeting app")
                .addSteps(Step.newBuilder().setName("draft").setRun(write))
                .addSteps(Step.newBuilder().setName("review").setApproval(ask))
                .build();
        try (var client = LonghaulClient.connect()) {
            var jobId = client.submit(submission).getJob().getJobId();
            System.out.print("submitted " + jobId);

            var all = WatchJobRequest.newBuilder().setJobId(jobId).setAfterSequence(0).setIncludeOutputDeltas(true);
            try (var watch = client.watch(all.build())) {
                for (var message : watch) {
                    switch (message.getContentCase()) {
                        case OUTPUT_DELTA -> show(message.getOutputDelta());
                        case EVENT -> show(message.getEvent());
                        default -> {}
                    }
                    if (message.getEvent().hasApprovalRequested()) {
                        var asked = message.getEvent().getApprovalRequested().getApprovalId();
                        var vote = ApproveAction.newBuilder().setApprovalId(asked).setComment("Looks good.");
                        client.approve(jobId, vote.build());
                    }
                }
            }

            var job = client.get(jobId);
            var cost = new BigDecimal(job.getCostUsd());
            System.out.println("\n" + job.getStatus() + " for " + cost + " USD: " + job.getOutput());
        }
    }

    /** An answer that begins anew, also because the watch has connected again, begins at offset 0. */
    private static void show(OutputDelta piece) {
        System.out.print((piece.getOffset() == 0 ? "\n" : "") + piece.getText());
        System.out.flush();
    }

    private static void show(Event event) {
        System.out.print("\n" + event.getSequence() + " " + event.getMessage());
        if (event.getStepFinished().hasUsage()) {
            var usage = event.getStepFinished().getUsage();
            var cost = event.getStepFinished().getCostUsd();
            System.out.printf(", %d in, for %s USD", usage.getInputTokens(), cost);
        }
    }
}
