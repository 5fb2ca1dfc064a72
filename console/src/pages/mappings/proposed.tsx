import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { MappingEdit } from "../../../../src/operate/proposals/job.ts";
import type { ProposalPlan } from "../../../../src/operate/proposals/prepare.ts";
import type { Proposal } from "../../../../src/operate/proposals/proposals.ts";
import { Button } from "../../ui/basic.tsx";
import type { Workbench } from "./use-workbench.ts";

/** A change of a live mapping that the gateway proposes, until it is accepted or dropped. */
export interface ProposedEdit extends Pick<Proposal, "problems" | "notes" | "events"> {
  edit: MappingEdit;
  /** The reasons why the mapping does not match the event. */
  reasons: NonNullable<ProposalPlan["mends"]>["reasons"];
}

/** The change that the editor of its mapping shows; null if none is proposed. */
export const proposedEdit = signal<ProposedEdit | null>(null);

/** Shows a proposed change as a diff in the editor, with its reasons. What was written before comes back when it is dropped. */
export function Proposed({ bench }: { bench: Workbench }) {
  const { id, editor, written } = bench;
  const before = useRef<string | null>(null);
  const proposed = proposedEdit.value?.edit.mapping === id ? proposedEdit.value : null;
  const isReady = editor !== null && written.base !== null;
  useEffect(() => {
    if (!proposed || !isReady) return;
    before.current = written.text;
    editor.setText(proposed.edit.after);
    editor.compareWith(proposed.edit.before);
  }, [proposed, isReady]);
  if (!proposed || !isReady) return null;
  const settle = (take: boolean): void => {
    editor.compareWith(null);
    if (!take) editor.setText(before.current ?? proposed.edit.before);
    proposedEdit.value = null;
    editor.focus();
  };
  const { reasons, problems, notes, events } = proposed;
  const earlier = events.flatMap(({ takenBefore }) => takenBefore ?? []);
  return (
    <section class="banner mappings-proposed" aria-label="Proposed change">
      <p>
        A change of this mapping is proposed, so that it takes the event.{" "}
        <Button kind="primary" onClick={() => settle(true)}>
          Accept
        </Button>{" "}
        <Button onClick={() => settle(false)}>Drop</Button>
      </p>
      <ul>
        {reasons.map(({ condition, reason }) => (
          <li key={condition}>
            <code>{condition}</code> {reason}
          </li>
        ))}
        {[...problems, ...notes].map((text) => (
          <li key={text} class="warn">
            {text}
          </li>
        ))}
        {earlier.map((mapping) => (
          <li key={mapping} class="warn">
            {mapping} takes the event before: change it so that it leaves the event, or move this
            mapping before it.
          </li>
        ))}
      </ul>
    </section>
  );
}
