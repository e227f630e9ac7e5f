//! Transactions of PostgreSQL, whatever they are by default.

use wardroom_store::{Error, Use, verify};

use crate::database::{Database, connect};
use crate::sample::{created, id, moved, to_state};

/// A PostgreSQL whose transactions are stricter than usual unless they say otherwise.
pub(crate) async fn strict(isolation: &str) -> Database {
    let database = Database::postgres().await;
    let set = format!("SET default_transaction_isolation = ''{isolation}''");
    let alter = format!("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I {set}', current_database()); END $$");
    database.execute(&alter).await.unwrap();
    database
}

/// Somebody begins to use a resource and commits while its deletion waits: the deletion sees it.
pub(crate) async fn what_waits_sees_what_it_waited_for(database: Database) {
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
    let uses = vec![Use { kind: "node".to_owned(), field: "parent".to_owned(), value: id(1) }];
    let deleting = tokio::spawn(async move { store.commit_unused(delete, uses, None).await });
    let waiting =
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while user.query(waiting, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    user.batch_execute("COMMIT").await.unwrap();
    match deleting.await.unwrap() {
        Err(Error::Used { id: user, .. }) => assert_eq!(user, id(2)),
        other => panic!("it is gone, and still used: {other:?}"),
    }
}

/// A statement for many that the server sends back has made nothing: each change gets its answer by itself.
pub(crate) async fn what_was_sent_back_is_tried_alone(database: Database) {
    let store = database.open().await;
    let node = created(&store, 1).await;
    let once = "CREATE SEQUENCE tries; CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                IF nextval('tries') = 1 THEN RAISE 'somebody was faster' USING ERRCODE = '40001'; END IF; \
                RETURN NEW; END $$; \
                CREATE TRIGGER fail_once BEFORE UPDATE ON resources FOR EACH ROW EXECUTE FUNCTION fail_once()";
    database.execute(once).await.unwrap();
    assert_eq!(moved(&store, &node, "pending").await.resource.version, 2);
    assert_eq!(verify(&database.location(), None, &[]).await.unwrap().fault, None);
}
