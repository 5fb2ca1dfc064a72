/** What a transform child gives away before it runs a module: what Node's permission model leaves open. */
import { closeSync, fstatSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import v8 from "node:v8";

/** Descriptors above those that Node closes in its children by itself. */
const MAX_DESCRIPTOR = 1024;
/** The input and outputs lead nowhere. */
const FIRST_DESCRIPTOR = 3;

/** Signals and priorities reach the gateway and all else that runs as the same user; V8's flags can switch guards off. */
const TAKEN: readonly [owner: object, names: readonly string[]][] = [
  [process, ["kill", "_kill", "_debugProcess", "_debugEnd", "_linkedBinding"]],
  [os, ["setPriority"]],
  [v8, ["setFlagsFromString"]],
];

/** Files that were open in whatever started the gateway, and came down from there. Node itself keeps no file open. */
function closeInheritedFiles(): void {
  for (let descriptor = FIRST_DESCRIPTOR; descriptor < MAX_DESCRIPTOR; descriptor++) {
    try {
      const found = fstatSync(descriptor);
      if (found.isFile() || found.isDirectory() || found.isBlockDevice()) closeSync(descriptor);
    } catch {
      // There is no such descriptor.
    }
  }
}

function deny(what: string): never {
  throw Object.assign(new Error(`${what} is not available to transforms`), { code: "ERR_ACCESS_DENIED" });
}

/** Takes them away for good, from `import` and `require` alike. They stay as names: packages import what they may never call. */
export function lockDown(): void {
  closeInheritedFiles();
  for (const [owner, names] of TAKEN)
    for (const name of names) Reflect.defineProperty(owner, name, { value: () => deny(name), enumerable: true });
  syncBuiltinESMExports();
}
