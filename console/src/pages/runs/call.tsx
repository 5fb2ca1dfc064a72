import { useState } from "preact/hooks";
import type { ToolCallView } from "../../../../src/operate/records/views.ts";
import { ask } from "../../api.ts";
import { useAction } from "../../resource.ts";
import { href } from "../../router.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { bytes, elapsed, plural, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { toastError } from "../../ui/toast.tsx";

/** A text as it is best read: JSON as a tree. */
function Text({ text, search }: { text: string; search: string }) {
  const value = /^\s*[{[]/.test(text) ? parse(text) : undefined;
  if (value !== undefined) return <JsonTree value={value} search={search} open={1} />;
  return <pre class="code">{visibleText(text)}</pre>;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A result that was cut, whole where it is asked for. */
function WholeResult({
  runId,
  stored,
  search,
}: {
  runId: string;
  stored: { id: string; length: number };
  search: string;
}) {
  const [text, setText] = useState<string | null>(null);
  const [load, busy] = useAction(async () => {
    const answer = await ask<{ result: { text: string } }>(
      `/runs/${encodeURIComponent(runId)}/results/${encodeURIComponent(stored.id)}`,
    );
    setText(answer.result.text);
  }, toastError);
  if (text !== null) return <Text text={text} search={search} />;
  return (
    <p>
      Cut: the whole result has {plural(stored.length, "character")}.{" "}
      <Button busy={busy} onClick={load}>
        Show all
      </Button>
    </p>
  );
}

function Output({ runId, call, search }: { runId: string; call: ToolCallView; search: string }) {
  const { output, stored } = call;
  if (!output) return null;
  return (
    <>
      <h4>{output.isError ? "Error" : "Result"}</h4>
      {output.parts.map((part, index) =>
        part.type === "text" ? (
          <Text key={index} text={part.text} search={search} />
        ) : (
          <p key={index} class="mono">
            {part.mediaType} {part.filename === null ? "" : visibleText(part.filename)} (
            {bytes(part.bytes)})
          </p>
        ),
      )}
      {stored ? <WholeResult runId={runId} stored={stored} search={search} /> : null}
    </>
  );
}

function Asked({ approval }: { approval: ToolCallView["approvals"][number] }) {
  const { id, code, why, askedAt, expiresAt, decision } = approval;
  return (
    <p class={decision ? "" : "warn"}>
      Approval <a href={href("approvals", id)}>{code}</a>: <Prose text={why.replace(/\.$/, "")} />,
      asked <Time iso={askedAt} />,{" "}
      {decision ? (
        <>
          <Status word={decision.verdict} tone={decision.verdict === "deny" ? "warn" : "good"} /> by{" "}
          {visibleText(decision.by)}, <Time iso={decision.at} />
          {decision.note === null ? "" : `: ${visibleText(decision.note)}`}
        </>
      ) : (
        <>
          open, expires <Time iso={expiresAt} />
        </>
      )}
    </p>
  );
}

/** True if the name, the arguments, the result or an approval of a call has this text. */
export const callHas = (call: ToolCallView, text: string): boolean =>
  JSON.stringify([call.tool, call.input, call.output, call.approvals.map(({ why }) => why)])
    .toLowerCase()
    .includes(text);

/** A tool call in one line, with its arguments and its result where it is opened. A search opens what it finds. */
export function Call({
  runId,
  call,
  search,
}: {
  runId: string;
  call: ToolCallView;
  search: string;
}) {
  const [opened, setOpened] = useState(false);
  const isOpen = opened || (search !== "" && callHas(call, search));
  return (
    <section class="runs-call" aria-label={`Call ${call.id}`}>
      <button
        type="button"
        class="runs-call-head"
        aria-expanded={isOpen}
        onClick={() => setOpened(!isOpen)}
      >
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
        <b class="mono">{call.tool}</b>
        <Status word={call.state} />
        {call.startedAt === null ? null : (
          <span class="quiet">{elapsed(call.startedAt, call.endedAt)}</span>
        )}
        {isOpen ? null : (
          <span class="runs-arguments mono quiet">
            {visibleText(JSON.stringify(call.input) ?? "")}
          </span>
        )}
      </button>
      {isOpen ? (
        <div class="runs-call-body">
          <h4>Arguments</h4>
          <JsonTree value={call.input} search={search} />
          {call.approvals.map((approval) => (
            <Asked key={approval.id} approval={approval} />
          ))}
          <Output runId={runId} call={call} search={search} />
        </div>
      ) : call.approvals.some(({ decision }) => decision === null) ? (
        <div class="runs-call-body">
          {call.approvals.map((approval) => (
            <Asked key={approval.id} approval={approval} />
          ))}
        </div>
      ) : null}
    </section>
  );
}
