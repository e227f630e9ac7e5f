//! Calls of the HyperFleet API: reads, below the server's own address.

use super::{Names, reader::Reader};
use crate::{template::Template, yaml::Node};

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// A path such as `/clusters/{{ .clusterId }}`, or a URL that begins with the server's.
    pub(crate) url: Template,
}

/// Keys that the framework decides by itself, and that are understood so that a configuration need not be changed.
const DECIDED: &[&str] = &["timeout", "retry_attempts", "retry_backoff", "headers"];

impl Reader {
    pub(super) fn call(&mut self, node: &Node, path: &str, names: &Names) -> Option<Call> {
        let mut known = vec!["method", "url"];
        known.extend(DECIDED);
        let fields = self.fields(node, path, &known)?;
        let method = self.text(&fields, "method");
        if method.is_some_and(|method| !method.eq_ignore_ascii_case("GET")) {
            self.note(
                fields.place("method"),
                &fields.of("method"),
                "only GET reads without changing anything",
            );
        }
        let Some(node) = fields.get("url") else {
            self.note(fields.at, &fields.of("url"), "is required");
            return None;
        };
        self.template(node, &fields.of("url"), &names.templates).map(|url| Call { url })
    }
}
