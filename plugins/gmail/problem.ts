/** A problem, and what to change. The message quotes no mail and no token, so that it may be shown and kept. */
export class GmailProblem extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Problem";
  }
}
