import { z } from "zod";
import { definePlugin, type Tool } from "rouse/plugin";

const findInput = z.object({ id: z.string().min(1).describe("The order's id.") });
const noteInput = z.object({
  id: z.string().min(1).describe("The order's id."),
  text: z.string().min(1).describe("The note."),
});

/** Lets agents look up orders of Acme and add notes to them. */
export default definePlugin({
  id: "acme",
  config: z.strictObject({
    token: z.string().min(1).describe("The token of the API."),
    apiUrl: z.url().default("https://api.acme.example").describe("The address of the API."),
  }),
  tools({ config, fetch }) {
    const call = async (path: string, init: RequestInit): Promise<unknown> => {
      const headers = {
        ...init.headers,
        authorization: `Bearer ${config.token}`,
        "content-type": "application/json",
      };
      const response = await fetch(`${config.apiUrl}${path}`, { ...init, headers });
      // The model reads the message of an error: it says what went wrong and holds no credential.
      if (!response.ok) throw new Error(`acme answered ${response.status}`);
      return response.json();
    };
    const find: Tool<typeof findInput> = {
      name: "find_order",
      description: "Finds an order by its id.",
      input: findInput,
      readOnly: true,
      execute: ({ id }, { signal }) => call(`/orders/${encodeURIComponent(id)}`, { signal }),
    };
    const note: Tool<typeof noteInput> = {
      name: "add_note",
      description: "Adds a note to an order.",
      input: noteInput,
      idempotent: true,
      execute: ({ id, text }, { callId, signal }) =>
        call(`/orders/${encodeURIComponent(id)}/notes`, {
          method: "POST",
          headers: { "idempotency-key": callId },
          body: JSON.stringify({ text }),
          signal,
        }),
    };
    return [find, note];
  },
});
