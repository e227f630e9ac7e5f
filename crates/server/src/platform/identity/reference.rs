//! Secrets by reference: `file:PATH` in the folder of secrets, or `env:NAME` with their prefix.
//!
//! The author of a reference also chooses the address that the secret is sent to. Therefore references lead
//! only to what an administrator put there for this, and operators have a folder apart from the rest.

use std::path::{Component, Path};

use crate::platform::{
    config::secrets::Secrets,
    http::{error::Error, text},
};

/// More is not a secret.
const MOST_BYTES: u64 = 1 << 20;

/// What a secret is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A site's, which administrators write: anything in the folder.
    Site,
    /// A BMC's, which operators write: only what is in the folder's `bmc`.
    Bmc,
}

impl Use {
    fn folder(self) -> &'static str {
        match self {
            Self::Site => "",
            Self::Bmc => "bmc/",
        }
    }

    fn variables(self, secrets: &Secrets) -> String {
        let of = match self {
            Self::Site => "",
            Self::Bmc => "BMC_",
        };
        format!("{}{of}", secrets.env_prefix)
    }
}

/// Where a secret is.
enum Place<'a> {
    File(&'a Path),
    Variable(&'a str),
}

/// Refuses a reference that may not be used so.
pub(crate) fn check(field: &str, reference: &str, used: Use, secrets: &Secrets) -> Result<(), Error> {
    text::check(field, reference, 1..=1000)?;
    place(reference, used, secrets).map(drop).map_err(|why| Error::invalid(field, why))
}

/// Reads the secret behind a reference.
///
/// # Errors Returns the reason; the text names the reference, never the secret.
pub(crate) fn resolve(reference: &str, used: Use, secrets: &Secrets) -> Result<String, String> {
    let found = match place(reference, used, secrets) {
        Ok(Place::File(path)) => read(path, used, secrets),
        Ok(Place::Variable(name)) => std::env::var(name).map_err(|error| error.to_string()),
        Err(why) => Err(why),
    };
    let found = found.map_err(|why| format!("the secret at {reference}: {why}"))?;
    let found = found.trim_end_matches(['\n', '\r']).to_owned();
    if found.is_empty() { Err(format!("the secret at {reference}: it is empty")) } else { Ok(found) }
}

fn place<'a>(reference: &'a str, used: Use, secrets: &Secrets) -> Result<Place<'a>, String> {
    let (folder, prefix) = (used.folder(), used.variables(secrets));
    let place = if folder.is_empty() { String::new() } else { format!("{folder} in ") };
    let place = place.as_str();
    if let Some(path) = reference.strip_prefix("file:") {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let within = path.strip_prefix(folder).is_some_and(|name| !name.is_empty());
        return if plain && within {
            Ok(Place::File(Path::new(path)))
        } else {
            Err(format!(
                "must lead into {place}the server's folder of secrets (secrets.directory) and be written as a path in \
                 it, such as file:{folder}berlin: put the secret there"
            ))
        };
    }
    if let Some(name) = reference.strip_prefix("env:") {
        return if name.strip_prefix(&prefix).is_some_and(|rest| !rest.is_empty()) {
            Ok(Place::Variable(name))
        } else {
            Err(format!(
                "must name a variable that begins with {prefix} (secrets.env_prefix): give the server one"
            ))
        };
    }
    Err(format!(
        "must refer to a secret: file:{folder}NAME in the server's folder of secrets, or \
         env:{prefix}NAME; the secret itself is never stored"
    ))
}

/// Reads a file that is in the folder after all links are followed.
fn read(path: &Path, used: Use, secrets: &Secrets) -> Result<String, String> {
    let said = |error: std::io::Error| error.to_string();
    let folder = secrets.directory.join(used.folder()).canonicalize();
    let folder = folder.map_err(|error| format!("the folder of secrets (secrets.directory): {error}"))?;
    let missing = |error: std::io::Error| {
        if error.kind() != std::io::ErrorKind::NotFound {
            return said(error);
        }
        let (path, folder) = (path.display(), secrets.directory.display());
        format!(
            "there is no file {path} in the folder of secrets, {folder} (secrets.directory): put it there"
        )
    };
    let path = secrets.directory.join(path).canonicalize().map_err(missing)?;
    if !path.starts_with(&folder) {
        return Err("it is a link that leads out of the server's folder of secrets".to_owned());
    }
    let found = path.metadata().map_err(said)?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return Err(format!("it is not a file of at most {MOST_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of secrets beside a file that is none.
    fn folder() -> (tempfile::TempDir, Secrets) {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("secrets");
        std::fs::create_dir_all(directory.join("bmc")).unwrap();
        std::fs::write(directory.join("maas"), "a:b:c\n").unwrap();
        std::fs::write(directory.join("bmc/berlin"), "root:calvin\n").unwrap();
        std::fs::write(dir.path().join("server.key"), "the key").unwrap();
        std::os::unix::fs::symlink("../server.key", directory.join("out")).unwrap();
        std::os::unix::fs::symlink("../maas", directory.join("bmc/maas")).unwrap();
        std::os::unix::fs::symlink("bmc", directory.join("all")).unwrap();
        (dir, Secrets { directory, env_prefix: "WARDROOM_SECRET_".to_owned() })
    }

    #[test]
    fn a_reference_leads_to_secrets_and_to_nothing_else() {
        let (dir, secrets) = folder();
        let found = |reference: &str, used| resolve(reference, used, &secrets);
        assert_eq!(found("file:maas", Use::Site).unwrap(), "a:b:c");
        assert_eq!(found("file:bmc/berlin", Use::Site).unwrap(), "root:calvin");
        assert_eq!(found("file:bmc/berlin", Use::Bmc).unwrap(), "root:calvin");
        assert_eq!(found("file:all/berlin", Use::Site).unwrap(), "root:calvin", "a link that stays inside");
        let absolute = format!("file:{}", dir.path().join("secrets/maas").display());
        for (reference, used) in [
            (absolute.as_str(), Use::Site),
            ("file:/etc/hostname", Use::Site),
            ("file:../server.key", Use::Site),
            ("file:bmc/../../server.key", Use::Bmc),
            ("file:./maas", Use::Site),
            ("file:", Use::Site),
            ("file:maas", Use::Bmc),
            ("file:bmc/", Use::Bmc),
            ("file:bmcs", Use::Bmc),
            ("env:PATH", Use::Site),
            ("env:WARDROOM_SECRET_", Use::Site),
            ("env:WARDROOM_SECRET_MAAS", Use::Bmc),
            ("env:", Use::Site),
            ("hunter2", Use::Site),
        ] {
            assert!(
                matches!(check("field", reference, used, &secrets), Err(Error::Invalid(_))),
                "{reference}"
            );
            assert!(found(reference, used).is_err(), "{reference}");
        }
        assert!(check("field", "env:WARDROOM_SECRET_BMC_BERLIN", Use::Bmc, &secrets).is_ok());
    }

    #[test]
    fn a_link_out_of_the_folder_is_not_followed() {
        let (_dir, secrets) = folder();
        for (reference, used) in
            [("file:out", Use::Site), ("file:bmc/maas", Use::Bmc), ("file:bmc", Use::Site)]
        {
            let why = resolve(reference, used, &secrets).unwrap_err();
            assert!(!why.contains("the key") && !why.contains("a:b:c"), "{why}");
        }
    }

    #[test]
    fn a_secret_that_is_not_there_says_where_it_is_to_be() {
        let (_dir, secrets) = folder();
        let why = resolve("file:nowhere.key", Use::Site, &secrets).unwrap_err();
        let folder = secrets.directory.display().to_string();
        assert!(why.contains("no file nowhere.key") && why.contains(&folder), "{why}");
    }
}
