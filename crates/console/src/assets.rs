//! The files that browsers load. Each has its hash in its name, so that browsers keep it for ever.

use std::{fmt::Write as _, sync::LazyLock};

use rust_embed::RustEmbed;

/// Where the files are served.
pub const PATH: &str = "/console/assets/";

/// The style sheet.
pub const STYLE: &str = "console.css";
/// What works in the page beyond links and forms.
pub const SCRIPTS: &[&str] = &["console.js", "times.js", "live.js", "keys.js"];

#[derive(RustEmbed)]
#[folder = "assets"]
struct Files;

/// A file.
#[derive(Debug, Clone)]
pub struct Asset {
    /// Its name with its hash.
    pub name: String,
    /// Its content type.
    pub content_type: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

static ALL: LazyLock<Vec<(String, Asset)>> = LazyLock::new(|| {
    let all = Files::iter().filter_map(|name| {
        let file = Files::get(&name)?;
        let (stem, end) = name.rsplit_once('.')?;
        let content_type = match end {
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => return None,
        };
        let hash = file.metadata.sha256_hash().iter().take(6).fold(String::new(), |mut hash, byte| {
            // Writing into a text cannot fail.
            let _ = write!(hash, "{byte:02x}");
            hash
        });
        let asset =
            Asset { name: format!("{stem}.{hash}.{end}"), content_type, bytes: file.data.into_owned() };
        Some((name.into_owned(), asset))
    });
    all.collect()
});

/// The path of a file, with its hash.
///
/// # Panics Panics without such a file; a test renders every page.
#[must_use]
pub fn path(name: &str) -> String {
    let found = ALL.iter().find(|(plain, _)| plain == name);
    let (_, asset) = found.expect("a page names only files that there are");
    format!("{PATH}{}", asset.name)
}

/// The file that has this name, hash included.
#[must_use]
pub fn find(name: &str) -> Option<&'static Asset> {
    ALL.iter().map(|(_, asset)| asset).find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_hashed_name() {
        for name in SCRIPTS.iter().copied().chain([STYLE]) {
            let path = path(name);
            let asset = find(path.strip_prefix(PATH).unwrap()).unwrap();
            assert!(!asset.bytes.is_empty() && path.len() > PATH.len() + name.len());
        }
        assert!(find(STYLE).is_none() && find("../Cargo.toml").is_none());
    }

    /// Pages are read over slow links to a data centre too.
    #[test]
    fn the_files_are_small() {
        let style = find(path(STYLE).strip_prefix(PATH).unwrap()).unwrap();
        assert!(style.bytes.len() <= 25 << 10, "{} bytes of style", style.bytes.len());
        let scripts = ALL.iter().filter(|(name, _)| name.ends_with(".js"));
        let lines: usize =
            scripts.map(|(_, asset)| asset.bytes.iter().filter(|byte| **byte == b'\n').count()).sum();
        assert!(lines <= 500, "{lines} lines of script");
    }
}
