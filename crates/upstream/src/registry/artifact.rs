//! An image with one file, `artifacts.json`: its layer, its configuration and its manifest, byte for byte.
//!
//! The same document gives the same bytes with every version of this program and on every machine, so that two
//! servers never disagree about a digest. Nothing is compressed for that reason: a compressor may change.

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::name::hex;

mod gzip;
mod tar;

/// The file in the layer.
pub const FILE: &str = "artifacts.json";

/// The media type of the manifest.
pub const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// The media type of the configuration.
pub const CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// The media type of the layer.
pub const LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// Bytes, their media type and their digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The media type.
    pub media_type: &'static str,
    /// `sha256:` and 64 digits.
    pub digest: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A whole image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The manifest; its digest is that of the image.
    pub manifest: Blob,
    /// The configuration.
    pub config: Blob,
    /// The only layer.
    pub layer: Blob,
}

impl Artifact {
    /// The image of a document. Equal documents give equal images, regardless of the order of their keys.
    #[must_use]
    pub fn of(document: &Value) -> Self {
        let tar = tar::single(FILE, canonical(document).as_bytes());
        let diff = digest(&tar);
        let layer = Blob::new(LAYER, gzip::stored(&tar));
        let config = Blob::new(CONFIG, bytes(&Config::of(&diff)));
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            config: Descriptor::of(&config),
            layers: [Descriptor::of(&layer)],
        };
        Self { manifest: Blob::new(MANIFEST, bytes(&manifest)), config, layer }
    }

    /// The part with this digest that is fetched as a blob.
    #[must_use]
    pub fn blob(&self, digest: &str) -> Option<&Blob> {
        [&self.config, &self.layer].into_iter().find(|blob| blob.digest == digest)
    }
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&bytes), bytes }
    }
}

/// The digest of bytes, as registries write it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// JSON with sorted keys: whether `serde_json` sorts them depends on features that other crates enable.
fn canonical(value: &Value) -> String {
    let list = |parts: Vec<String>, open: char, close: char| format!("{open}{}{close}", parts.join(","));
    match value {
        Value::Array(items) => list(items.iter().map(canonical).collect(), '[', ']'),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            let parts = fields.into_iter().map(|(key, value)| format!("{}:{}", json!(key), canonical(value)));
            list(parts.collect(), '{', '}')
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    schema_version: u8,
    media_type: &'a str,
    config: Descriptor<'a>,
    layers: [Descriptor<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    media_type: &'a str,
    size: usize,
    digest: &'a str,
}

impl<'a> Descriptor<'a> {
    fn of(blob: &'a Blob) -> Self {
        Self { media_type: blob.media_type, size: blob.bytes.len(), digest: &blob.digest }
    }
}

/// Fields that readers of images require, although the image is never run.
#[derive(Serialize)]
struct Config<'a> {
    architecture: &'a str,
    os: &'a str,
    created: &'a str,
    config: Empty,
    rootfs: Layers<'a>,
    history: [History<'a>; 1],
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Layers<'a> {
    r#type: &'a str,
    diff_ids: [&'a str; 1],
}

#[derive(Serialize)]
struct History<'a> {
    created: &'a str,
    created_by: &'a str,
}

impl<'a> Config<'a> {
    fn of(diff: &'a str) -> Self {
        const THEN: &str = "1970-01-01T00:00:00Z";
        Self {
            architecture: "amd64",
            os: "linux",
            created: THEN,
            config: Empty {},
            rootfs: Layers { r#type: "layers", diff_ids: [diff] },
            history: [History { created: THEN, created_by: "wardroom" }],
        }
    }
}
