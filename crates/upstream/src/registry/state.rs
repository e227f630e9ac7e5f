//! The documents that satellites fetch: their locations, and the fields that the real client requires.
//!
//! A satellite reads its own state, which names the states of its groups and a configuration.

use serde::Serialize;
use serde_json::{Value, json};

use crate::name;

/// The subject of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    /// One satellite.
    Satellite(&'a str),
    /// A group of satellites.
    Group(&'a str),
    /// A configuration.
    Config(&'a str),
}

impl About<'_> {
    /// The repository of the state within a project. The client reads its own name from this path, so a valid
    /// name stays the same; any other one is replaced by a valid one.
    #[must_use]
    pub fn repository(self) -> String {
        let (folder, name) = match self {
            Self::Satellite(name) => ("satellite-state", name),
            Self::Group(name) => ("group-state", name),
            Self::Config(name) => ("config-state", name),
        };
        format!("{folder}/{}/state", name::legal(name))
    }
}

/// A document that the client would choke on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A satellite's state names no group.
    #[error("the state of a satellite must name at least one group's state")]
    NoStates,
    /// A satellite's state names no configuration.
    #[error("the state of a satellite must name a configuration")]
    NoConfig,
    /// The repository of an artifact has no project in front.
    #[error("{0:?} is not a repository within a project")]
    Repository(String),
}

/// The state of a satellite. With an empty list or without a configuration the client fails in every round, so a satellite without
/// groups is given the state of an empty group.
///
/// # Errors
/// [`Invalid`] when it would fail.
pub fn satellite(groups: &[String], config: &str) -> Result<Value, Invalid> {
    if groups.is_empty() {
        return Err(Invalid::NoStates);
    }
    if config.is_empty() {
        return Err(Invalid::NoConfig);
    }
    Ok(json!({"states": groups, "config": config}))
}

/// An image that a group has its satellites keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// Project and repository, such as `library/alpine`.
    pub repository: String,
    /// Its tags.
    pub tag: Vec<String>,
    /// Its type, usually `docker`.
    pub r#type: String,
    /// Its digest, where known.
    pub digest: String,
    /// The client ignores it, so deleted artifacts must be left out.
    pub deleted: bool,
    /// Labels, where there are any.
    pub labels: Option<Vec<String>>,
}

/// The state of a group. Images without tags are left out, as are deleted ones: the client would drop the former and keep the latter.
///
/// # Errors
/// [`Invalid::Repository`] when an image is in no project.
pub fn group(group: &str, registry: &str, images: &[Image]) -> Result<Value, Invalid> {
    let kept: Vec<_> = images.iter().filter(|image| !image.tag.is_empty() && !image.deleted).collect();
    let is_within = |image: &Image| {
        image
            .repository
            .split_once('/')
            .is_some_and(|(project, rest)| !project.is_empty() && !rest.is_empty())
    };
    if let Some(image) = kept.iter().find(|image| !is_within(image)) {
        return Err(Invalid::Repository(image.repository.clone()));
    }
    Ok(json!({"group": group, "registry": registry, "artifacts": kept}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{About, Image, Invalid, group, satellite};

    fn image(repository: &str, tags: &[&str], deleted: bool) -> Image {
        Image {
            repository: repository.to_owned(),
            tag: tags.iter().map(|&tag| tag.to_owned()).collect(),
            r#type: "docker".to_owned(),
            digest: String::new(),
            deleted,
            labels: None,
        }
    }

    #[test]
    fn the_name_is_in_the_path() {
        assert_eq!(About::Satellite("edge-01").repository(), "satellite-state/edge-01/state");
        assert_eq!(About::Group("eu").repository(), "group-state/eu/state");
        assert_eq!(About::Config("c").repository(), "config-state/c/state");
        assert!(About::Satellite("a-").repository().starts_with("satellite-state/x-a-"));
    }

    #[test]
    fn a_satellite_has_groups_and_a_configuration() {
        let groups = ["https://h/g".to_owned()];
        assert_eq!(satellite(&groups, "https://h/c"), Ok(json!({"states": groups, "config": "https://h/c"})));
        assert_eq!(satellite(&[], "https://h/c"), Err(Invalid::NoStates));
        assert_eq!(satellite(&groups, ""), Err(Invalid::NoConfig));
    }

    #[test]
    fn a_group_lists_only_what_is_to_be_kept() {
        let images = [image("p/a", &["1"], false), image("p/b", &[], false), image("p/c", &["1"], true)];
        let document = group("eu", "https://h", &images).unwrap();
        assert_eq!(document["artifacts"].as_array().unwrap().len(), 1);
        assert_eq!(document["artifacts"][0]["repository"], "p/a");
        assert_eq!(document["artifacts"][0]["tag"], json!(["1"]));
        for wrong in ["alpine", "/alpine", "p/"] {
            let refused = group("eu", "https://h", &[image(wrong, &["1"], false)]);
            assert_eq!(refused, Err(Invalid::Repository(wrong.to_owned())));
        }
        assert_eq!(group("eu", "https://h", &[]).unwrap()["artifacts"], json!([]));
    }
}
