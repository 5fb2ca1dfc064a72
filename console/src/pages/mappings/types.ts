import type {
  listMappings,
  MappingText,
  PlacedMapping,
} from "../../../../src/operate/edits/mapping-view.ts";
import type { MappingChange } from "../../../../src/operate/edits/planned-change.ts";
import type { EventDetail, EventView } from "../../../../src/operate/records/views.ts";
import type { Answer } from "../../api.ts";

export type { TextEvaluation } from "../../../../src/operate/edits/text-evaluation.ts";
export type { LandingCheck } from "../../../../src/operate/edits/landing.ts";
export type { Landed } from "../../../../src/operate/edits/landing-write.ts";
export type { MappingText, PlacedMapping, EventDetail, EventView };

/** The answer of `/mappings`. */
export type Mappings = Answer<typeof listMappings>;

/** A change of mappings, as the page makes it. */
export type Change = Exclude<MappingChange, { kind: "file" }>;
