import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useResource } from "./resource.ts";

/** The rights of the console (`gateway.console`) in the gateway's last answer. */
const mode = signal<"off" | "read" | "edit">("edit");

/** The reason why this console may not write files; undefined if it may. */
export function useReadOnly(): string | undefined {
  const { data } = useResource<{ console: "off" | "read" | "edit" }>("/mappings");
  useEffect(() => {
    if (data) mode.value = data.console;
  }, [data]);
  return toReadOnly(data?.console ?? mode.value);
}

export const READ_ONLY = "This console may write no file (gateway.console): use the command line.";

/** The same of a mode that is known. */
export const toReadOnly = (known: "off" | "read" | "edit"): string | undefined =>
  known === "edit" ? undefined : READ_ONLY;
