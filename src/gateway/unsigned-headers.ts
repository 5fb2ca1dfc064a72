import type { Issue } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";

/** A signature of the body alone leaves the headers to whoever sends the same body again. */
export function unsignedHeaders(mappings: Snapshot["mappings"], verifiers: Snapshot["verifiers"]): Issue[] {
  return mappings.mappings.flatMap(({ at, paths, headers }) => {
    const signing = paths.flatMap((path) => verifiers.get(path) ?? []).filter((verifier) => !verifier.coversNothing);
    const open = headers.filter((name) => name !== "content-type" && signing.some((verifier) => !verifier.coveredHeaders.includes(name)));
    return open.map((name) => ({
      path: at,
      message: `reads the header "${name}", which the signature of its path does not cover: decide by a field of the body`,
    }));
  });
}
