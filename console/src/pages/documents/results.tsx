import { useEffect, useState } from "preact/hooks";
import type { Passage } from "../../../../src/knowledge/types.ts";
import { AskError, ask } from "../../api.ts";
import { quote } from "../../shell-line.ts";
import { Empty, Failed, Skeleton } from "../../ui/states.tsx";
import { visibleText } from "../../ui/format.ts";
import { Table } from "../../ui/table.tsx";

export interface SearchFields {
  tenant: string;
  text: string;
  agent: string;
}

const MOST = 30;

/** Asks for passages as an agent would be given them. */
function useSearch({ tenant, text, agent }: SearchFields) {
  const [state, setState] = useState<{ passages?: Passage[]; error?: AskError }>({});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    ask<{ passages: Passage[] }>("/knowledge/search", {
      method: "POST",
      body: { tenant, text, limit: MOST, ...(agent === "" ? {} : { agent }) },
      signal: abort.signal,
    })
      .then(({ passages }) => setState({ passages }))
      .catch((error: unknown) => {
        if (!abort.signal.aborted)
          setState({
            error: error instanceof AskError ? error : new AskError("unknown", String(error)),
          });
      });
    return () => abort.abort();
  }, [tenant, text, agent, turn]);
  return { ...state, retry: () => setTurn(turn + 1) };
}

/** The score of a passage, as a number and as a bar relative to the best one. */
function Score({ score, best }: { score: number; best: number }) {
  return (
    <span class="documents-score">
      <meter min={0} max={best > 0 ? best : 1} value={Math.max(0, score)} aria-hidden="true" />
      {score.toPrecision(3)}
    </span>
  );
}

/** The passages that a question finds, best first. */
export function Results(
  props: SearchFields & { selected: string; onSelect(chunkId: string): void },
) {
  const { tenant, text, agent } = props;
  const { passages, error, retry } = useSearch(props);
  const flags = Object.entries({ tenant: tenant === "default" ? "" : tenant, agent }).map(
    ([name, value]) => (value === "" ? "" : ` --${name} ${quote(value)}`),
  );
  if (error) return <Failed error={error} retry={retry} />;
  if (!passages) return <Skeleton />;
  if (passages.length === 0)
    return (
      <Empty command={`rouse knowledge --search ${quote(text)}${flags.join("")}`}>
        No passage has one of these words. Try other words, or check that the document is ready and
        that this agent may search it.
      </Empty>
    );
  const best = passages[0]?.score ?? 1;
  return (
    <Table
      label="Passages"
      rows={passages}
      rowId={({ chunkId }) => chunkId}
      selected={props.selected}
      onSelect={props.onSelect}
      columns={[
        { head: "Score", cell: ({ score }) => <Score score={score} best={best} />, numeric: true },
        {
          head: "Passage",
          cell: ({ text }) => visibleText(text.replaceAll(/\s+/g, " ").slice(0, 300)),
          grow: true,
        },
        {
          head: "Document",
          cell: ({ filename, title }) => visibleText(title ?? filename),
          minor: true,
        },
        { head: "Page", cell: ({ page }) => page ?? "–", numeric: true, minor: true },
      ]}
    />
  );
}
