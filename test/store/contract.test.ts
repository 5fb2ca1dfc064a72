import { queueContract } from "../contract/queue.ts";
import { storeContract } from "../contract/store.ts";
import { sqliteHome } from "./home.ts";

storeContract("SQLite", sqliteHome);
queueContract("SQLite", sqliteHome);
