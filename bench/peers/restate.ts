/** A service of Restate whose handler does nothing. Argument: the folder that has the SDK. */
import { createServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

interface Sdk {
  service(definition: { name: string; handlers: Record<string, () => Promise<void>> }): unknown;
  createEndpointHandler(options: {
    services: unknown[];
    logger(): void;
  }): (request: Http2ServerRequest, response: Http2ServerResponse) => void;
}

const [dir = ""] = process.argv.slice(2);
const { service, createEndpointHandler } = createRequire(join(dir, "package.json"))(
  "@restatedev/restate-sdk",
) as Sdk;
const hooks = service({ name: "Hooks", handlers: { agent: async () => undefined } });
const server = createServer(createEndpointHandler({ services: [hooks], logger: () => undefined }));
server.listen(0, "127.0.0.1", () =>
  console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`),
);
