import type { EventDetail, EventView } from "../../../../src/operate/records/views.ts";
import type { MappingText, PlacedMapping } from "../../../../src/operate/edits/mapping-view.ts";

export type { TextEvaluation } from "../../../../src/operate/edits/text-evaluation.ts";
export type { LandingCheck } from "../../../../src/operate/edits/landing.ts";
export type { Landed } from "../../../../src/operate/edits/landing-write.ts";
export type { MappingText, PlacedMapping, EventDetail, EventView };

/** The answer of `/mappings`. */
export interface Mappings {
  mappings: PlacedMapping[];
  enabled: boolean;
  base: string;
  paths: {
    path: string;
    methods: string[];
    auth: string;
    allowIps: string[] | null;
    maxBodyBytes: number;
  }[];
  console: "off" | "read" | "edit";
}

/** A change of mappings, as the admin API takes it. */
export type Change =
  | { kind: "replace"; mapping: string; text: string; from?: string }
  | { kind: "add"; text: string; file?: string }
  | { kind: "enable"; mapping: string };
