//! The resource that a request was about, as its path names it.

use clap::ValueEnum as _;

use crate::kind::Kind;

/// The resource that a request was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) id: String,
}

impl Subject {
    /// Reads the resource out of a path, if it names one.
    pub(crate) fn of(path: &str) -> Option<Self> {
        // A server may be found below a path of its own.
        let path = path.find("/api/").map(|at| &path[at..])?;
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let (kind, id) = match segments.as_slice() {
            ["api", "v1", "resources", kind, id, ..] => (Kind::from_str(kind, false).ok()?, id),
            ["api", "v1", "nodes", "bulk", ..] | ["api", "groups" | "configs", "satellite" | "sync"] => {
                return None;
            }
            ["api", "hyperfleet", "v1", collection, id, ..] | ["api", "v1", collection, id, ..] => {
                (Kind::from_str(collection, false).ok()?, id)
            }
            ["api", "satellites", id, ..] => (Kind::Satellite, id),
            ["api", "groups", id, ..] => (Kind::SatelliteGroup, id),
            ["api", "configs", id, ..] => (Kind::SatelliteConfig, id),
            _ => return None,
        };
        Some(Self { kind, id: (*id).to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Subject;
    use crate::kind::Kind;

    #[test]
    fn a_path_says_what_it_is_about() {
        let check = |path: &str, expected: Option<(Kind, &str)>| {
            let expected = expected.map(|(kind, id)| Subject { kind, id: id.to_owned() });
            assert_eq!(Subject::of(path), expected, "{path}");
        };
        check("/api/v1/runs/r1/actions/cancel", Some((Kind::Run, "r1")));
        check("/below/api/v1/gpu-nodes/g1", Some((Kind::GpuNode, "g1")));
        check("/api/v1/resources/node/n1/why", Some((Kind::Node, "n1")));
        check("/api/satellites/edge/revoke", Some((Kind::Satellite, "edge")));
        check("/api/hyperfleet/v1/clusters/east/statuses", Some((Kind::Cluster, "east")));
        check("/api/configs/quiet", Some((Kind::SatelliteConfig, "quiet")));
        check("/api/v1/nodes/bulk/state", None);
        check("/api/groups/satellite", None);
        check("/api/v1/nodes", None);
        check("/livez", None);
    }
}
