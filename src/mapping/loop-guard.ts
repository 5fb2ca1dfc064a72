import type { CompiledMapping } from "./compiled.ts";
import { readScope, type Path } from "./json-path.ts";
import type { TemplateContext } from "./template-context.ts";

function texts(paths: readonly Path[], scope: TemplateContext): string[] {
  return paths
    .flatMap((path) => [readScope(path, scope)].flat())
    .flatMap((value) => (typeof value === "string" || typeof value === "number" ? [String(value)] : []));
}

/** Why an event is an echo of what the agent itself did, or undefined where it is none. Quotes nothing of the event. */
export function findLoop({ self }: CompiledMapping, scope: TemplateContext): string | undefined {
  if (!self) return undefined;
  if (texts(self.from, scope).some((account) => self.accounts.has(account.toLowerCase())))
    return "own echo: it was caused by one of ignoreSelf.accounts";
  const { marker } = self;
  if (marker !== undefined && texts(self.text, scope).some((text) => text.includes(marker)))
    return "own echo: it carries ignoreSelf.marker";
  return undefined;
}
