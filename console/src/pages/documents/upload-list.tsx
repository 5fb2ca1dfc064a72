import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { Button, Status } from "../../ui/basic.tsx";
import { bytes, visibleText } from "../../ui/format.ts";
import { href } from "../../router.ts";
import { dismiss, upload, uploads, type Upload, type UploadFields } from "./uploads.ts";

const WORDS: Record<
  Upload["state"],
  readonly [word: string, tone: "good" | "warn" | "bad" | "quiet"]
> = {
  waiting: ["waiting", "quiet"],
  sending: ["sending", "warn"],
  done: ["received", "good"],
  duplicate: ["is there already", "quiet"],
  failed: ["not sent", "bad"],
};

function UploadRow({ one }: { one: Upload }) {
  const [word, tone] = WORDS[one.state];
  const under = one.state === "waiting" || one.state === "sending";
  return (
    <li>
      <span class="documents-upload-name">
        {one.documentId ? (
          <a href={href("documents", one.documentId)}>{visibleText(one.filename)}</a>
        ) : (
          visibleText(one.filename)
        )}{" "}
        <span class="quiet">{bytes(one.bytes)}</span>
      </span>
      <Status word={word} tone={tone} />
      {under ? (
        <progress max={1} value={one.sent} aria-label={`Upload of ${visibleText(one.filename)}`}>
          {Math.round(one.sent * 100)} %
        </progress>
      ) : null}
      {one.message ? <span class="documents-upload-why">{one.message}</span> : null}
      <span class="actions">
        {under ? <Button onClick={one.stop}>Stop</Button> : null}
        {one.state === "failed" ? <Button onClick={one.again}>Send again</Button> : null}
        {under ? null : (
          <button
            type="button"
            class="icon"
            aria-label={`Take ${visibleText(one.filename)} off this list`}
            onClick={() => dismiss(one.id)}
          >
            ×
          </button>
        )}
      </span>
    </li>
  );
}

/** Files on their way and those that arrived. Said aloud as it changes, but not at each step of a bar. */
export function UploadList() {
  if (uploads.value.length === 0) return null;
  return (
    <ul class="documents-uploads" aria-label="Uploads">
      {uploads.value.map((one) => (
        <UploadRow key={one.id} one={one} />
      ))}
    </ul>
  );
}

/** The button that chooses files. */
export function UploadButton({ fields }: { fields: UploadFields }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        class="unseen"
        type="file"
        multiple
        tabIndex={-1}
        aria-label="Files to upload"
        onChange={(event) => {
          upload(event.currentTarget.files ?? [], fields);
          event.currentTarget.value = "";
        }}
      />
      <Button kind="primary" onClick={() => input.current?.click()}>
        Upload files
      </Button>
    </>
  );
}

/** Takes files that are dropped anywhere on what it holds. */
export function DropZone({
  fields,
  children,
}: {
  fields: UploadFields;
  children: ComponentChildren;
}) {
  const [over, setOver] = useState(false);
  const hasFiles = (event: DragEvent): boolean =>
    event.dataTransfer?.types.includes("Files") ?? false;
  return (
    <div
      class={`documents-drop ${over ? "over" : ""}`}
      onDragOver={(event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      }}
      onDrop={(event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(false);
        upload(event.dataTransfer?.files ?? [], fields);
      }}
    >
      {children}
      {over ? (
        <div class="documents-drop-sign" aria-hidden="true">
          Drop the files to index them
        </div>
      ) : null}
    </div>
  );
}
