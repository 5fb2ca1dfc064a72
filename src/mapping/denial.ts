/** What Node's permission model denied, in words that say what to change. */
const GRANTS: Record<string, [what: string, field: string]> = {
  FileSystemRead: ["read", "read"],
  FileSystemWrite: ["write", "write"],
  ChildProcess: ["start a child process", "childProcess"],
  WorkerThreads: ["start a worker", "worker"],
  Addon: ["load a native addon", "addons"],
};

/** Explains an error of the permission model, with the path that was denied; undefined if it is another error. */
export function explainDenial(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, permission, resource } = error as Error & { code?: unknown; permission?: unknown; resource?: unknown };
  if (code !== "ERR_ACCESS_DENIED" && code !== "ERR_DLOPEN_DISABLED") return undefined;
  const grant = GRANTS[code === "ERR_DLOPEN_DISABLED" ? "Addon" : String(permission)];
  if (!grant) return error.message;
  const [what, field] = grant;
  const path = typeof resource === "string" && resource !== "" && field !== "childProcess" ? ` ${resource}` : "";
  return `transforms may not ${what}${path}: hooks.transformPermissions.${field} grants it`;
}
