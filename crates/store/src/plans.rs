//! Every statement can be prepared on its database, and no page of a list scans or sorts.

use crate::backup::TABLES;
use crate::database::Database;
use crate::query::{List, Requirement, Selector, Statement};
use crate::session::Session;
use crate::sql;
use crate::store::Store;
use crate::value::params;
use crate::{postgres, sqlite};

/// Rows of the list: enough that a database has a choice.
const ROWS: usize = 20_000;

/// The index of deleted resources. The index of ids has the right order, but would read all of them.
const GONE: &str = "resources_gone";

/// The indexes of deleted resources: a list of them must not look at the living.
const DELETED: &str = "resources_deleted";

#[tokio::test]
async fn sqlite_prepares_every_statement() {
    let database = Database::sqlite();
    let store = database.open().await;
    let connection = rusqlite::Connection::open(sqlite::file(&folder(&database))).unwrap();
    let own = sqlite::dialect::DIALECT.all();
    for statement in sql::SHARED.iter().chain(&own).chain(&sqlite::dialect::COMMIT) {
        if let Err(error) = connection.prepare(&sqlite::native(statement)) {
            panic!("{statement}: {error}");
        }
    }
    drop(store);
    prepare_backup(&database).await;
}

#[tokio::test]
async fn postgres_prepares_every_statement() {
    let database = Database::postgres().await;
    let _store = database.open().await;
    let Database::Postgres(cluster) = &database else { unreachable!() };
    let client = crate::database::connect(&cluster.url).await;
    let own = postgres::dialect::DIALECT.all();
    for statement in sql::SHARED.iter().chain(&own).chain(&postgres::dialect::COMMIT) {
        if let Err(error) = client.prepare(statement).await {
            panic!("{statement}: {error:?}");
        }
    }
    prepare_backup(&database).await;
}

fn folder(database: &Database) -> std::path::PathBuf {
    let Database::Sqlite(folder) = database else { unreachable!() };
    folder.path().to_owned()
}

/// The statements of a backup are put together from its table of tables.
async fn prepare_backup(database: &Database) {
    let session = Session::snapshot(&database.location()).await.unwrap();
    for table in &TABLES {
        assert!(table.rows(&session).next(&session).await.unwrap().is_none());
    }
}

fn lists() -> Vec<List> {
    let all = || List { kind: "node".to_owned(), limit: 100, ..List::default() };
    let label = |key: &str, requirement| {
        let selector = Selector { key: key.to_owned(), requirement };
        List { labels: vec![selector], ..all() }
    };
    let one = |value: &str| vec![value.to_owned()];
    let workflow = [("workflow".to_owned(), "w1".to_owned())];
    let indexed = [
        all(),
        List { state: Some("active".to_owned()), ..all() },
        List { fields: workflow.clone().into(), ..all() },
        List { fields: workflow.into(), state: Some("active".to_owned()), ..all() },
        label("rack", Requirement::In(one("r1"))),
        label("rack", Requirement::NotIn(one("r1"))),
        label("rack", Requirement::In(vec!["r1".to_owned(), "r2".to_owned()])),
        label("rack", Requirement::Exists),
        label("rack", Requirement::Missing),
        List { states: vec![Requirement::NotIn(one("active"))], ..all() },
        List {
            field_requirements: vec![Selector {
                key: "workflow".to_owned(),
                requirement: Requirement::NotIn(one("w1")),
            }],
            ..all()
        },
        List { prefix: Some("00000001".to_owned()), ..all() },
        List { deleted: true, ..all() },
        List { deleted: true, state: Some("retired".to_owned()), ..all() },
    ];
    let last = |list: &List| List { after: Some(format!("{:012}", ROWS - 200)), ..list.clone() };
    indexed.iter().flat_map(|list| [list.clone(), last(list)]).collect()
}

/// Fills the tables behind the store's back; one statement per table, with the database's way to count.
async fn fill(database: &Database, numbers: &str, id: &str) {
    let times = "'2026-01-01T00:00:00.000000Z'";
    let statements = [
        format!(
            "INSERT INTO resources SELECT 'node', {id}, 'n', 1, 'h', CASE n % 2 WHEN 0 THEN 'active' ELSE 'pending' \
             END, '{{}}', '{{}}', '{{}}', '[]', 0, {times}, {times}, {times}, {times} FROM {numbers}"
        ),
        format!(
            "INSERT INTO resources SELECT 'node', 'gone-' || {id}, 'gone-' || n, 1, 'h', 'retired', '{{}}', '{{}}', \
             '{{}}', '[]', 1, {times}, {times}, {times}, {times} FROM {numbers}"
        ),
        format!(
            "INSERT INTO terms (kind, term, value, resource_id) \
             SELECT 'node', 'label/rack', 'r' || (n % 4), {id} FROM {numbers}"
        ),
        format!(
            "INSERT INTO terms (kind, term, value, resource_id) \
             SELECT 'node', 'field/workflow', 'w' || (n % 3), {id} FROM {numbers}"
        ),
        format!(
            "INSERT INTO history (kind, resource_id, sequence, type, to_state, triggered_by, created_at, hash) \
             SELECT 'node', {id}, 1, 'registered', 'active', 'admin', {times}, 'h' FROM {numbers}"
        ),
        format!(
            "INSERT INTO leases (name, holder, epoch, expires_at) \
             SELECT 'node/' || {id}, 'server', 1, 0 FROM {numbers}"
        ),
        "ANALYZE".to_owned(),
    ];
    for statement in statements {
        database.execute(&statement).await.unwrap();
    }
}

/// The lists, and what walks history: every statement that goes page by page.
fn pages(dialect: &sql::Dialect) -> Vec<Statement> {
    let lists = lists().into_iter().map(|list| list.statement().unwrap());
    let last = format!("{:012}", ROWS - 200);
    let history = [
        (sql::CHAINS, params!["node", &last, 1, 1000]),
        (sql::HEADS, params!["node", &last, 1000]),
        (sql::HISTORY, params!["node", &last, 10, 0]),
        (dialect.feed_after, params![0, 19_000, 1000]),
        (dialect.feed_of, params![0, 19_000, 0, 20_000, 1000, ",node,"]),
        (dialect.history_after, params![0, 19_000, 1000]),
        (dialect.history_before, params![i64::MAX, 19_000, 1000]),
        (dialect.feed_tail, params![]),
        (dialect.due_next, params!["node"]),
        (sql::LAST_DELETED, params!["node", "unknown", 1]),
    ];
    let history = history.into_iter().map(|(sql, params)| Statement { sql: sql.to_owned(), params });
    lists.chain(history).collect()
}

async fn explain(store: &Store, statement: Statement, explain: &str) -> String {
    let rows =
        store.database.read_once(format!("{explain} {}", statement.sql), statement.params).await.unwrap();
    let lines = rows.into_iter().map(|row| format!("{:?}", row.rest().pop().unwrap()));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn sqlite_walks_an_index_for_every_page() {
    let database = Database::sqlite();
    let store = database.open().await;
    let numbers = format!(
        "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {ROWS}) SELECT n FROM c)"
    );
    fill(&database, &numbers, "printf('%012d', n)").await;
    for statement in pages(&sqlite::dialect::DIALECT) {
        let sql = statement.sql.clone();
        let plan = explain(&store, statement, "EXPLAIN QUERY PLAN").await;
        // The newest row is the end of the table itself.
        let walks = sql.ends_with("DESC LIMIT 1") || plan.contains("SEARCH") && !plan.contains("SCAN");
        assert!(walks && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
        assert!(sql != sql::LAST_DELETED || plan.contains(GONE), "{sql}\n{plan}");
        assert!(!sql.contains("r.deleted = 1") || plan.contains(DELETED), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn postgres_walks_an_index_for_every_page() {
    let database = Database::postgres().await;
    let store = database.open().await;
    let numbers = format!("generate_series(1, {ROWS}) AS n");
    fill(&database, &numbers, "lpad(n::text, 12, '0')").await;
    for statement in pages(&postgres::dialect::DIALECT) {
        let sql = statement.sql.clone();
        let plan = explain(&store, statement, "EXPLAIN").await;
        assert!(plan.contains("Index"), "{sql}\n{plan}");
        assert!(!plan.contains("Seq Scan") && !plan.contains("Sort"), "{sql}\n{plan}");
        assert!(sql != sql::LAST_DELETED || plan.contains(GONE), "{sql}\n{plan}");
        assert!(!sql.contains("r.deleted = 1") || plan.contains(DELETED), "{sql}\n{plan}");
    }
}
