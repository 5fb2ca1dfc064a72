/** Why a run is parked. */
export type Parked = ParkedByLimit | ParkedByBreaker;

/** The limit that has no room, whose it is (`hooks`, `mapping:<id>`, `preset:<name>`), and until when if that is known (milliseconds since the epoch). */
export interface ParkedByLimit {
  /** `limit` if it is absent. */
  reason?: "limit";
  scope: string;
  limit: "runsPerHour" | "concurrent" | "tokensPerDay" | "budget.perDay";
  until?: number;
}

/** The provider and model whose breaker is open (`openai/gpt-5`), and when it is tested next. */
export interface ParkedByBreaker {
  reason: "provider";
  of: string;
  until: number;
}
