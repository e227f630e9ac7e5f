//! Regular expressions, by the engine of `cel`: its time is linear in the text.

use std::sync::{Arc, LazyLock};

use cel::{Context, Env, Program};

use crate::expression::{Failure, Value, evaluate::Outcome};

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
static PROGRAM: LazyLock<Option<Program>> = LazyLock::new(|| ENV.compile("text.matches(pattern)").ok());

/// Returns whether a pattern matches anywhere in a text.
pub(in crate::expression) fn matches(text: &str, pattern: &str) -> Outcome {
    let mut context = Context::with_env(Arc::clone(&ENV));
    context.add_variable_from_value("text", text.to_owned());
    context.add_variable_from_value("pattern", pattern.to_owned());
    let result = PROGRAM.as_ref().map(|program| program.execute(&context));
    match result {
        Some(Ok(cel::Value::Bool(is_match))) => Ok(Value::Bool(is_match)),
        _ => Err(Failure::Mistake("`matches` needs a valid regular expression".to_owned())),
    }
}
