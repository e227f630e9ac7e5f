-- INSERT OR REPLACE takes the row that is in its way without asking the triggers that refuse deletions. Where no position
-- is given, SQLite shows -1 here. Each insert costs one look into an index that it is about to write to.
CREATE TRIGGER history_no_replace BEFORE INSERT ON history
WHEN (NEW.position <> -1 AND NEW.position <= (SELECT max(position) FROM history))
    OR EXISTS (SELECT 1 FROM history
        WHERE kind = NEW.kind AND resource_id = NEW.resource_id AND sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;

CREATE TRIGGER checkpoints_no_replace BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
