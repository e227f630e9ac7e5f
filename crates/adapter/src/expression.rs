//! Expressions: CEL and the dialect of the document, parsed by `cel` and evaluated within a budget.
//!
//! Null and a missing field are alike for `??`, `nil`, `has` and optional fields. A missing field is false in a
//! condition and nothing elsewhere; a mistake of type is an error of the adapter.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an expression meets values of every type, and refuses those it does not name"
)]

use std::collections::{BTreeMap, BTreeSet};

use cel::{Env, IdedExpr, ParseErrors};
use jiff::Timestamp;

mod evaluate;
mod functions;
mod lex;
mod translate;
mod value;

pub(crate) use value::Value;

/// Returns whether a regular expression matches anywhere in a text; a wrong one matches nothing.
pub(crate) fn matches(text: &str, pattern: &str) -> bool {
    functions::matches(text, pattern).is_ok_and(|value| value == Value::Bool(true))
}

/// The names that an expression may use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared {
    /// Variables, with the fields that they have where the configuration says so.
    variables: BTreeMap<String, Option<BTreeSet<String>>>,
    /// Parameters from the environment, which only templates see.
    hidden: BTreeSet<String>,
    /// Whether any other name may be used: fields of an answer that nobody declares.
    is_open: bool,
}

impl Declared {
    /// Declares a variable.
    pub(crate) fn add(&mut self, name: &str) {
        self.variables.insert(name.to_owned(), None);
    }

    /// Declares a variable with exactly these fields.
    pub(crate) fn add_with(&mut self, name: &str, fields: BTreeSet<String>) {
        self.variables.insert(name.to_owned(), Some(fields));
    }

    /// Declares a name that expressions may not see.
    pub(crate) fn hide(&mut self, name: &str) {
        self.variables.remove(name);
        self.hidden.insert(name.to_owned());
    }

    /// Returns whether a name comes from the environment.
    pub(crate) fn is_hidden(&self, name: &str) -> bool {
        self.hidden.contains(name)
    }

    /// Returns the reason why a name may not be used.
    pub(crate) fn refuse(&self, name: &str) -> Option<String> {
        if self.hidden.contains(name) {
            return Some(format!(
                "`{name}` comes from the environment, which only templates of manifests and calls see"
            ));
        }
        let is_known = self.is_open || self.variables.contains_key(name);
        (!is_known).then(|| format!("`{name}` is not declared; declared are {}", self.known()))
    }

    /// Permits every other name.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    fn variable(&self, name: &str) -> Option<Option<&BTreeSet<String>>> {
        match self.variables.get(name) {
            Some(fields) => Some(fields.as_ref()),
            None if self.is_open && !self.hidden.contains(name) => Some(None),
            None => None,
        }
    }

    fn known(&self) -> String {
        translate::list(self.variables.keys().map(String::as_str))
    }
}

/// A fault of an expression, found without evaluating it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The byte of the expression.
    pub(crate) at: usize,
    pub(crate) why: String,
}

impl Fault {
    fn new(at: usize, why: String) -> Self {
        Self { at, why }
    }
}

/// The end of an evaluation without a value. No text shows a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// A field is missing or null.
    #[error("{0}")]
    Missing(String),
    /// A mistake of type, which no input makes right.
    #[error("{0}")]
    Mistake(String),
    /// The expression does too much.
    #[error("it does more than an expression may: simplify it")]
    Budget,
}

/// The variables of an evaluation.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) variables: BTreeMap<String, Value>,
    pub(crate) now: Timestamp,
}

/// An expression that was checked.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    tree: IdedExpr,
}

impl Expression {
    /// Checks and parses an expression.
    pub(crate) fn new(source: &str, declared: &Declared) -> Result<Self, Vec<Fault>> {
        let translation = translate::translate(source, declared)?;
        let tree = parse(&translation.text).map_err(|errors| {
            let first = errors.as_ref().and_then(|errors| errors.errors.first());
            let column = first.map_or(0, |error| error.pos.1.max(1) - 1);
            let at = translation.origin(usize::try_from(column).unwrap_or(0));
            // The parser's own words for some mistakes are its inner state.
            let why = first.map(|error| error.msg.replace('\n', " ")).filter(|why| !why.contains('{'));
            vec![Fault::new(at, why.unwrap_or_else(|| "cannot be read".to_owned()))]
        })?;
        Ok(Self { tree })
    }

    /// Evaluates to a value.
    pub(crate) fn evaluate(&self, scope: &Scope) -> Result<Value, Failure> {
        evaluate::Evaluation::new(scope).evaluate(&self.tree, &mut Vec::new())
    }

    /// Evaluates to a value; nothing when it is missing or null.
    pub(crate) fn find(&self, scope: &Scope) -> Result<Option<Value>, Failure> {
        match self.evaluate(scope) {
            Ok(Value::Null | Value::Optional(None)) | Err(Failure::Missing(_)) => Ok(None),
            Ok(Value::Optional(Some(value))) => Ok(Some((*value).clone())),
            Ok(value) => Ok(Some(value)),
            Err(other) => Err(other),
        }
    }

    /// Evaluates to yes or no; a missing field is no.
    pub(crate) fn test(&self, scope: &Scope) -> Result<bool, Failure> {
        match self.find(scope)? {
            None => Ok(false),
            Some(Value::Bool(is_true)) => Ok(is_true),
            Some(other) => {
                Err(Failure::Mistake(format!("a condition has to be true or false, and is {}", other.kind())))
            }
        }
    }
}

/// The stack of the parser, which recurses through many rules for each bracket.
const STACK: usize = 32 << 20;

/// Parses an expression, on a thread whose stack fits whatever [`translate`] lets through.
fn parse(text: &str) -> Result<IdedExpr, Option<ParseErrors>> {
    std::thread::scope(|threads| {
        // Without macros: loops are calls that the evaluation counts.
        let parse = || Env::default().parser().parse(text);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(threads, parse);
        let parsed = thread.ok().and_then(|thread| thread.join().ok());
        parsed.ok_or(None)?.map_err(Some)
    })
}

#[cfg(test)]
mod tests;
