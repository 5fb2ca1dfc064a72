import type { RuleView } from "../../../../src/operate/people/approvals.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { Button, Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

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

/** The rules in place of the list. */
export function RulesPage() {
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
