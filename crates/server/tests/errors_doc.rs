//! `docs/errors.md` is generated from the kinds of problems; this test compares, and with `WARDROOM_BLESS=1` rewrites.

use std::{fmt::Write as _, fs, path::Path};

use wardroom_server::{KINDS, platform::http::error};

#[test]
fn the_page_says_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let mut page = String::from(
        "# Problems\n\n\
         Generated from the code by `./dev bless`; do not edit.\n\n\
         A refusal or failure is an RFC 9457 problem, `application/problem+json`: `type`, `title`, `status`, `detail`\n\
         with the next step, `code`, `request_id` (also in `X-Request-ID`, in the log and in history), `errors[]`\n\
         with a field and a message each, on a conflict `allowed_actions[]`, and with `not_found` the missing\n\
         `resource` (`kind` and `id`). Every `code` there is:\n\n\
         | Code | Status | What it means, and what to do |\n|---|---|---|\n",
    );
    for class in error::every(KINDS) {
        writeln!(page, "| `{}` | {} | {} |", class.code, class.status, class.advice).unwrap();
    }
    if std::env::var_os("WARDROOM_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/errors.md differs from the code: run `./dev bless` and look at the change"
    );
}

/// A conflict names its code where it is raised; a code without a class would be answered as a bug.
#[test]
fn every_code_that_is_raised_has_a_class() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let (mut texts, mut raised) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { texts.push(fs::read_to_string(path).unwrap()) }
        }
    }
    for text in texts {
        for (at, start) in text.match_indices("code: \"") {
            let code = text[at + start.len()..].split('"').next().unwrap();
            assert!(error::every(KINDS).any(|class| class.code == code), "{code} has no class");
            raised += 1;
        }
    }
    assert!(raised > 5, "found the places");
}
