import { useEffect, useRef, useState } from "preact/hooks";
import type { Editor, EditorOptions } from "./editor/create.ts";
import { LateSkeleton } from "../../ui/states.tsx";

/** Where the editor is mounted. Its chunk is loaded when the first one is shown. */
export function EditorHost(props: EditorOptions & { onReady(editor: Editor | null): void }) {
  const host = useRef<HTMLDivElement>(null);
  const current = useRef(props);
  current.current = props;
  const [state, setState] = useState<"loading" | "ready" | "failed">("loading");
  useEffect(() => {
    let editor: Editor | null = null;
    let isGone = false;
    const open = async (): Promise<void> => {
      const { createEditor } = await import("./editor/create.ts");
      if (isGone || !host.current) return;
      const { text, readOnly, label } = current.current;
      editor = createEditor(host.current, {
        text,
        readOnly,
        label,
        onChange: (next) => current.current.onChange(next),
        onEvaluate: () => current.current.onEvaluate(),
        onSave: () => current.current.onSave(),
      });
      setState("ready");
      current.current.onReady(editor);
    };
    open().catch(() => setState("failed"));
    return () => {
      isGone = true;
      current.current.onReady(null);
      editor?.close();
    };
  }, []);
  return (
    <div class="mappings-editor">
      {state === "loading" ? <LateSkeleton /> : null}
      {state === "failed" ? (
        <p class="bad" role="alert">
          The editor could not be loaded. The gateway may have been updated: load the page again.
          Unsaved text is kept.
        </p>
      ) : null}
      <div ref={host} class="host" />
    </div>
  );
}
