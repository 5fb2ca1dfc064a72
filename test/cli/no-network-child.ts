import dgram from "node:dgram";
import dns from "node:dns";
import { writeSync } from "node:fs";
import net from "node:net";

/** Loaded before a program: ends it with this code when it opens a socket, listens, or asks for a name. */
const NETWORK_USED = 99;

function refuse(this: unknown): never {
  writeSync(2, `${new Error("the network was used").stack}\n`);
  process.exit(NETWORK_USED);
}

net.Socket.prototype.connect = refuse;
net.Server.prototype.listen = refuse;
dgram.Socket.prototype.bind = refuse;
dgram.Socket.prototype.send = refuse;
dns.lookup = refuse as unknown as typeof dns.lookup;
dns.promises.lookup = refuse;
