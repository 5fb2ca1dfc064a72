import type { RuleView } from "../../../../src/operate/people/approvals.ts";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

/** Takes a rule away, after a question. */
function Remove({ rule, removed }: { rule: RuleView; removed(): void }) {
  const [remove, busy] = useAction(async () => {
    if (
      !(await confirmed("Remove this rule?", "Such calls are asked about again.", "Remove", true))
    )
      return;
    await ask(`/approvals/rules/${encodeURIComponent(rule.id)}`, { method: "DELETE" });
    toast("The rule is removed: such calls are asked about again.");
    removed();
  }, toastError);
  return (
    <Button kind="danger" busy={busy} onClick={remove}>
      Remove
    </Button>
  );
}

/** The rules that decisions have saved. */
export function Rules() {
  const rules = useResource<{ rules: RuleView[] }>("/approvals/rules", { live: true });
  return (
    <Loaded resource={rules}>
      {({ rules: rows }) =>
        rows.length === 0 ? (
          <Empty command="rouse approvals decide --help">
            No rule yet. “Always approve” saves one, and so does <code>--always</code>:
          </Empty>
        ) : (
          <Table
            label="Rules"
            rows={rows}
            rowId={({ id }) => id}
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
        )
      }
    </Loaded>
  );
}
