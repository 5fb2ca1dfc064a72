/** The fields that identify a session in answers of the admin API. */
export interface SessionPlace {
  agentId: string;
  origin: string;
  key: string;
  path: string | null;
  credential: string | null;
}

/** The id of a session in the address: `<agent>/<origin>/<key>`, or `<agent>/hook@<path>|<credential>/<key>`. */
export function sessionName({ agentId, origin, key, path, credential }: SessionPlace): string {
  const place =
    path === null ? origin : `${origin}@${path}|${credential ?? ""}`.replaceAll("/", "%2F");
  return `${agentId}/${place}/${key}`;
}

/** The parameters by which the admin API finds the session of an address. */
export function sessionQuery(name: string): Record<string, string> {
  const [agent = "", place = "", ...key] = name.split("/");
  const [origin = "", path, credential] = place.replaceAll("%2F", "/").split(/[@|]/);
  return {
    agent,
    origin,
    key: key.join("/"),
    ...(path ? { path } : {}),
    ...(credential ? { credential } : {}),
  };
}
