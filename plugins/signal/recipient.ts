const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

type Parsed = { ok: true; to: string } | { ok: false; message: string };

/** `+15551234567`, `uuid:<ACI>`, `u:name.01` or `group:<id>`, in the one way in which each is written. */
export function parseRecipient(to: string): Parsed {
  const text = to.trim();
  const [, scheme = "", rest = ""] = /^(?:(group|uuid|u):)?(.*)$/is.exec(text) ?? [];
  switch (scheme.toLowerCase()) {
    case "group": {
      // Group ids are 16 or 32 bytes; the URL-safe letters that some tools write mean the same.
      const id = rest.replaceAll("-", "+").replaceAll("_", "/");
      return /^(?:[A-Za-z0-9+/]{22}==|[A-Za-z0-9+/]{43}=)$/.test(id)
        ? { ok: true, to: `group:${id}` }
        : { ok: false, message: "a group is `group:` and its id in base64, as `signal-cli listGroups` shows it" };
    }
    case "uuid":
      return UUID.test(rest.toLowerCase())
        ? { ok: true, to: `uuid:${rest.toLowerCase()}` }
        : { ok: false, message: "after `uuid:` must come an account id like 01234567-89ab-cdef-0123-456789abcdef" };
    case "u":
      return /^[a-z_][a-z0-9_]{2,31}\.\d{2,9}$/i.test(rest)
        ? { ok: true, to: `u:${rest.toLowerCase()}` }
        : { ok: false, message: "a username is `u:` and a name with its number, like u:name.01" };
    default: {
      if (UUID.test(text.toLowerCase())) return { ok: true, to: `uuid:${text.toLowerCase()}` };
      const digits = text.replace(/[\s().-]/g, "");
      return /^\+[1-9]\d{6,14}$/.test(digits)
        ? { ok: true, to: digits }
        : { ok: false, message: "must be +15551234567 (with the country's code), uuid:<account id>, u:name.01 or group:<id>" };
    }
  }
}

/** The account that a normalised recipient stands for, as the daemon takes it. */
export function accountOf(to: string): string {
  return to.replace(/^uuid:/, "");
}
