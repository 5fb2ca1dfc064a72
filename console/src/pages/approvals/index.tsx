import { useRef, useState } from "preact/hooks";
import type { ApprovalView } from "../../../../src/operate/people/approvals.ts";
import { FilterSelect } from "../../filters.tsx";
import { Listing, select } from "../../listing.tsx";
import { usePaged } from "../../paged.ts";
import { go, href, place } from "../../router.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { lazy } from "../../ui/lazy.tsx";
import { Empty } from "../../ui/states.tsx";
import type { Column } from "../../ui/table.tsx";
import "./style.css";

const Detail = lazy(async () => (await import("./detail.tsx")).Detail);
const RulesPage = lazy(async () => (await import("./rules.tsx")).RulesPage);

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
