//! Recorded answers of the real engine, for tests.

use std::path::PathBuf;

use serde_json::Value as Json;

/// Returns the rows of a recording, or says in one line that it is not there.
pub(crate) fn recorded(file: &str) -> Option<Vec<Json>> {
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = folder.join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("{file} is not there: this test checked nothing");
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}
