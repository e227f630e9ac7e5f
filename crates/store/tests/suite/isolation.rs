//! Transactions of PostgreSQL, whatever they are by default.

use wardroom_store::{Error, Store, Use, Wait, verify};

use crate::database::{Database, connect};
use crate::sample::{create, created, id, moved, node, to_state};

/// A PostgreSQL whose transactions are stricter than usual unless they say otherwise.
pub(crate) async fn strict(isolation: &str) -> Database {
    let database = Database::postgres().await;
    set(&database, &format!("default_transaction_isolation = ''{isolation}''")).await;
    database
}

/// Changes what connections to the database begin with, from now on.
async fn set(database: &Database, setting: &str) {
    let set = format!("EXECUTE format('ALTER DATABASE %I SET {setting}', current_database())");
    database.execute(&format!("BEGIN READ WRITE; DO $$ BEGIN {set}; END $$; COMMIT")).await.unwrap();
}

/// A database that takes no changes says so, at the start and later; what only reads goes on, and so does the rest
/// when it takes changes again.
pub(crate) async fn a_read_only_database_is_named(database: Database) {
    let store = database.open().await;
    let (one, two) = (created(&store, 1).await, created(&store, 2).await);
    set(&database, "default_transaction_read_only = on").await;
    end_sessions(&database).await;
    let together = store.commit_together(vec![to_state(&two, "pending"), create(node(4))]).await.map(drop);
    let one_moved = store.commit(to_state(&one, "pending")).await.map(drop);
    let made = store.commit(create(node(3))).await.map(drop);
    for refused in [one_moved, made, together, Store::open(&database.location()).await.map(drop)] {
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    assert_eq!(store.get("node", &id(1)).await.unwrap().as_ref(), Some(&one));
    set(&database, "default_transaction_read_only = off").await;
    moved(&store, &one, "pending").await;
    created(&store, 3).await;
}

/// A change begins to use a resource and commits while its deletion waits: the deletion sees it.
pub(crate) async fn a_waiting_change_sees_the_one_before(database: Database) {
    let store = database.open().await;
    let used = created(&store, 1).await;
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let user = connect(&cluster.url).await;
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT 1 FROM resources WHERE id = '{}' FOR SHARE; \
         INSERT INTO terms (kind, term, value, resource_id) VALUES ('node', 'field/parent', '{}', '{}')",
        id(1),
        id(1),
        id(2)
    );
    user.batch_execute(&begin).await.unwrap();

    let mut delete = to_state(&used, "retired");
    delete.after.deleted = true;
    let (kind, field) = ("node".to_owned(), "parent".to_owned());
    let uses = vec![Use { kind, field, value: id(1) }];
    let deleting = tokio::spawn(async move { store.commit_unused(delete, uses, None).await });
    wait_until(&database, WAITING, 1).await;
    user.batch_execute("COMMIT").await.unwrap();
    match deleting.await.unwrap() {
        Err(Error::Used { id: user, .. }) => assert_eq!(user, id(2)),
        other => panic!("it is gone, and still used: {other:?}"),
    }
}

/// A statement for many that the server sends back has made nothing: each change gets its answer by itself.
pub(crate) async fn a_returned_change_is_tried_alone(database: Database) {
    let store = database.open().await;
    let node = created(&store, 1).await;
    let once = "CREATE SEQUENCE tries; CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                IF nextval('tries') = 1 THEN RAISE 'another session was faster' USING ERRCODE = '40001'; END IF; \
                RETURN NEW; END $$; \
                CREATE TRIGGER fail_once BEFORE UPDATE ON resources FOR EACH ROW EXECUTE FUNCTION fail_once()";
    database.execute(once).await.unwrap();
    assert_eq!(moved(&store, &node, "pending").await.resource.version, 2);
    assert_eq!(verify(&database.location(), None, &[]).await.unwrap().fault, None);
}

/// Sessions of clients that wait for a lock in this database, and those at work in it. Autovacuum workers come and go.
const WAITING: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
     AND backend_type = 'client backend'";
const AT_WORK: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
                       AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

/// Ends the sessions that clients have in the database, and waits until those are gone. Others may come and go
/// meanwhile, autovacuum workers among them.
async fn end_sessions(database: &Database) {
    let Database::Postgres(cluster) = database else { panic!("PostgreSQL only") };
    let end = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
               AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let ended = connect(&cluster.url).await.query(end, &[]).await.unwrap();
    let pids: Vec<_> = ended.iter().map(|row| row.get::<_, i32>(0).to_string()).collect();
    assert!(!pids.is_empty(), "the store has no session");
    let left = format!("SELECT pid FROM pg_stat_activity WHERE pid IN ({})", pids.join(", "));
    wait_until(database, &left, 0).await;
}

/// Over a connection of its own: a transaction sees the same activity until it ends.
async fn wait_until(database: &Database, sql: &str, rows: usize) {
    let Database::Postgres(cluster) = database else { panic!("PostgreSQL only") };
    let client = connect(&cluster.url).await;
    for _ in 0..1500 {
        if client.query(sql, &[]).await.unwrap().len() == rows {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("waited in vain for {rows} of {sql}");
}

/// Keeps every change of a resource waiting until it commits.
const LOCK: &str = "BEGIN; LOCK TABLE resources IN SHARE ROW EXCLUSIVE MODE";

/// A session has the table locked for longer than moves wait: their errors hold when the lock is gone.
pub(crate) async fn a_refused_change_is_not_made_later(database: Database) {
    let store = database.open().await;
    let made = store.commit_all((0..5).map(|number| create(node(number))).collect()).await;
    let nodes: Vec<_> = made.into_iter().map(|made| made.unwrap().resource).collect();
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let slow = connect(&cluster.url).await;
    slow.batch_execute(LOCK).await.unwrap();
    let moves = nodes.iter().map(|node| to_state(node, "pending")).collect();
    let (answers, made) = tokio::join!(store.commit_all(moves), store.commit(create(node(5))));
    slow.batch_execute("COMMIT").await.unwrap();
    wait_until(&database, AT_WORK, 0).await;
    for (node, answer) in nodes.iter().zip(answers) {
        assert!(matches!(answer, Err(Error::CutShort(Wait::Statement))), "{answer:?}");
        assert_eq!(store.get("node", &node.content.id).await.unwrap().as_ref(), Some(node));
    }
    assert!(matches!(made, Err(Error::CutShort(Wait::Lock))), "{made:?}");
    assert_eq!(store.get("node", &id(5)).await.unwrap(), None);
    moved(&store, &nodes[0], "pending").await;
}

/// A connection that ends in the middle of a commit leaves doubt; before it, nothing was made.
pub(crate) async fn an_unknown_outcome_is_reported_as_such(database: Database) {
    let store = database.open().await;
    let (one, two) = (created(&store, 1).await, created(&store, 2).await);
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let slow = connect(&cluster.url).await;
    slow.batch_execute(LOCK).await.unwrap();
    let together = vec![to_state(&two, "pending"), create(node(3))];
    let cut = async {
        wait_until(&database, WAITING, 3).await;
        let end = format!("SELECT pg_terminate_backend(pid) FROM ({WAITING}) AS waiting");
        database.execute(&end).await.unwrap();
    };
    let (moved, made, together, ()) = tokio::join!(
        store.commit(to_state(&one, "pending")),
        store.commit(create(node(4))),
        store.commit_together(together),
        cut
    );
    assert!(matches!(moved, Err(Error::Unanswered(_))), "{moved:?}");
    assert!(matches!(made, Err(Error::Unanswered(_))), "{made:?}");
    assert!(matches!(together, Err(Error::Unavailable(_))), "{together:?}");
}
