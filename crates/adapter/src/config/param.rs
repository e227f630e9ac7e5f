//! Parameters: named values of an event, and where they come from.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value as Json;

use super::{
    Call, FieldPath, Names,
    reader::{Fields, Reader},
};
use crate::{expression::Expression, template::Template, yaml::Node};

/// A parameter.
#[derive(Debug, Clone)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) kind: Option<Kind>,
    pub(crate) default: Option<Json>,
    pub(crate) is_required: bool,
    /// Whether it comes from the environment: no expression and no trace sees it.
    pub(crate) is_hidden: bool,
}

/// The origin of a parameter.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// `event.x`, `cluster.x`, `config.x`, or the path of an earlier parameter.
    Field(FieldPath),
    Environment(String),
    Expression(Expression),
    Call(Call),
    File(PathBuf),
    /// The addresses of a name.
    Dns(Template),
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Int,
    Float,
    Bool,
}

const KINDS: &[(&str, Kind)] = &[
    ("string", Kind::String),
    ("int", Kind::Int),
    ("int64", Kind::Int),
    ("float", Kind::Float),
    ("float64", Kind::Float),
    ("bool", Kind::Bool),
];

impl Kind {
    /// Converts a value.
    #[expect(clippy::cast_possible_truncation, reason = "a conversion to an integer cuts the fraction off")]
    pub(crate) fn convert(self, value: &Json) -> Result<Json, String> {
        let mismatch = || Err(format!("it cannot be converted to {}", self.word()));
        match (self, value) {
            (Self::String, Json::String(_)) | (Self::Bool, Json::Bool(_)) => Ok(value.clone()),
            (Self::String, Json::Array(_) | Json::Object(_) | Json::Null) => mismatch(),
            (Self::String, other) => Ok(Json::from(other.to_string())),
            (Self::Int | Self::Float, Json::Bool(value)) => Ok(Json::from(i64::from(*value))),
            (Self::Int, Json::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(_), _) => Ok(value.clone()),
                (None, Some(float)) if float.abs() < 9.2e18 => Ok(Json::from(float as i64)),
                _ => mismatch(),
            },
            (Self::Int, Json::String(text)) => match (text.trim().parse::<i64>(), text.trim().parse::<f64>())
            {
                (Ok(whole), _) => Ok(Json::from(whole)),
                (Err(_), Ok(float)) if float.abs() < 9.2e18 => Ok(Json::from(float as i64)),
                _ => mismatch(),
            },
            (Self::Float, Json::Number(number)) => Ok(Json::from(number.as_f64())),
            (Self::Float, Json::String(text)) => match text.trim().parse::<f64>() {
                Ok(float) if float.is_finite() => Ok(Json::from(float)),
                _ => mismatch(),
            },
            (Self::Bool, Json::Number(number)) => Ok(Json::from(number.as_f64() != Some(0.0))),
            (Self::Bool, Json::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "t" | "1" | "yes" | "y" | "on" => Ok(Json::from(true)),
                "false" | "f" | "0" | "no" | "n" | "off" => Ok(Json::from(false)),
                _ => mismatch(),
            },
            (_, Json::Null | Json::Array(_) | Json::Object(_)) => mismatch(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Int => "an integer",
            Self::Float => "a number",
            Self::Bool => "a boolean",
        }
    }
}

impl Reader {
    pub(super) fn params(&mut self, fields: &Fields<'_>, names: &mut Names) -> Vec<Param> {
        let mut taken = BTreeSet::new();
        let nodes = self.list(fields.get("params"), "params");
        let params = nodes.iter().enumerate();
        params
            .filter_map(|(at, node)| self.param(node, &format!("params[{at}]"), names, &mut taken))
            .collect()
    }

    fn param(
        &mut self,
        node: &Node,
        path: &str,
        names: &mut Names,
        taken: &mut BTreeSet<String>,
    ) -> Option<Param> {
        let known = &[
            "name",
            "source",
            "type",
            "default",
            "required",
            "description",
            "api_call",
            "expression",
            "file",
            "dns",
        ];
        let fields = self.fields(node, path, known)?;
        let name = self.required(&fields, "name");
        if let Some(name) = &name {
            self.check_name(name, fields.place("name"), &fields.of("name"), taken);
        }
        let source = self.source(&fields, names);
        let kind = self.word(&fields, "type", KINDS);
        let is_required = self.boolean(&fields, "required").unwrap_or(false);
        let default = fields.get("default").map(Node::to_json).filter(|value| !value.is_null());
        if let Some(Err(why)) = kind.zip(default.as_ref()).map(|(kind, value)| kind.convert(value)) {
            self.note(fields.place("default"), &fields.of("default"), why);
        }
        let name = name?;
        let is_hidden = source.as_ref().is_some_and(|source| self.is_hidden(source, names));
        if is_hidden {
            names.hide(&name)
        } else {
            names.add(&name)
        }
        Some(Param { name, source: source?, kind, default, is_required, is_hidden })
    }

    /// A parameter that is made of one from the environment is hidden as well.
    fn is_hidden(&self, source: &Source, names: &Names) -> bool {
        match source {
            Source::Environment(_) => true,
            Source::Field(path) => path.root().is_some_and(|root| names.declared.is_hidden(root)),
            Source::Expression(_) | Source::Call(_) | Source::File(_) | Source::Dns(_) => false,
        }
    }

    fn source(&mut self, fields: &Fields<'_>, names: &Names) -> Option<Source> {
        let origins = ["source", "api_call", "expression", "file", "dns"];
        let given: Vec<_> = origins.iter().filter(|name| fields.get(name).is_some()).collect();
        if given.len() != 1 {
            let why = "needs one of `source`, `expression`, `api_call`, `file` and `dns`";
            self.note(fields.at, &fields.path, why);
            return None;
        }
        match *given[0] {
            "source" => self.source_path(fields, names),
            "expression" => {
                let node = fields.get("expression")?;
                self.expression(node, &fields.of("expression"), &names.declared).map(Source::Expression)
            }
            "api_call" => self.call(fields.get("api_call")?, &fields.of("api_call"), names).map(Source::Call),
            "file" => self.text(fields, "file").map(|file| Source::File(self.folder.join(file))),
            _ => {
                let names = &names.templates;
                self.template(fields.get("dns")?, &fields.of("dns"), names).map(Source::Dns)
            }
        }
    }

    fn source_path(&mut self, fields: &Fields<'_>, names: &Names) -> Option<Source> {
        let text = self.text(fields, "source")?;
        let at = fields.place("source");
        if let Some(name) = text.strip_prefix("env.") {
            if name.is_empty() {
                self.note(at, &fields.of("source"), "needs a name, such as env.REGION");
            }
            return Some(Source::Environment(name.to_owned()));
        }
        let path = match FieldPath::new(&text) {
            Ok(path) => path,
            Err(why) => {
                self.note(at, &fields.of("source"), why);
                return None;
            }
        };
        if let Some(root) = path.root().filter(|root| !names.templates.contains(*root)) {
            let why =
                format!("`{root}` is none of `event`, `env`, `cluster`, `config` and the parameters before");
            self.note(at, &fields.of("source"), why);
        }
        Some(Source::Field(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{contract, expression::Value};

    #[test]
    fn contract_recorded_conversions_have_the_recorded_results() {
        let Some(rows) = contract::recorded("hyperfleet-cel-oracle.jsonl") else { return };
        let mut count = 0;
        for row in rows.iter().filter(|row| row["table"] == "convert") {
            // There are no unsigned integers here.
            let value = row["value"].get("$uint").unwrap_or(&row["value"]);
            let Some((_, kind)) = KINDS.iter().find(|(word, _)| row["to"] == *word) else { continue };
            count += 1;
            let ours = kind.convert(value);
            match row["expect"].get("value") {
                Some(expected) => {
                    let ours = ours.unwrap_or_else(|why| panic!("{row}: {why}"));
                    assert!(Value::from(&ours).equals(&Value::from(expected)), "{row}: {ours}");
                }
                None => assert!(ours.is_err(), "{row}: {ours:?}"),
            }
        }
        assert!(count > 20, "{count} rows");
    }
}
