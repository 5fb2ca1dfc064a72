import { RouseError } from "../core/errors.ts";

/**
 * A caller's access to the documents of its tenant. A document is marked with the agents that may search it, or with
 * names that stand for several agents; a document without marks is for every agent of the tenant.
 */
export interface Access {
  /** The caller sees documents with one of these marks, and documents without marks. */
  sees: readonly string[];
  /** The caller may change documents all of whose marks are among these. What other agents use too is not its to change. */
  owns: readonly string[];
}

/** Tells whether a caller may know of a document. Without `access` it may know of all documents of the tenant. */
export const isVisible = (marks: readonly string[], access: Access | undefined): boolean =>
  access === undefined || marks.length === 0 || marks.some((mark) => access.sees.includes(mark));

/** Tells whether a caller may change a document. */
export const isOwned = (marks: readonly string[], access: Access | undefined): boolean =>
  access === undefined || (marks.length > 0 && marks.every((mark) => access.owns.includes(mark)));

/** The error if a caller sees a document and may not change it. */
export const shared = (): RouseError =>
  new RouseError({
    code: "document_shared",
    message:
      "agents that this key may not use search this document too; use a key that may use all of them",
  });

/**
 * Checks that a caller may change a document.
 * @returns false if the caller may not know of it: for that caller there is no such document.
 * @throws RouseError `document_shared` if the caller sees it and may not change it.
 */
export function mayChange(marks: readonly string[], access: Access | undefined): boolean {
  if (!isVisible(marks, access)) return false;
  if (!isOwned(marks, access)) throw shared();
  return true;
}

/**
 * Checks the external id of an upload against the documents of the tenant that have it already.
 * @throws RouseError `external_id_taken` if one of them is not the caller's to change. It says nothing else of that document.
 */
export function checkExternalId(
  named: readonly (readonly string[])[],
  access: Access | undefined,
): void {
  if (named.every((marks) => isOwned(marks, access))) return;
  throw new RouseError({
    code: "external_id_taken",
    message: "a document that this key may not change has this external_id; choose another one",
  });
}
