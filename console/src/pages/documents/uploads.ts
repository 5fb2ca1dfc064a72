import { signal } from "@preact/signals";
import type { DocumentRecord } from "../../../../src/knowledge/types.ts";
import { awaySince, signedOut } from "../../api.ts";

/** A file on its way, or what became of it. */
export interface Upload {
  id: number;
  filename: string;
  bytes: number;
  /** The part that has been sent, from 0 to 1. */
  sent: number;
  state: "waiting" | "sending" | "done" | "duplicate" | "failed";
  /** The reason of a failure. */
  message?: string;
  documentId?: string;
  /** Sends it again, or stops it. */
  again(): void;
  stop(): void;
}

/** The fields that are sent with every file of an upload. */
export interface UploadFields {
  tenant: string;
  /** The agent that may search it; empty for every agent. */
  agent: string;
}

/** Files that were dropped or chosen since the page was opened, newest first. They go on while other pages are shown. */
export const uploads = signal<readonly Upload[]>([]);
/** Counts what was done to documents here: the list is asked for again then. */
export const changes = signal(0);

/** The number of files that are sent at the same time. All other files wait. */
const AT_ONCE = 2;
let last = 0;

const change = (id: number, changes: Partial<Upload>): void => {
  uploads.value = uploads.value.map((one) => (one.id === id ? { ...one, ...changes } : one));
};

/** Takes an upload that has ended off the list. */
export const dismiss = (id: number): void => {
  uploads.value = uploads.value.filter((one) => one.id !== id);
};

interface Answer {
  document?: DocumentRecord;
  duplicate?: boolean;
  error?: { message?: string };
}

function readAnswer(text: string): Answer {
  try {
    return JSON.parse(text) as Answer;
  } catch {
    return {};
  }
}

function settle(id: number, request: XMLHttpRequest): void {
  const { document, duplicate, error } = readAnswer(request.responseText);
  if (request.status === 401) {
    signedOut.value = true;
    return change(id, {
      state: "failed",
      message: "Your session has ended. Sign in, then send the file again.",
    });
  }
  if (request.status >= 400 || !document) {
    const message = error?.message ?? `The gateway answered with status ${request.status}.`;
    return change(id, { state: "failed", message });
  }
  change(id, { state: duplicate ? "duplicate" : "done", sent: 1, documentId: document.id });
  changes.value += 1;
}

/** Sends a file as the body of one request. `XMLHttpRequest`, because `fetch` does not tell how much has gone. */
function send(id: number, file: File, { tenant, agent }: UploadFields): void {
  const request = new XMLHttpRequest();
  const fields = new URLSearchParams({
    filename: file.name,
    tenant,
    ...(agent === "" ? {} : { agent }),
  });
  request.open("POST", `/admin/v1/knowledge/documents?${fields.toString()}`);
  request.setRequestHeader("x-rouse-console", "1");
  request.setRequestHeader("content-type", "application/octet-stream");
  request.upload.addEventListener("progress", ({ loaded, total }) =>
    change(id, { sent: total > 0 ? loaded / total : 0 }),
  );
  request.addEventListener("load", () => settle(id, request));
  request.addEventListener("error", () => {
    awaySince.value ??= new Date();
    change(id, {
      state: "failed",
      message: "The gateway did not answer. Send the file again when it does.",
    });
  });
  request.addEventListener("abort", () =>
    change(id, { state: "failed", message: "You stopped it." }),
  );
  request.addEventListener("loadend", startNext);
  change(id, { state: "sending", sent: 0, stop: () => request.abort() });
  request.send(file);
}

const queue: { id: number; start(): void }[] = [];

function startNext(): void {
  const sending = uploads.value.filter(({ state }) => state === "sending").length;
  for (const next of queue.splice(0, Math.max(0, AT_ONCE - sending))) next.start();
}

/** Sends files, two at a time. */
export function upload(files: Iterable<File>, fields: UploadFields): void {
  for (const file of files) {
    const id = ++last;
    const enqueue = (): void => {
      change(id, { state: "waiting", sent: 0 });
      queue.push({ id, start: () => send(id, file, fields) });
      startNext();
    };
    const stop = (): void => {
      const at = queue.findIndex((one) => one.id === id);
      if (at !== -1) queue.splice(at, 1);
      change(id, { state: "failed", message: "You stopped it." });
    };
    uploads.value = [
      {
        id,
        filename: file.name,
        bytes: file.size,
        sent: 0,
        state: "waiting",
        again: enqueue,
        stop,
      },
      ...uploads.value,
    ];
    enqueue();
  }
}
