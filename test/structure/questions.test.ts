import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { parseCode, ROOT } from "./code.ts";
import { declaredExports } from "./names.ts";

const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const PAGE = read("docs/architecture.md");
/** Readers find a file in a folder of this size by its name. In a larger one the page has to name the file. */
const SMALL_FOLDER = 20;

/** Questions of readers: the file with the answer, and a name in it. */
const ANSWERS: readonly [question: string, file: string, name: string][] = [
  ["Where does a request to /hooks come in?", "src/http/hooks.ts", "createHooks"],
  ["In what order is a hook checked?", "src/intake/receive.ts", "createIntake"],
  ["Where is a token compared?", "src/intake/authenticate.ts", "authenticate"],
  ["Where is a Slack signature checked?", "src/intake/signature.ts", "verifySignature"],
  ["How does Slack sign?", "mappings/schemes/slack.json", "x-slack-signature"],
  ["Why does a mapping not match?", "src/mapping/match.ts", "compileMatch"],
  ["What is committed before a sender gets 202?", "src/intake/record.ts", "record"],
  ["When does a run start?", "src/queue/admission.ts", "Admission"],
  ["Why does a run wait?", "src/turns/hold.ts", "findWaitReason"],
  ["In what order is a run executed?", "src/turns/execute.ts", "execute"],
  ["What does a kind of run add?", "src/turns/try.ts", "RunKind"],
  ["What happens after kill -9?", "src/turns/journal.ts", "countCrashes"],
  ["Who takes over the jobs of a gateway that is gone?", "src/queue/worker.ts", "PullWorker"],
  ["Where does a tool call become an approval?", "src/people/policy.ts", "judgeCall"],
  ["What puts a run to sleep that waits for a person?", "src/turns/hold.ts", "waitForPeople"],
  ["Where is text from outside wrapped?", "src/agent/boundary.ts", "createBoundary"],
  ["When is the next model asked?", "src/agent/model-call.ts", "callWithFallbacks"],
  ["Where does a reply go?", "src/delivery/channels.ts", "resolveRoute"],
  ["What retries a delivery?", "src/delivery/send.ts", "getWaitMs"],
  ["What sends to Slack?", "plugins/slack/send.ts", "createChannel"],
  ["When does a schedule fire?", "src/turns/schedules/scheduler.ts", "Scheduler"],
  ["What is deleted when?", "src/store/sql/sweep.ts", "getSweepSteps"],
  ["What happens when the config is saved?", "src/gateway/reload.ts", "createReloader"],
];

/** True if a reader of the page finds the file: by its own name, or by that of a folder that is small enough. */
function isFound(file: string): boolean {
  const folder = dirname(file);
  return (
    PAGE.includes(`\`${file}\``) ||
    (PAGE.includes(`\`${folder}/\``) &&
      (folder.startsWith("mappings/") ||
        globSync(`${folder}/*.*`, { cwd: ROOT }).length <= SMALL_FOLDER))
  );
}

const hasName = (file: string, name: string): boolean =>
  file.endsWith(".ts")
    ? declaredExports(parseCode(file, read(file))).has(name)
    : read(file).includes(name);

it.each(ANSWERS)("docs/architecture.md leads to the answer: %s", (_question, file, name) => {
  expect({ file, name: hasName(file, name) && name, isFound: isFound(file) }).toEqual({
    file,
    name,
    isFound: true,
  });
});
