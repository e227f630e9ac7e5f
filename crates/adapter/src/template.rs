//! Templates: Go's `text/template` in one text of the configuration.
//!
//! A template gives the content of one text and nothing else, so that no value changes the structure around it. One
//! that ends in `| int`, `| float64` or `| bool` and is the whole text gives a number or a boolean.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a template has nodes and errors of many kinds that are treated alike"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use gotmpl::{
    MissingKey, TemplateError, Value as GoValue,
    parse::{Expr, ListNode, Node, PipeNode},
};
use jiff::Timestamp;
use serde_json::Value as Json;

use crate::expression::Fault;

mod functions;

/// Longest text that a template gives.
const LONGEST: usize = 256 * 1024;

/// The most rounds of all loops of one template.
const ROUNDS: u64 = 10_000;

/// The name of a template, which no message shows.
const NAME: &str = "text";

/// The values that templates see.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    /// By name.
    pub(crate) by_name: BTreeMap<String, Json>,
    /// The time of `now`.
    pub(crate) now: Timestamp,
}

/// A text that may have actions in it.
#[derive(Clone)]
pub(crate) struct Template {
    source: String,
    parsed: Option<Arc<gotmpl::Template>>,
    /// The time of `now`, in seconds.
    now: Arc<AtomicI64>,
    conversion: Option<Conversion>,
}

/// What the whole text becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    Int,
    Float,
    Bool,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

impl Template {
    /// Parses a text and checks the names that it uses.
    pub(crate) fn new(source: &str, names: &BTreeSet<String>) -> Result<Self, Vec<Fault>> {
        let now = Arc::<AtomicI64>::default();
        if !source.contains("{{") {
            return Ok(Self { source: source.to_owned(), parsed: None, now, conversion: None });
        }
        let template = gotmpl::Template::new(NAME).missing_key(MissingKey::Error).max_range_iters(ROUNDS);
        let template =
            template.funcs(functions::map(&now)).parse(source).map_err(|error| vec![fault(source, error)])?;
        let mut faults = Vec::new();
        let tree = template.lookup(NAME).cloned();
        let conversion = tree.as_ref().and_then(conversion);
        if let Some(tree) = tree {
            check(&tree, names, true, &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { source: source.to_owned(), parsed: Some(Arc::new(template)), now, conversion })
    }

    /// Returns the text when it is the same for all values.
    pub(crate) fn constant(&self) -> Option<&str> {
        self.parsed.is_none().then_some(&*self.source)
    }

    /// Returns the text; an error names what is missing and shows no value.
    pub(crate) fn render(&self, values: &Values) -> Result<String, String> {
        let Some(template) = &self.parsed else { return Ok(self.source.clone()) };
        self.now.store(values.now.as_second(), Ordering::Relaxed);
        let mut output = Bounded(String::new());
        template.execute_fmt(&mut output, &functions::object(values)).map_err(|error| words(&error))?;
        Ok(output.0)
    }

    /// Returns the text, or what it is converted to.
    pub(crate) fn value(&self, values: &Values) -> Result<Json, String> {
        let text = self.render(values)?;
        let trimmed = text.trim();
        let unread = |form: &str| format!("the template gives no {form}");
        match self.conversion {
            None => Ok(Json::from(text)),
            Some(Conversion::Int) => trimmed.parse::<i64>().map(Json::from).map_err(|_| unread("integer")),
            Some(Conversion::Float) => trimmed.parse::<f64>().map(Json::from).map_err(|_| unread("number")),
            Some(Conversion::Bool) => trimmed.parse::<bool>().map(Json::from).map_err(|_| unread("boolean")),
        }
    }
}

/// A text that ends with an error when it becomes too long.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn fault(source: &str, error: TemplateError) -> Fault {
    match error {
        TemplateError::Parse { line, col, message, .. } | TemplateError::Lex { line, col, message, .. } => {
            let start: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
            let column: usize = source[start..].chars().take(col.saturating_sub(1)).map(char::len_utf8).sum();
            Fault { at: start + column, why: format!("the template cannot be read: {message}") }
        }
        other => Fault { at: 0, why: words(&other) },
    }
}

/// Returns an error in words; none of them shows a value.
fn words(error: &TemplateError) -> String {
    match error {
        TemplateError::MissingKey { key, .. } => format!("the template needs `{key}`, which has no value"),
        TemplateError::Exec(_) => "the template cannot be applied to its values".to_owned(),
        _ => "the template fails for its values".to_owned(),
    }
}

/// Returns what a template that is one action is converted to.
fn conversion(tree: &ListNode) -> Option<Conversion> {
    let [Node::Action(action)] = tree.nodes.as_slice() else { return None };
    let last = action.pipe.commands.last()?;
    match last.args.first()? {
        Expr::Identifier(_, name) => match name.as_str() {
            "int" | "int64" => Some(Conversion::Int),
            "float" | "float64" => Some(Conversion::Float),
            "bool" => Some(Conversion::Bool),
            _ => None,
        },
        _ => None,
    }
}

/// Reports the names that nothing declares. Inside of `with` and `range` the dot is another value.
fn check(list: &ListNode, names: &BTreeSet<String>, is_root: bool, faults: &mut Vec<Fault>) {
    for node in &list.nodes {
        match node {
            Node::List(list) => check(list, names, is_root, faults),
            Node::Action(action) => check_pipe(&action.pipe, names, is_root, faults),
            Node::If(branch) => {
                check_pipe(&branch.pipe, names, is_root, faults);
                check(&branch.body, names, is_root, faults);
                branch.else_body.iter().for_each(|body| check(body, names, is_root, faults));
            }
            Node::Range(branch) | Node::With(branch) => {
                check_pipe(&branch.pipe, names, is_root, faults);
                check(&branch.body, names, false, faults);
                branch.else_body.iter().for_each(|body| check(body, names, is_root, faults));
            }
            Node::Template(template) => {
                template.pipe.iter().for_each(|pipe| check_pipe(pipe, names, is_root, faults));
            }
            Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_) => {}
        }
    }
}

fn check_pipe(pipe: &PipeNode, names: &BTreeSet<String>, is_root: bool, faults: &mut Vec<Fault>) {
    for argument in pipe.commands.iter().flat_map(|command| &command.args) {
        let name = match argument {
            Expr::Field(at, path) if is_root => path.first().map(|name| (*at, name)),
            // `$` is the root everywhere.
            Expr::Variable(at, variable, path) if variable == "$" => path.first().map(|name| (*at, name)),
            Expr::Identifier(at, name) if !functions::is_known(name) => {
                faults.push(Fault {
                    at: at.offset,
                    why: format!("there is no function `{name}` in templates"),
                });
                None
            }
            Expr::Pipe(_, pipe) => {
                check_pipe(pipe, names, is_root, faults);
                None
            }
            _ => None,
        };
        if let Some((at, name)) = name.filter(|(_, name)| !names.contains(name.as_str())) {
            let known: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let why = format!("`{name}` is not declared; templates here see {}", known.join(", "));
            faults.push(Fault { at: at.offset, why });
        }
    }
}

/// Returns JSON as a value of a template. A double without a fraction is written without one.
fn go(json: &Json) -> GoValue {
    match json {
        Json::Null => GoValue::Nil,
        Json::Bool(value) => GoValue::Bool(*value),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| GoValue::Float(number.as_f64().unwrap_or_default()), GoValue::Int)
        }
        Json::String(text) => GoValue::String(Arc::from(text.as_str())),
        Json::Array(values) => GoValue::List(values.iter().map(go).collect()),
        Json::Object(entries) => {
            // A null has no value, so that it is not written as one.
            let entries = entries.iter().filter(|(_, value)| !value.is_null());
            let entries = entries.map(|(key, value)| (Arc::from(key.as_str()), go(value)));
            GoValue::Map(Arc::new(entries.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract;

    fn values(json: &Json) -> Values {
        let by_name = json.as_object().unwrap().clone().into_iter().collect();
        Values { by_name, now: "2026-11-19T12:00:00.5Z".parse().unwrap() }
    }

    fn names(values: &Values) -> BTreeSet<String> {
        values.by_name.keys().cloned().collect()
    }

    #[test]
    fn a_template_is_text_unless_it_says_otherwise() {
        let values = values(&json!({"n": 3, "t": "a: b\nc: d", "yes": true, "f": "2.5"}));
        let value = |source: &str| Template::new(source, &names(&values)).unwrap().value(&values);
        assert_eq!(value("{{ .n }}"), Ok(json!("3")));
        assert_eq!(value("{{ .n | int }}"), Ok(json!(3)));
        assert_eq!(value("{{ .f | float64 }}"), Ok(json!(2.5)));
        assert_eq!(value("{{ .yes | bool }}"), Ok(json!(true)));
        assert_eq!(value("{{ .n | int }}m"), Ok(json!("3m")));
        assert_eq!(value("{{ .t }}"), Ok(json!("a: b\nc: d")));
        assert_eq!(
            value("{{ now | date \"2006-01-02T15:04:05Z07:00\" }}"),
            Ok(json!("2026-11-19T12:00:00Z"))
        );
        assert_eq!(value("plain"), Ok(json!("plain")));
        assert!(value("{{ .t | bool }}").is_err());
    }

    #[test]
    fn undeclared_names_and_mistakes_have_a_place() {
        let names = ["a".to_owned()].into();
        let faults = |source: &str| Template::new(source, &names).unwrap_err();
        assert_eq!(faults("x {{ .b }}")[0].at, 5);
        assert!(faults("x {{ .b }}")[0].why.contains("`b` is not declared; templates here see `a`"));
        assert!(faults("{{ if .a }}{{ .c | lower }}{{ end }}")[0].why.contains("`c`"));
        assert!(faults("{{ range .a }}{{ $.d }}{{ end }}")[0].why.contains("`d`"));
        assert!(!faults("{{ .a | frob }}").is_empty());
        assert!(!faults("{{ .a ").is_empty());
        assert!(
            Template::new("{{ range .a }}{{ .x }}{{ end }}{{ with .a }}{{ .y }}{{ end }}", &names).is_ok()
        );
    }

    #[test]
    fn no_template_grows_without_end() {
        let values = values(&json!({"l": (0..200).collect::<Vec<_>>(), "s": "x".repeat(1000)}));
        let source = "{{ range .l }}{{ range $.l }}{{ range $.l }}{{ $.s }}{{ end }}{{ end }}{{ end }}";
        assert!(Template::new(source, &names(&values)).unwrap().render(&values).is_err());
        let source = "{{ printf \"%999999999s\" .s }}";
        assert!(Template::new(source, &names(&values)).unwrap().render(&values).is_err());
    }

    #[test]
    fn contract_recorded_templates_have_the_recorded_results() {
        let Some(rows) = contract::recorded("hyperfleet-cel-oracle.jsonl") else { return };
        // A null has no value, an upper case ß is SS, and an `end` too many is harmless.
        let different = ["{{ .nul }}", "{{ .uni | upper }}", "{{ end }}"];
        let mut count = 0;
        for row in rows.iter().filter(|row| row["table"] == "template") {
            let source = row["template"].as_str().unwrap();
            let values = values(&row["params"]);
            let ours = Template::new(source, &names(&values)).map_err(|faults| faults[0].why.clone());
            let ours = ours.and_then(|template| template.render(&values));
            count += 1;
            if different.contains(&source) {
                continue;
            }
            match row["expect"]["value"].as_str() {
                Some(expected) => assert_eq!(ours.as_deref(), Ok(expected), "{source}"),
                None => assert!(ours.is_err(), "{source}: {ours:?}"),
            }
        }
        assert!(count > 40, "{count} rows");
    }
}
