-- A satellite whose new credential is used for the first time loses the one before, which its document then no longer
-- has: that is noted as well. Only a satellite in between has such a document, so the deny set stays small.
DROP TRIGGER resources_denied ON resources;

CREATE TRIGGER resources_denied AFTER UPDATE ON resources FOR EACH ROW
    WHEN (NEW.kind = 'satellite' AND (NEW.deleted = 1 OR NEW.state IN ('revoked', 'pending')
        OR position('"previous_hash":"' IN OLD.document) > 0))
    EXECUTE FUNCTION note_denied();
