/** What only the runs of API users have. */

export interface ApiRunSpec {
  /** The ids that a front end gave its chat and message, by the headers' names. */
  correlation?: Readonly<Record<string, string>>;
  /** The fields of a request for a response that the response repeats. Set if the response can be read again. */
  response?: Readonly<Record<string, unknown>>;
}

/** What the answer of a run has besides its reply. */
export interface RunAnswer {
  finish: string;
  reasoning: string;
  /** Calls that are the caller's to carry out. */
  calls: readonly { id: string; tool: string; input: unknown; inputText?: string }[];
  /** The passages of documents that the model was given. */
  citations: readonly {
    /** By which the reply names it. */
    number: number;
    documentId: string;
    chunkId: string;
    filename: string;
    title: string | null;
    page: number | null;
    /** Null for a passage that an earlier turn has found. */
    score: number | null;
    text: string;
  }[];
}

export interface ApiRunRecord {
  /** What else the answer has. Set if the response can be read again. */
  answer?: RunAnswer;
}
