//! What the databases can do without Wardroom: the same rows, and pgbench.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rusqlite::{Connection, params};

use crate::seed::{self, Written};

const UPDATE: &str = "UPDATE resources SET version = version + 1, head = ?3, state = ?4, document = ?5, updated_at = ?6, \
     state_changed_at = ?6 WHERE kind = 'node' AND id = ?1 AND version = ?2";
const INSERT: &str = "INSERT INTO history (kind, resource_id, sequence, type, from_state, to_state, triggered_by, user_id, \
     comment, metadata, request_id, created_at, hash) \
     VALUES ('node', ?1, ?2 + 1, 'transition', 'active', ?4, 'admin', 'bench', NULL, NULL, \
     '01900000-0000-7000-8000-000000000000', ?6, ?3)";

/// Transitions a second, `together` in one transaction.
pub(crate) fn transitions(folder: &Path, written: &Written, together: usize, period: Duration) -> f64 {
    let connection = Connection::open(folder.join("wardroom.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    let (mut done, mut version) = (0u64, 1i64);
    let began = Instant::now();
    while began.elapsed() < period {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for number in 0..together {
            let (id, state) = (seed::id_of(number), if version % 2 == 1 { "migrating" } else { "active" });
            let time = "2026-01-01T00:00:00.000000Z";
            let row = params![id, version, written.head, state, written.document, time];
            assert_eq!(connection.prepare_cached(UPDATE).unwrap().execute(row).unwrap(), 1);
            // The history statement has no place for the document; the rest is the same row.
            let mut insert = connection.prepare_cached(INSERT).unwrap();
            insert.execute(params![id, version, written.head, state, rusqlite::types::Null, time]).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
        done += together as u64;
        version += 1;
    }
    done as f64 / began.elapsed().as_secs_f64()
}

/// `pgbench -N`: simple updates, as many clients.
pub(crate) fn pgbench(admin: &str, clients: usize, period: Duration) -> f64 {
    let database = seed::new_database(admin);
    let clients = clients.to_string();
    let seconds = period.as_secs().to_string();
    run("pgbench", &["-i", "-q", "-s", "10", &database]);
    let told =
        run("pgbench", &["-N", "-M", "prepared", "-c", &clients, "-j", "2", "-T", &seconds, &database]);
    let line = told.lines().find_map(|line| line.strip_prefix("tps = ")).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
