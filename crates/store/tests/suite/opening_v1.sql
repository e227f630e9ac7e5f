-- Two nodes as the first schema has them, for both databases. Written down once: their hashes are not made anew.

INSERT INTO resources (kind, id, name, version, head, state, document, labels, fields, keys, deleted, created_at, updated_at, state_changed_at) VALUES
    ('node', '01890000-0000-7000-8000-000000000001', 'node-1', 3, 'd2c3ab4dda36cefd112f9886096f3da86ac3608083452821385d7619ae8de545', 'state-2', '{"attempts":0}', '{"rack":"r1"}', '{"workflow":"w1"}', '["mac:000000000001"]', 0, '2026-09-21T14:13:20.000000Z', '2026-09-21T14:13:20.000000Z', '2026-09-21T14:13:20.000000Z'),
    ('node', '01890000-0000-7000-8000-000000000002', 'node-2', 3, '6fa2af241fbc9317a695451720f9a2ccf7249732eec8d8d742ac3b6bc68106d3', 'state-2', '{"attempts":0}', '{"rack":"r2"}', '{"workflow":"w0"}', '["mac:000000000002"]', 0, '2026-09-21T14:13:20.000000Z', '2026-09-21T14:13:20.000000Z', '2026-09-21T14:13:20.000000Z');

INSERT INTO terms (kind, term, value, resource_id) VALUES
    ('node', 'field/workflow', 'w1', '01890000-0000-7000-8000-000000000001'),
    ('node', 'label/rack', 'r1', '01890000-0000-7000-8000-000000000001'),
    ('node', 'field/workflow', 'w0', '01890000-0000-7000-8000-000000000002'),
    ('node', 'label/rack', 'r2', '01890000-0000-7000-8000-000000000002');

INSERT INTO resource_keys (kind, key, resource_id) VALUES
    ('node', 'mac:000000000001', '01890000-0000-7000-8000-000000000001'),
    ('node', 'mac:000000000002', '01890000-0000-7000-8000-000000000002');

INSERT INTO history (kind, resource_id, sequence, type, from_state, to_state, triggered_by, user_id, comment, metadata, request_id, created_at, hash) VALUES
    ('node', '01890000-0000-7000-8000-000000000001', 1, 'registered', NULL, 'discovered', 'admin', 'ada', NULL, NULL, 'r-1', '2026-09-21T14:13:20.000000Z', '73e995873b548499307db8063b1f6e0c0de518dcd03ecca4fe29823ad812cead'),
    ('node', '01890000-0000-7000-8000-000000000002', 1, 'registered', NULL, 'discovered', 'admin', 'ada', NULL, NULL, 'r-1', '2026-09-21T14:13:20.000000Z', 'a66929cca8a79b7b80f87ffe1c0adeabf7afa47fd4c10533c2afd9c370ada346'),
    ('node', '01890000-0000-7000-8000-000000000001', 2, 'transition', 'discovered', 'state-1', 'admin', 'ada', NULL, NULL, 'r-1', '2026-09-21T14:13:20.000000Z', '5922b809c7c90f2f86db50de8ef93cae9befe7dfc516807df7730b99b5739007'),
    ('node', '01890000-0000-7000-8000-000000000002', 2, 'transition', 'discovered', 'state-1', 'admin', 'ada', NULL, NULL, 'r-1', '2026-09-21T14:13:20.000000Z', '2cb6ec0d7c96f536350040932ff85f9ab38e9ee2c416df84842f8f4cb8999fea'),
    ('node', '01890000-0000-7000-8000-000000000001', 3, 'transition', 'state-1', 'state-2', 'admin', 'ada', NULL, NULL, 'r-1', '2026-09-21T14:13:20.000000Z', 'd2c3ab4dda36cefd112f9886096f3da86ac3608083452821385d7619ae8de545'),
    ('node', '01890000-0000-7000-8000-000000000002', 3, 'transition', 'state-1', 'state-2', 'admin', 'ada', NULL, NULL, 'r-1', '2026-09-21T14:13:20.000000Z', '6fa2af241fbc9317a695451720f9a2ccf7249732eec8d8d742ac3b6bc68106d3');
