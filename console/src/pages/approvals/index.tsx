import { useRef, useState } from "preact/hooks";
import type { ApprovalView, RuleView } from "../../../../src/operate/people/approvals.ts";
import { ActionButton } from "../../action-button.tsx";
import { FilterSelect } from "../../filters.tsx";
import { Listing, select } from "../../listing.tsx";
import { usePaged } from "../../paged.ts";
import { go, href, place } from "../../router.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import { Detail } from "./detail.tsx";
import "./style.css";
import { ask } from "../../api.ts";
import { useResource } from "../../resource.ts";

/** Takes a rule away. */
const Remove = ({ rule, removed }: { rule: RuleView; removed(): void }) => (
  <ActionButton
    label="Remove"
    kind="danger"
    question={["Remove this rule?", "Such calls are asked about again."]}
    send={() => ask(`/approvals/rules/${encodeURIComponent(rule.id)}`, { method: "DELETE" })}
    done="The rule is removed: such calls are asked about again."
    onDone={removed}
  />
);

/** The rules that decisions have saved. */
function Rules() {
  const rules = useResource<{ rules: RuleView[] }>("/approvals/rules", { live: true });
  return (
    <Loaded resource={rules}>
      {({ rules: rows }) => (
        <Table
          label="Rules"
          rows={rows}
          rowId={({ id }) => id}
          empty={
            <Empty command="rouse approvals decide --help">
              No rule yet. “Always approve” saves one, and so does <code>--always</code>:
            </Empty>
          }
          columns={[
            {
              head: "Calls that are not asked about",
              cell: ({ text }) => <span title={text}>{visibleText(text)}</span>,
              grow: true,
            },
            { head: "Made", cell: ({ createdAt }) => <Time iso={createdAt} />, minor: true },
            { head: "By", cell: ({ by }) => visibleText(by), minor: true },
            { head: "Action", cell: (rule) => <Remove rule={rule} removed={rules.reload} /> },
          ]}
        />
      )}
    </Loaded>
  );
}

const SHOWN = [
  ["", "Waiting"],
  ["decided", "Decided"],
  ["all", "All"],
] as const;

/** The detail has the rest. */
const SHOWN_CHARS = 200;

const COLUMNS: readonly Column<ApprovalView>[] = [
  { head: "Asked", cell: ({ askedAt }) => <Time iso={askedAt} /> },
  { head: "Code", cell: ({ code }) => <b class="mono">{code}</b> },
  { head: "Tool", cell: ({ tool }) => <span class="mono">{tool}</span>, lead: true },
  {
    head: "Arguments",
    cell: ({ input, why }) => (
      <span class="mono" title={why}>
        {visibleText(JSON.stringify(input).slice(0, SHOWN_CHARS))}
      </span>
    ),
    grow: true,
  },
  { head: "Asked by", cell: ({ askedBy }) => visibleText(askedBy ?? "–"), minor: true },
  { head: "Agent", cell: ({ agentId }) => agentId, minor: true },
  {
    head: "State",
    cell: ({ decision }) =>
      decision ? (
        <Status word={decision.verdict} tone={decision.verdict === "approve" ? "good" : "warn"} />
      ) : (
        <Status word="waiting" />
      ),
  },
  {
    head: "Until",
    cell: ({ decision, expiresAt }) =>
      decision ? <span class="quiet">–</span> : <Time iso={expiresAt} />,
    minor: true,
  },
];

/** The rules in place of the list. */
function RulesPage() {
  return (
    <>
      <header class="page-head">
        <h1>Approvals</h1>
        <span class="quiet">rules that “Always approve” has saved</span>
        <div class="actions">
          <Button onClick={() => go(href("approvals"))}>Back to the calls</Button>
        </div>
      </header>
      <Rules />
    </>
  );
}

function Calls() {
  const { show = "", run } = place.value.query;
  const state = show === "" ? "open" : show === "all" ? undefined : show;
  const paged = usePaged<ApprovalView>(
    "/approvals",
    { state, runId: run },
    { member: "approvals", rowId: ({ id }) => id },
  );
  const [next, setNext] = useState("");
  /** The list may not be read again yet. */
  const decided = useRef(new Set<string>());
  /** Selects the open call after one that was decided about, or else the one before it. */
  const goOn = (id: string): void => {
    decided.current.add(id);
    const at = paged.rows.findIndex((row) => row.id === id);
    const others = [
      ...paged.rows.slice(at + 1),
      ...paged.rows.slice(0, Math.max(0, at)).toReversed(),
    ];
    const found = others.find((row) => row.decision === null && !decided.current.has(row.id));
    if (!found) return;
    setNext(found.id);
    select("approvals", found.id);
  };
  return (
    <Listing
      page="approvals"
      title="Approvals"
      paged={paged}
      columns={COLUMNS}
      rowId={({ id }) => id}
      at={({ askedAt }) => askedAt}
      filters={<FilterSelect name="show" label="Show" options={SHOWN} />}
      actions={<Button onClick={() => go(href("approvals", "", { show: "rules" }))}>Rules</Button>}
      detail={(id) => (
        <Detail
          key={id}
          id={id}
          isNext={id === next}
          reload={paged.resource.reload}
          goOn={() => goOn(id)}
        />
      )}
      empty={
        show === "" ? (
          <Empty command="rouse approvals --all">
            No call waits for approval. Those that were decided about:
          </Empty>
        ) : (
          <Empty>No call has been decided about yet.</Empty>
        )
      }
    />
  );
}

export function Page() {
  return place.value.query["show"] === "rules" ? <RulesPage /> : <Calls />;
}
