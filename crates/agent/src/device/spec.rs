//! The spec as this agent can apply it: validated before anything changes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use wardroom_api::device::{DeviceSpec, InlineFile};

use super::files::STAGED;

/// The most bytes of all files of a spec together; a request of the server is not larger.
const MOST_BYTES: usize = 8 << 20;

/// A file that a spec wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
}

/// Returns the files of a spec. `own` is the state folder of the agent, which no spec may write to.
pub(crate) fn files(spec: &DeviceSpec, own: &Path) -> Result<Vec<File>, String> {
    let mut files: Vec<File> = Vec::new();
    for (number, source) in spec.config.iter().enumerate() {
        for (place, file) in source.inline.iter().enumerate() {
            let named = |error| format!("config[{number}].inline[{place}]: {error}");
            files.push(file_of(file, own).map_err(named)?);
        }
    }
    let paths: BTreeSet<_> = files.iter().map(|file| file.path.as_path()).collect();
    if paths.len() < files.len() {
        let mut seen = BTreeSet::new();
        let twice = files.iter().find(|file| !seen.insert(&file.path)).map(|file| file.path.display());
        return Err(format!(
            "path {} appears more than once",
            twice.into_iter().map(|p| p.to_string()).collect::<String>()
        ));
    }
    for file in &files {
        if let Some(parent) = file.path.ancestors().skip(1).find(|parent| paths.contains(parent)) {
            return Err(format!(
                "path {} is a file and the folder of {}",
                parent.display(),
                file.path.display()
            ));
        }
    }
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    if bytes > MOST_BYTES {
        return Err(format!("the files have {bytes} bytes together; at most {MOST_BYTES} are possible"));
    }
    Ok(files)
}

/// Refuses parts of a spec that this agent cannot bring into force, instead of reporting a device that runs half of it.
pub(crate) fn is_possible(spec: &DeviceSpec) -> Result<(), String> {
    if spec.applications.is_empty() {
        return Ok(());
    }
    let names: Vec<_> =
        spec.applications.iter().take(5).map(|application| application.name.as_str()).collect();
    Err(format!("this agent cannot run applications; remove them from the spec: {}", names.join(", ")))
}

fn file_of(file: &InlineFile, own: &Path) -> Result<File, String> {
    let path = path_of(&file.path, own)?;
    let content = match file.content_encoding.as_deref() {
        None | Some("" | "plain") => file.content.clone().into_bytes(),
        Some("base64") => {
            let text: String = file.content.split_ascii_whitespace().collect();
            BASE64_STANDARD.decode(text).map_err(|error| format!("content is not base64: {error}"))?
        }
        Some(other) => {
            return Err(format!("contentEncoding {other:?} is not known, expected plain or base64"));
        }
    };
    if file.mode.is_some_and(|mode| mode > 0o7777) {
        return Err(format!("mode {} is not possible, expected 0 to 4095", file.mode.unwrap_or_default()));
    }
    let number = |name: &Option<String>, list| name.as_deref().map(|name| number_of(name, list)).transpose();
    let user = number(&file.user, "/etc/passwd").map_err(|error| format!("user: {error}"))?;
    let group = number(&file.group, "/etc/group").map_err(|error| format!("group: {error}"))?;
    Ok(File { path, content, mode: file.mode, user, group })
}

/// Returns a path that is absolute and written in one way only.
fn path_of(text: &str, own: &Path) -> Result<PathBuf, String> {
    let shown: String = text.chars().take(200).collect();
    let refused = |why: &str| Err(format!("path {shown:?} {why}"));
    let path = Path::new(text);
    let plain = text.strip_prefix('/').is_some_and(|rest| {
        rest.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
    });
    if !plain {
        return refused("must be absolute, without `.`, `..` and double slashes");
    }
    let is_staged = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(STAGED.as_bytes());
    if path.components().any(is_staged) {
        return refused("has a name that the agent uses for itself");
    }
    if path.starts_with(own) {
        return refused("is in the state folder of the agent");
    }
    Ok(path.to_owned())
}

/// Returns the number of a user or a group, which may be given as a number.
fn number_of(name: &str, list: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = fs::read_to_string(list).map_err(|error| format!("cannot read {list}: {error}"))?;
    let number = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    });
    number.ok_or_else(|| format!("{name:?} is not in {list}"))
}

#[cfg(test)]
mod tests {
    use wardroom_api::device::{ApplicationSpec, ConfigSource};

    use super::*;

    fn read(given: Vec<InlineFile>) -> Result<Vec<File>, String> {
        let source = ConfigSource { name: "a".to_owned(), inline: given };
        files(&DeviceSpec { config: vec![source], ..DeviceSpec::default() }, Path::new("/var/lib/agent"))
    }

    fn at(path: &str) -> InlineFile {
        InlineFile { path: path.to_owned(), ..InlineFile::default() }
    }

    #[test]
    fn paths_that_lead_astray_are_refused() {
        for path in [
            "",
            "/",
            "etc/motd",
            "/etc/../motd",
            "/etc/./motd",
            "/etc//motd",
            "/etc/motd/",
            "//etc",
            "..",
            "/..",
            "/etc/a\0b",
            "/etc/.wardroom-0.new",
            "/etc/.wardroom-x/y",
            "/var/lib/agent/device.key",
            "/var/lib/agent",
        ] {
            assert!(read(vec![at(path)]).is_err(), "{path:?}");
        }
        for path in ["/etc/motd", "/a", "/etc/..motd", "/etc/.hidden", "/var/lib/agents"] {
            assert_eq!(read(vec![at(path)]).unwrap()[0].path, Path::new(path));
        }
        assert!(read(vec![at("/a"), at("/b"), at("/a")]).unwrap_err().contains("/a appears more than once"));
        assert!(read(vec![at("/a/b"), at("/a")]).unwrap_err().contains("folder of /a/b"));
    }

    #[test]
    fn content_mode_and_owner_are_read() {
        let mut file = at("/a");
        file.content = "aGV5\n".to_owned();
        file.content_encoding = Some("base64".to_owned());
        (file.mode, file.user, file.group) = (Some(0o600), Some("root".to_owned()), Some("7".to_owned()));
        let read_file = read(vec![file.clone()]).unwrap().remove(0);
        assert_eq!(read_file.content, b"hey");
        assert_eq!((read_file.mode, read_file.user, read_file.group), (Some(0o600), Some(0), Some(7)));
        for (name, wrong) in [
            ("base64", InlineFile { content: "*".to_owned(), ..file.clone() }),
            ("contentEncoding", InlineFile { content_encoding: Some("gzip".to_owned()), ..file.clone() }),
            ("mode", InlineFile { mode: Some(0o10000), ..file.clone() }),
            ("user", InlineFile { user: Some("no such user".to_owned()), ..file.clone() }),
        ] {
            let error = read(vec![wrong]).unwrap_err();
            assert!(error.contains(name) && error.starts_with("config[0].inline[0]"), "{error}");
        }
    }

    #[test]
    fn applications_are_refused_by_name() {
        let application = ApplicationSpec { name: "shop".to_owned(), ..ApplicationSpec::default() };
        let spec = DeviceSpec { applications: vec![application], ..DeviceSpec::default() };
        assert!(is_possible(&spec).unwrap_err().contains("shop"));
        assert_eq!(is_possible(&DeviceSpec::default()), Ok(()));
    }
}
