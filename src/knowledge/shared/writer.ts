import type { SqlDatabase } from "../../store/sql.ts";
import type { IndexJob, NewVector, WriterCalls } from "../db/protocol.ts";
import { INDEX_FORM } from "../tokenize.ts";
import { mayChange } from "../access.ts";
import { agentIds, toDocumentRecord } from "../db/rows.ts";
import { Uploads } from "./adding.ts";
import {
  DOCUMENT_COLUMNS,
  dropChunks,
  dropDocuments,
  lockDocument,
  lockTenant,
  type SharedRow,
} from "./documents.ts";
import { Files } from "./files.ts";
import { indexPart, lockIndexing } from "./indexer.ts";
import type { NearestInDatabase } from "./pgvector.ts";

/** The time after which the lease of a gateway expires, if it is not renewed. */
const LEASE = "interval '15 seconds'";

type Async<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};
export type SharedWriter = Async<WriterCalls> & {
  /** Lets others take up what this one was at. */
  release(): Promise<void>;
};

const TAKE = `
  WITH next AS (
    SELECT seq FROM knowledge_documents
    WHERE status IN ('queued', 'extracting', 'indexing') AND (status = 'queued' OR lease IS NULL OR lease < now())
    ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED)
  UPDATE knowledge_documents d SET status = 'extracting', building = greatest(generation, building) + 1, holder = $2, lease = now() + ${LEASE}
  FROM next WHERE d.seq = next.seq RETURNING d.seq, id, sha256, filename, title, building AS generation`;

/** In the order of their numbers they reach the disk: who reads on from the last one it saw misses none. */
const LOCK_TENANT = "SELECT pg_advisory_xact_lock(hashtextextended($1, 7423))";

async function putVectors(
  db: SqlDatabase,
  model: string,
  vectors: readonly NewVector[],
  nearest: NearestInDatabase | undefined,
): Promise<void> {
  await db.transaction(async (sql) => {
    // The chunk may be gone by now; one that is there stays until this commits.
    const there = await sql.query<{ seq: number }>(
      "SELECT seq FROM knowledge_chunks WHERE seq = ANY($1::bigint[]) ORDER BY seq FOR KEY SHARE",
      [vectors.map(({ seq }) => seq)],
    );
    const known = new Set(there.map(({ seq }) => seq));
    const kept = vectors.filter(({ seq }) => known.has(seq));
    await sql.query(LOCK_TENANT, [`rouse ${db.schema}`]);
    const seqs = kept.map(({ seq }) => seq);
    await sql.query("DELETE FROM knowledge_vectors WHERE seq = ANY($1::bigint[])", [seqs]);
    await sql.query("DELETE FROM knowledge_claims WHERE seq = ANY($1::bigint[])", [
      vectors.map(({ seq }) => seq),
    ]);
    await sql.query(
      `INSERT INTO knowledge_vectors (seq, model, dimension, vector)
        SELECT seq, $1, dimension, vector FROM unnest($2::bigint[], $3::int[], $4::bytea[]) AS g (seq, dimension, vector)`,
      [
        model,
        seqs,
        kept.map(({ vector }) => vector?.length ?? 0),
        kept.map(
          ({ vector }) =>
            vector && Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
        ),
      ],
    );
    await nearest?.put(sql, model, kept);
  });
}

async function failJob(
  db: SqlDatabase,
  ...[job, error]: Parameters<WriterCalls["fail"]>
): Promise<void> {
  await db.transaction(async (sql) => {
    const row = await lockIndexing(sql, job);
    if (!row) return;
    await dropChunks(sql, [row.seq], row.generation);
    // What was found before stays found, with a word about why it is not newer.
    await sql.query(
      "UPDATE knowledge_documents SET status = $2, error = $3, replaces = NULL, holder = NULL, lease = NULL WHERE seq = $1",
      [row.seq, row.generation > 0 ? "ready" : "failed", JSON.stringify(error)],
    );
  });
}

/** What the thread of a gateway that writes does, where many gateways share the documents. `holder` names this one. */
export function createSharedWriter(
  db: SqlDatabase,
  holder: string,
  nearest: NearestInDatabase | undefined,
): SharedWriter {
  const files = new Files(db);
  const uploads = new Uploads(db, files);

  return {
    add: (upload, now) => uploads.add(upload, now),
    async take(limit) {
      const rows = await db.query<IndexJob & { seq: number }>(TAKE, [limit, holder]);
      return rows.toSorted((a, b) => a.seq - b.seq).map(({ seq: _seq, ...job }) => job);
    },
    indexPart: (part) => indexPart(db, files, part),
    fail: (job, error) => failJob(db, job, error),
    async putBack({ id, generation }) {
      await db.query(
        `UPDATE knowledge_documents SET holder = NULL, lease = NULL, status = 'queued'
          WHERE id = $1 AND building = $2 AND status IN ('extracting', 'indexing')`,
        [id, generation],
      );
    },
    remove: (tenant, id, access) =>
      db.transaction(async (sql) => {
        await lockTenant(sql, db.schema, tenant);
        const row = await lockDocument(sql, id);
        if (row?.tenant !== tenant || !mayChange(agentIds(row.agents), access)) return false;
        await dropDocuments(sql, files, [row]);
        return true;
      }),
    reindex: (tenant, id, access) =>
      db.transaction(async (sql) => {
        const found = await lockDocument(sql, id);
        if (found?.tenant !== tenant || !mayChange(agentIds(found.agents), access))
          return undefined;
        const [row] = await sql.query<SharedRow>(
          `UPDATE knowledge_documents SET status = 'queued', error = NULL, holder = NULL, lease = NULL WHERE id = $1 RETURNING ${DOCUMENT_COLUMNS}`,
          [id],
        );
        return row && toDocumentRecord(row);
      }),
    async recover() {
      // The work of another gateway goes to the next gateway that takes work, after the lease has expired.
      await files.sweep();
      const old = await db.query(
        `UPDATE knowledge_documents SET status = 'queued', holder = NULL, lease = NULL
          WHERE status = 'ready' AND error IS NULL AND form < ${INDEX_FORM} RETURNING seq`,
      );
      return old.length;
    },
    putVectors: (model, vectors) => putVectors(db, model, vectors, nearest),
    fetch: async (sha256, to) => void (await files.fetch(sha256, to)),
    async renewLeases(ids) {
      const rows = await db.query<{ id: string }>(
        `UPDATE knowledge_documents SET lease = now() + ${LEASE}
          WHERE id = ANY($1::text[]) AND holder = $2 AND status IN ('extracting', 'indexing') RETURNING id`,
        [ids, holder],
      );
      return rows.map(({ id }) => id);
    },
    async release() {
      await db.query(
        "UPDATE knowledge_documents SET status = 'queued', holder = NULL, lease = NULL WHERE holder = $1 AND status IN ('extracting', 'indexing')",
        [holder],
      );
    },
  };
}
