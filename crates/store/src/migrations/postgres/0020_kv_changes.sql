-- The entries of kv that were written lately, each with the transaction that wrote it last: hosts ask for those of
-- transactions that they cannot have seen. Nothing is lost with a row that is older than a host may be without news.
CREATE TABLE kv_changes (
    plugin  TEXT COLLATE "C" NOT NULL,
    scope   TEXT COLLATE "C" NOT NULL,
    key     TEXT COLLATE "C" NOT NULL,
    changed BIGINT NOT NULL,
    at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (plugin, scope, key)
);
CREATE INDEX kv_changes_by_transaction ON kv_changes (changed);

CREATE FUNCTION kv_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    one RECORD;
BEGIN
    IF TG_OP = 'INSERT' THEN one := NEW; ELSE one := OLD; END IF;
    INSERT INTO kv_changes VALUES (one.plugin, one.scope, one.key, txid_current(), now())
        ON CONFLICT (plugin, scope, key) DO UPDATE SET changed = excluded.changed, at = excluded.at;
    IF TG_OP = 'UPDATE' AND NEW.plugin <> OLD.plugin THEN
        INSERT INTO kv_changes VALUES (NEW.plugin, NEW.scope, NEW.key, txid_current(), now())
            ON CONFLICT (plugin, scope, key) DO UPDATE SET changed = excluded.changed, at = excluded.at;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER kv_note_change AFTER INSERT OR UPDATE OR DELETE ON kv
    FOR EACH ROW EXECUTE FUNCTION kv_note_change();
