//! Every code that a problem can have is explained in `docs/errors.md`, and nothing else is.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_code_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut codes = BTreeSet::new();
    for file in fs::read_dir(root.join("src")).unwrap().chain(fs::read_dir(root.join("src/node")).unwrap()) {
        let path = file.unwrap().path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        codes.extend(between(&text, "code: \"", "\""));
        codes.extend(
            between(&text, "(StatusCode::", "\",")
                .filter_map(|row| row.rsplit('"').next().map(str::to_owned)),
        );
        // The refusals of a transition.
        codes.extend(
            between(&text, "Refusal::", "\", moves")
                .filter_map(|row| row.rsplit('"').next().map(str::to_owned)),
        );
    }
    codes.retain(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    assert!(
        codes.contains("retry_limit") && codes.contains("too_large") && codes.contains("in_flight"),
        "{codes:?}"
    );

    let page = fs::read_to_string(root.join("../../docs/errors.md")).unwrap();
    let explained: BTreeSet<_> =
        page.lines().filter_map(|line| between(line, "| `", "` | ").next()).collect();
    assert_eq!(codes, explained);
}

fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = String> + 'a {
    text.match_indices(start).filter_map(move |(at, _)| {
        let rest = &text[at + start.len()..];
        rest.find(end).map(|length| rest[..length].to_owned())
    })
}
