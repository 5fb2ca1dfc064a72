const CREDENTIAL =
  /token|secret|signature|authorization|cookie|password|api[-_]?key|hmac|credential/i;

/** True if a header or query parameter of this name may carry a credential: such a one is never kept. */
export function isCredentialName(name: string): boolean {
  return CREDENTIAL.test(name);
}
