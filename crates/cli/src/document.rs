//! Files that describe resources: YAML or JSON, any number of documents.

use std::{io::Read as _, path::Path};

use anyhow::Context as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use wardroom_api::satellite_group::GroupSync;

use crate::{
    exit::{Code, failure},
    kind::Kind,
};

/// The fields of one document.
pub(crate) type Document = Map<String, Value>;

/// Fields that only the server sets; `wardroom get -o yaml` writes them.
const KEPT: [&str; 4] = ["id", "created_at", "updated_at", "effective_auto_promote"];

/// Fields of a node that only the server sets.
pub(crate) const KEPT_OF_NODES: [&str; 9] = [
    "ip_address",
    "state",
    "deleted",
    "install_attempts",
    "install_progress",
    "last_install_error",
    "last_boot_at",
    "boot_scripts",
    "state_changed_at",
];

/// Fields of a cluster or node pool that only the server sets.
pub(crate) const KEPT_OF_CLUSTERS: [&str; 9] = [
    "href",
    "generation",
    "created_time",
    "updated_time",
    "created_by",
    "updated_by",
    "deleted_time",
    "deleted_by",
    "status",
];

/// Fields of the metadata of a device or fleet that only the server sets.
pub(crate) const KEPT_OF_OBJECTS: [&str; 6] =
    ["annotations", "owner", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp"];

/// Names of files in a folder that have documents.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The documents of several files and folders.
pub(crate) fn read_all(files: &[String]) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        let path = Path::new(file);
        if file == "-" || !path.is_dir() {
            documents.extend(read(file)?);
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {file}"))?;
        let entries =
            entries.collect::<Result<Vec<_>, _>>().with_context(|| format!("cannot read {file}"))?;
        let mut inside: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        inside.retain(|path| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending))
        });
        anyhow::ensure!(
            !inside.is_empty(),
            "{file}: the folder has no file that ends in .yaml, .yml or .json"
        );
        inside.sort();
        for path in inside {
            documents.extend(read(&path.display().to_string())?);
        }
    }
    Ok(documents)
}

/// The documents of a file; `-` is standard input.
pub(crate) fn read(file: &str) -> anyhow::Result<Vec<Document>> {
    let text = text(file)?;
    let written: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
    // A document may be a list, as `wardroom get` writes it.
    let each = written
        .into_iter()
        .flat_map(|document| if let Value::Array(documents) = document { documents } else { vec![document] });
    let mut documents = Vec::new();
    for document in each.filter(|document| !document.is_null()) {
        let Value::Object(document) = document else {
            anyhow::bail!("{file}: a document must have fields, such as kind: node");
        };
        documents.push(document);
    }
    anyhow::ensure!(!documents.is_empty(), "{file}: contains no document");
    Ok(documents)
}

/// Reads a file with one document of a known kind; its `kind` may be left out.
pub(crate) fn read_one(file: &str, kind: Kind) -> anyhow::Result<Document> {
    let mut documents = read(file)?;
    let mut document = documents.remove(0);
    anyhow::ensure!(documents.is_empty(), "{file}: has several documents; use `wardroom apply`");
    let said = document.remove("kind");
    let fits = said.as_ref().is_none_or(|said| said.as_str() == Some(kind.as_str()));
    anyhow::ensure!(fits, "{file}: must be of kind {}", kind.as_str());
    Ok(document)
}

/// The settings in a file, as they are.
pub(crate) fn settings(file: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(&text(file)?).map_err(|error| anyhow::anyhow!("{file}: {error}"))
}

fn text(file: &str) -> anyhow::Result<String> {
    let read = if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.with_context(|| format!("cannot read {file}"))
}

/// A resource without the fields that only the server sets.
pub(crate) fn without_kept(mut whole: Value) -> Value {
    if let Some(fields) = whole.as_object_mut() {
        let kept = KEPT.iter().chain(&KEPT_OF_NODES).chain(&KEPT_OF_CLUSTERS).chain(&["projects"]);
        kept.for_each(|field| drop(fields.remove(*field)));
    }
    if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
        KEPT_OF_OBJECTS.iter().for_each(|field| drop(metadata.remove(*field)));
        whole.get_mut("spec").and_then(Value::as_object_mut).map(|spec| spec.remove("templateVersion"));
    }
    whole
}

/// Returns the document as a spec; fields it does not name keep their current values.
pub(crate) fn merged<T: DeserializeOwned>(
    now: Option<&impl Serialize>,
    document: Document,
) -> anyhow::Result<T> {
    let mut whole = now.map(serde_json::to_value).transpose()?.unwrap_or_else(|| Value::Object(Map::new()));
    merge(&mut whole, Value::Object(document));
    if let Some(fields) = whole.as_object_mut() {
        KEPT.iter().for_each(|field| drop(fields.remove(*field)));
    }
    typed(whole)
}

/// Names the wrong field in the error.
fn typed<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().to_string().as_str() {
        "." => anyhow::anyhow!("{}", error.inner()),
        path => anyhow::anyhow!("{path}: {}", error.inner()),
    })
}

/// Changes settings of a spec, each named by its path. A value is read as YAML; if that does not fit the setting, it is
/// taken as a text, such as the name 007.
pub(crate) fn with_settings<T: Serialize + DeserializeOwned>(
    mut spec: T,
    set: &[(String, String)],
) -> anyhow::Result<T> {
    for (path, text) in set {
        let with = |value: Value| {
            let nest = |value, name: &str| Value::Object(Map::from_iter([(name.to_owned(), value)]));
            let settings = path.rsplit('.').fold(value, nest);
            merged(Some(&spec), Map::from_iter([("settings".to_owned(), settings)]))
        };
        let plain = Value::String(text.clone());
        let changed = with(serde_saphyr::from_str(text).unwrap_or_else(|_| plain.clone()));
        spec = changed.or_else(|error| with(plain).map_err(|_| error)).map_err(|error| {
            let said = error.to_string();
            failure(Code::Usage, format!("--set {}", said.strip_prefix("settings.").unwrap_or(&said)))
        })?;
    }
    Ok(spec)
}

/// The document as a spec of something new.
pub(crate) fn spec<T: DeserializeOwned>(document: Document) -> anyhow::Result<T> {
    merged(None::<&Value>, document)
}

/// A document that describes a satellite group.
pub(crate) fn satellite_group(document: Document) -> anyhow::Result<GroupSync> {
    let mut document = rename(document, "group");
    ["state", "projects"].iter().for_each(|kept| drop(document.remove(*kept)));
    spec(document)
}

/// Returns the name in a document: under `name`, under the field that the API of the kind uses, or in its metadata.
pub(crate) fn name(document: &Document) -> String {
    let mut names =
        ["name", "config_name", "group"].iter().filter_map(|field| document.get(*field)?.as_str());
    let nested = document.get("metadata").and_then(|metadata| metadata["name"].as_str());
    names.next().or(nested).unwrap_or_default().to_owned()
}

/// Renames `name` to the field that the API of the kind uses.
pub(crate) fn rename(mut document: Document, to: &str) -> Document {
    if let Some(name) = document.remove("name") {
        document.entry(to).or_insert(name);
    }
    document
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wardroom_api::site::SiteSpec;

    use super::{Document, merged, rename};

    fn document(value: Value) -> Document {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn unnamed_fields_stay_at_every_depth() {
        let now =
            json!({"id": "x", "name": "x", "settings": {"url": "a", "disk": {"model": "m"}, "tags": [1, 2]}});
        let change = json!({"settings": {"disk": {"serial": "s"}, "tags": [3], "url": null}});
        let merged: Value = merged(Some(&now), document(change)).unwrap();
        let expected = json!({"name": "x", "settings": {"url": null, "disk": {"model": "m", "serial": "s"}, "tags": [3]}});
        assert_eq!(merged, expected);
    }

    #[test]
    fn settings_are_set_by_their_paths() {
        let spec: SiteSpec =
            super::spec(document(json!({"name": "x", "settings": {"boot_disk": {"model": "m"}}}))).unwrap();
        let set = |text: &str| {
            let pairs: Vec<_> = text.split(' ').map(|pair| crate::text::pair(pair).unwrap()).collect();
            super::with_settings(spec.clone(), &pairs)
        };
        let settings = set("bmc_insecure=true boot_disk.serial=B1 poll_millis=500 tag=007").unwrap().settings;
        assert!(settings.bmc_insecure);
        assert_eq!((settings.poll_millis, settings.tag.as_str()), (500, "007"));
        let disk = (settings.boot_disk.model.as_deref(), settings.boot_disk.serial.as_deref());
        assert_eq!(disk, (Some("m"), Some("B1")));
        let wrong = set("bmc_insecure=perhaps").unwrap_err().to_string();
        assert!(wrong.starts_with("--set bmc_insecure: "), "{wrong}");
        let unknown = set("insecure=true").unwrap_err().to_string();
        assert!(unknown.contains("`bmc_insecure`"), "{unknown}");
    }

    #[test]
    fn a_wrong_field_is_named() {
        let wrong = super::spec::<SiteSpec>(document(json!({"name": "x", "settings": {"url": 3}})));
        assert!(wrong.unwrap_err().to_string().starts_with("settings.url: "));
    }

    #[test]
    fn a_name_is_called_as_the_api_does() {
        let renamed = |value| Value::Object(rename(document(value), "group"));
        assert_eq!(renamed(json!({"name": "a"})), json!({"group": "a"}));
        assert_eq!(renamed(json!({"name": "a", "group": "b"})), json!({"group": "b"}));
    }
}
