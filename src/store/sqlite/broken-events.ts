import { BROKEN } from "../event-record.ts";
import { safeError } from "../../core/errors.ts";
import { STORE_UNAVAILABLE, type EventOutcome } from "../types.ts";
import type { Statements } from "./statements.ts";

const isUnavailable = (error: unknown): boolean => safeError(error).code === STORE_UNAVAILABLE.code;

/** Whether it is what an event holds, and not the store, that kept its work from being queued. */
export const isEventsFault = (error: unknown): boolean => !isUnavailable(error);

function parseHead(text: string): object {
  try {
    return JSON.parse(text) as object;
  } catch {
    return { request: { method: "POST", headers: {}, query: {} } };
  }
}

/**
 * Gives an event whose work cannot be queued the outcome `failed` and the reason, in place of what could not be read of it.
 * Its duplicate keys are free again: another delivery is no repeat of something that has been done.
 */
function setAside(sql: Statements, id: string, error: unknown): void {
  const head = parseHead(
    sql.get<{ head: string }>("SELECT head FROM events WHERE id = ?", id)?.head ?? "",
  );
  const { code, name } = safeError(error);
  const reason = `${BROKEN} its work could not be queued (${code ?? name}); \`rouse events replay ${id}\` takes it in again, \`rouse events set ${id} --discard <reason>\` leaves it`;
  sql.run(
    "UPDATE events SET outcome = 'failed', actions = NULL, head = ? WHERE id = ?",
    JSON.stringify({ ...head, reason }),
    id,
  );
  sql.run(
    "DELETE FROM dedupe WHERE json_valid(record) AND json_extract(record, '$.eventId') = ?",
    id,
  );
}

/** Queues the work of one event, or sets the event aside. Returns its outcome. @throws if the store is unavailable. */
export function queueOrSetAside(
  sql: Statements,
  { id, outcome }: { id: string; outcome: EventOutcome },
  queue: () => void,
  broken: (error: unknown) => void,
): EventOutcome {
  sql.run("SAVEPOINT event");
  try {
    queue();
    sql.run("RELEASE event");
    return outcome;
  } catch (error) {
    if (!isEventsFault(error)) throw error;
    sql.run("ROLLBACK TO event");
    sql.run("RELEASE event");
    setAside(sql, id, error);
    broken(error);
    return "failed";
  }
}
