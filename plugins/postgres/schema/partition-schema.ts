/**
 * Functions that divide tables into partitions, and do it again each day. They run as the owner of the tables, so that
 * a gateway needs only the right to read and write. They take names only of tables and partitions that they know, look
 * for them in their own schema before temporary tables, and refuse users who may not delete from the table.
 */

/** The time that a statement waits for a lock: while it waits, every accepted hook waits behind it. */
const LOCK_TIMEOUT = "500ms";
/** Rows that outlive their partition are moved while the table is locked: not more than these. */
const MAX_MOVED = 10_000;
const FUNCTIONS = `
  -- The path of the functions: without its last entry, a temporary table of the caller would hide a table of this name.
  SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

  -- The least id of a time in milliseconds: ids begin with their time (see newId).
  CREATE FUNCTION id_at(prefix text, at bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT prefix || '_' || string_agg(substr('0123456789abcdefghijklmnopqrstuv', ((at >> (5 * n)) & 31)::int + 1, 1), '' ORDER BY n DESC)
    FROM generate_series(0, 8) AS n $$;

  -- The tables that are divided, by what kind of id, in which column.
  CREATE FUNCTION divided(OUT name text, OUT key text, OUT prefix text) RETURNS SETOF record LANGUAGE sql IMMUTABLE AS $$
    VALUES ('events', 'id', 'evt'), ('steps', 'run_id', 'run'), ('tool_calls', 'run_id', 'run') $$;

  -- The partitions of these tables with the ids that they hold: from lower (NULL: the least) to below upper. The default partition has none.
  CREATE FUNCTION partitions(OUT parent text, OUT name text, OUT lower text, OUT upper text)
    RETURNS SETOF record LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT divided.name, child.relname, bounds[1], bounds[2] FROM divided()
      JOIN pg_inherits ON inhparent = divided.name::regclass JOIN pg_class AS child ON child.oid = inhrelid
      LEFT JOIN LATERAL regexp_match(pg_get_expr(child.relpartbound, child.oid), 'FROM \\(''?([^'']*)''?\\) TO \\(''(.*)''\\)') AS bounds ON true
    ORDER BY 1, bounds[2] $$;

  -- Gives those who may use one table the same rights to another one.
  CREATE FUNCTION copy_rights(known regclass, fresh regclass) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE given record; BEGIN
    FOR given IN SELECT acl.* FROM pg_class, aclexplode(relacl) AS acl WHERE oid = known AND grantee <> relowner LOOP
      EXECUTE format('GRANT %s ON %s TO %s', given.privilege_type, fresh,
        CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(given.grantee)) END);
    END LOOP; END $$;

  -- Refuses what follows to those who may not delete from a table. A function that runs as the owner of the tables has the caller's
  -- role only in settings.
  CREATE FUNCTION check_rights(parent text) RETURNS void LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), parent::regclass, 'DELETE') THEN
      RAISE insufficient_privilege USING MESSAGE = 'only those who may delete from the table may change its partitions';
    END IF; END $$;

  -- Makes the partition of the day (UTC) of a time. Rows of that day that are in the default partition are moved to it. False: it
  -- is there, another partition has a part of that day, or there are too many rows to move.
  CREATE FUNCTION add_partition(parent text, at bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '${LOCK_TIMEOUT}' SET enable_seqscan = on AS $$
  DECLARE
    day bigint := at / 86400000;
    fresh text := parent || '_' || to_char(to_timestamp(day * 86400) AT TIME ZONE 'UTC', 'YYYYMMDD');
    spare text := parent || '_default';
    key text; first text; after text; n bigint;
  BEGIN
    SELECT d.key, id_at(d.prefix, day * 86400000), id_at(d.prefix, (day + 1) * 86400000) INTO STRICT key, first, after
      FROM divided() AS d WHERE d.name = parent;
    PERFORM check_rights(parent);
    -- One at a time; and before the default partition, as a statement over the whole table locks them.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
    PERFORM FROM partitions() AS p WHERE p.parent = add_partition.parent AND p.upper > first AND (p.lower = 'MINVALUE' OR p.lower < after);
    IF FOUND THEN RETURN false; END IF;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', spare);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %1$I WHERE %2$I >= %3$L AND %2$I < %4$L LIMIT ${MAX_MOVED} + 1) AS these', spare, key, first, after) INTO n;
    IF n > ${MAX_MOVED} THEN RETURN false; END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING STORAGE)', fresh, parent);
    EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (seq)', fresh);
    IF n > 0 THEN
      EXECUTE format('WITH moved AS (DELETE FROM %1$I WHERE %2$I >= %3$L AND %2$I < %4$L RETURNING *) INSERT INTO %5$I SELECT * FROM moved',
        spare, key, first, after, fresh);
    END IF;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, fresh, first, after);
    PERFORM copy_rights(parent::regclass, fresh::regclass);
    RETURN true;
  END $$;

  -- Drops a partition; what must be kept of it is moved to the default partition. Returns how many rows are gone; NULL: too many
  -- must be kept. Kept are events that are younger than up_to or whose runs have not ended, and what happened in runs that
  -- have not ended or are younger than up_to.
  CREATE FUNCTION drop_partition(parent text, part text, up_to bigint, present bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '${LOCK_TIMEOUT}'
    SET enable_seqscan = on SET enable_bitmapscan = on SET enable_hashjoin = on AS $$
  DECLARE bounds record; kept bigint[]; n bigint; outcomes text[]; numbers bigint[];
  BEGIN
    IF parent NOT IN (SELECT d.name FROM divided() AS d) THEN RETURN 0; END IF;
    PERFORM check_rights(parent);
    -- One at a time: whoever comes second finds it gone.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
    SELECT * INTO bounds FROM partitions() AS p WHERE p.parent = drop_partition.parent AND p.name = part AND p.upper IS NOT NULL;
    IF NOT FOUND THEN RETURN 0; END IF;
    -- From here on nobody writes to it.
    EXECUTE format('LOCK TABLE %I IN SHARE MODE', part);
    IF parent = 'events' THEN
      EXECUTE format('SELECT array_agg(outcome), array_agg(n) FROM (SELECT outcome, count(*) AS n FROM %I GROUP BY 1) AS by_outcome', part)
        INTO outcomes, numbers;
      EXECUTE format('SELECT ARRAY(SELECT seq FROM %I WHERE (at > $1 AND at <= $2 + 60000) OR id IN (
          SELECT event_id FROM runs WHERE status IN (''parked'', ''collecting'', ''queued'', ''running'') AND event_id IS NOT NULL
          UNION ALL SELECT event_id FROM runs WHERE status = ''waiting'' AND event_id IS NOT NULL) LIMIT ${MAX_MOVED} + 1)', part)
        INTO kept USING up_to, present;
    ELSE
      EXECUTE format('SELECT count(*) FROM %I', part) INTO n;
      EXECUTE format('SELECT ARRAY(SELECT seq FROM %I WHERE run_id IN (
          SELECT id FROM runs WHERE id < $2 AND ($1 = ''MINVALUE'' OR id >= $1)
            AND (ended IS NULL OR (ended > $3 AND ended <= $4 + 60000))) LIMIT ${MAX_MOVED} + 1)', part)
        INTO kept USING bounds.lower, bounds.upper, up_to, present;
    END IF;
    IF cardinality(kept) > ${MAX_MOVED} THEN RETURN NULL; END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, part);
    EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE seq = ANY($1)', parent, part) USING kept;
    IF parent = 'events' THEN
      SELECT coalesce(sum(c.n), 0) INTO n FROM unnest(numbers) AS c (n);
      INSERT INTO count_deltas (name, n) SELECT 'events.' || c.outcome, -c.n FROM unnest(outcomes, numbers) AS c (outcome, n);
      EXECUTE format('INSERT INTO count_deltas (name, n) SELECT ''events.'' || outcome, count(*) FROM %I WHERE seq = ANY($1) GROUP BY outcome', part)
        USING kept;
    END IF;
    EXECUTE format('DROP TABLE %I', part);
    RETURN n - cardinality(kept);
  END $$;
`;

/** The first partitions: one for ids that begin with no time or a far one, and those of the next days. */
const FIRST = `
  DO $$
  DECLARE one record; present bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
  BEGIN
    FOR one IN SELECT * FROM divided() LOOP
      EXECUTE format('CREATE TABLE %I PARTITION OF %I (PRIMARY KEY (seq)) DEFAULT', one.name || '_default', one.name);
      FOR days IN 0..2 LOOP PERFORM add_partition(one.name, present + days * 86400000); END LOOP;
    END LOOP;
  END $$;
`;

export const PARTITIONS = `${FUNCTIONS}${FIRST}`;
