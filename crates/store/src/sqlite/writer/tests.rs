//! Batches that fail as a whole.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::*;
use crate::change::Change;
use crate::document::Document;
use crate::history::Entry;
use crate::resource::Content;

fn node(id: &str, text: &str) -> Content {
    Content {
        kind: "node".to_owned(),
        id: id.to_owned(),
        name: id.to_owned(),
        state: "discovered".to_owned(),
        document: Document::of(&text).unwrap(),
        labels: BTreeMap::new(),
        fields: BTreeMap::new(),
        keys: BTreeSet::from([id.to_owned()]),
        deleted: false,
        due_at: None,
    }
}

fn change(before: Option<&Resource>, after: Content) -> Change {
    let entry = Entry {
        entry_type: "changed".to_owned(),
        triggered_by: "admin".to_owned(),
        user_id: None,
        comment: None,
        metadata: serde_json::Value::Null,
        request_id: None,
        at: Timestamp::UNIX_EPOCH,
    };
    Change { before: before.cloned(), after, entry, effects: vec![], fence: None, holds: vec![] }
}

/// A database with one node, and what it keeps at hand.
struct Sample {
    connection: Connection,
    recent: Recent,
    first: Resource,
    _held: (std::fs::File, tempfile::TempDir),
}

impl Sample {
    fn create() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (connection, lock) = crate::sqlite::exclusive(dir.path()).unwrap();
        let (recent, made) = (Recent::default(), change(None, node("first", "")));
        let first = made.clone().prepare().unwrap().committed.resource;
        let sample = Self { connection, recent, first, _held: (lock, dir) };
        assert!(sample.batch(vec![made]).iter().all(Result::is_ok));
        sample
    }

    /// As the thread does it.
    fn batch(&self, changes: Vec<Change>) -> Vec<Answer> {
        let work = |change: Change| {
            let change = change.prepare().unwrap();
            let kept = vec![Arc::new(change.committed.resource.clone())];
            Work::Commit(vec![change], kept, Vec::new())
        };
        let mut batch: Vec<_> = changes.into_iter().map(work).collect();
        let answers = transact(&self.connection, &self.recent, &batch).answers;
        batch.iter_mut().zip(&answers).for_each(|(work, answer)| remember(&self.recent, work, answer));
        answers
    }

    /// Versions of a node, at hand and in the file; 0 for none.
    fn versions(&self, id: &str) -> (i64, i64) {
        let stored = crate::sqlite::connect::get(&self.connection, "node", id).unwrap();
        let version = |resource: &Resource| resource.version;
        (self.recent.get("node", id).map_or(0, |kept| version(&kept)), stored.as_ref().map_or(0, version))
    }

    /// Refuses a batch of a small change and two new nodes, then makes it when what was in its way is gone.
    fn refuses(&self, in_its_way: &str, gone: &str) {
        let moved = Content { state: "pending".to_owned(), ..self.first.content.clone() };
        let large = "x".repeat(100_000);
        let changes = || {
            let made = ["second", "third"].map(|id| change(None, node(id, &large)));
            [change(Some(&self.first), moved.clone())].into_iter().chain(made).collect()
        };
        self.connection.execute_batch(in_its_way).unwrap();
        let refused = self.batch(changes());
        assert_eq!(refused.len(), 3);
        assert!(refused.iter().all(|answer| matches!(answer, Err(Error::Unavailable(_)))), "{refused:?}");
        let (kept, stored) = self.versions("first");
        assert!(kept <= 1 && stored == 1, "{kept} is at hand, {stored} in the file");
        assert_eq!((self.versions("second"), self.versions("third")), ((0, 0), (0, 0)));
        self.connection.execute_batch(gone).unwrap();
        let made = self.batch(changes());
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        assert_eq!((self.versions("first"), self.versions("third")), ((2, 2), (1, 1)));
    }
}

/// The limit is what the file has by now.
#[test]
fn a_full_disk_refuses_a_batch_and_no_more() {
    Sample::create().refuses("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000");
}

/// What is looked at only in the end stands for a disk that fails in the end.
#[test]
fn a_failed_commit_refuses_a_batch_and_no_more() {
    let fails = "PRAGMA foreign_keys = ON; CREATE TABLE one (id INTEGER PRIMARY KEY); \
                 CREATE TABLE other (one INTEGER REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED); \
                 CREATE TRIGGER dangles AFTER INSERT ON history BEGIN INSERT INTO other VALUES (1); END";
    Sample::create().refuses(fails, "DROP TRIGGER dangles");
}
