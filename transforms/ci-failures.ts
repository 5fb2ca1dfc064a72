import type { Transform } from "#transform";

const BAD = ["failure", "timed_out", "startup_failure"];

/** GitHub workflow runs: tells of the failed ones, skips the rest. All failures of one workflow are one conversation. */
const transform: Transform = ({ payload }) => {
  const run = payload?.workflow_run;
  if (!BAD.includes(run?.conclusion)) return null;
  return {
    name: `CI ${payload.repository?.full_name ?? ""}`.trim(),
    sessionKey: `hook:ci:${run.workflow_id}`,
    message: `CI failed: ${run.name} on ${run.head_branch} (${run.conclusion})\n${run.html_url}`,
  };
};

export default transform;
