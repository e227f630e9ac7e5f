-- Who is gone is found by its name too.
CREATE INDEX resources_gone ON resources (kind, name, id) WHERE deleted = 1;
