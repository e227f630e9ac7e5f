//! `search`: which clusters of a list are meant, as HyperFleet's clients write it.
//!
//! ```text
//! name = 'c1' and (labels.region in ('us-east', 'us-west') or not status.conditions.Reconciled = 'True')
//! ```
//!
//! | Field                                   | Compared as                                                       |
//! |-----------------------------------------|-------------------------------------------------------------------|
//! | `id`, `name`, `created_by`, `updated_by`| text                                                              |
//! | `generation`                            | number                                                            |
//! | `created_time`, `updated_time`, `deleted_time` | time                                                       |
//! | `labels.KEY`                            | text                                                              |
//! | `spec.PATH`                             | the text, number or flag at this path                             |
//! | `status.conditions.TYPE`                | text: the condition's status                                      |
//! | `status.conditions.TYPE.observed_generation`, `….last_updated_time`, `….last_transition_time` | number, time |
//!
//! A field that is missing fulfils `is null` only. Comparisons are `= != < <= > >= in between like ilike is null`.

use jiff::Timestamp;

use crate::Invalid;

mod parse;

/// Bytes of one search at most.
pub const MOST_BYTES: usize = 4096;

/// A search that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// All of these hold.
    All(Vec<Self>),
    /// One of these holds.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
    /// A field compares like this.
    Field(Field, Test),
}

/// What a search looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A column of every cluster.
    Column(Column),
    /// A label.
    Label(String),
    /// A value in the spec, by its path.
    Spec(Vec<String>),
    /// The status of a condition.
    Condition(String),
    /// More of a condition.
    Detail(String, Detail),
}

/// A column of every cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named like the fields")]
pub enum Column {
    Id,
    Name,
    Generation,
    CreatedTime,
    UpdatedTime,
    DeletedTime,
    CreatedBy,
    UpdatedBy,
}

/// More of a condition than its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named like the fields")]
pub enum Detail {
    ObservedGeneration,
    LastUpdatedTime,
    LastTransitionTime,
}

/// How a field has to compare.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Against one value.
    Than(Compare, Literal),
    /// It is one of these.
    In(Vec<Literal>),
    /// It lies between these, both included.
    Between(Literal, Literal),
    /// It matches a pattern with `%` and `_`.
    Like {
        /// The pattern.
        pattern: String,
        /// Whether capitals matter.
        exact: bool,
    },
    /// It is missing.
    Null,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operators that everyone knows")]
pub enum Compare {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// A value of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A text in quotes.
    Text(String),
    /// A number.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// A time.
    Time(Timestamp),
}

impl Search {
    /// Reads a search.
    ///
    /// # Errors
    /// Where it cannot be read, and what was expected there.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > MOST_BYTES {
            return Err(Invalid::new("search", format!("has more than {MOST_BYTES} bytes; shorten it")));
        }
        parse::parse(text).map_err(|message| Invalid::new("search", message))
    }

    /// Whether the search holds of something with these values.
    pub fn holds(&self, value: &impl Fn(&Field) -> Option<Value>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(value)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(value)),
            Self::Not(part) => !part.holds(value),
            Self::Field(field, test) => test.holds(value(field)),
        }
    }

    /// The parts that all have to hold.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::All(parts) => parts.iter().flat_map(Self::parts).collect(),
            Self::Any(_) | Self::Not(_) | Self::Field(..) => vec![self],
        }
    }

    /// Whether the search looks at a field like this.
    pub fn looks_at(&self, wanted: fn(&Field) -> bool) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.looks_at(wanted)),
            Self::Not(part) => part.looks_at(wanted),
            Self::Field(field, _) => wanted(field),
        }
    }
}

impl Test {
    fn holds(&self, value: Option<Value>) -> bool {
        let Some(value) = value else { return matches!(self, Self::Null) };
        match self {
            Self::Than(Compare::Unequal, literal) => {
                order(&value, literal) != Some(std::cmp::Ordering::Equal)
            }
            Self::Than(compare, literal) => order(&value, literal).is_some_and(|order| compare.fits(order)),
            Self::In(literals) => {
                literals.iter().any(|literal| order(&value, literal).is_some_and(|o| o.is_eq()))
            }
            Self::Between(low, high) => {
                order(&value, low).is_some_and(|order| order.is_ge())
                    && order(&value, high).is_some_and(|order| order.is_le())
            }
            Self::Like { pattern, exact } => {
                let Value::Text(text) = value else { return false };
                if *exact {
                    like(pattern, &text)
                } else {
                    like(&pattern.to_lowercase(), &text.to_lowercase())
                }
            }
            Self::Null => false,
        }
    }
}

impl Compare {
    fn fits(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// How a value compares with a literal; nothing where they do not.
fn order(value: &Value, literal: &Literal) -> Option<std::cmp::Ordering> {
    match (value, literal) {
        (Value::Text(value), Literal::Text(literal)) => Some(value.as_str().cmp(literal)),
        (Value::Number(value), Literal::Number(literal)) => value.partial_cmp(literal),
        (Value::Number(value), Literal::Text(literal)) => value.partial_cmp(&literal.parse().ok()?),
        (Value::Text(value), Literal::Number(literal)) => value.parse::<f64>().ok()?.partial_cmp(literal),
        (Value::Flag(value), Literal::Flag(literal)) => Some(value.cmp(literal)),
        (Value::Time(value), Literal::Text(literal)) => Some(value.cmp(&literal.parse().ok()?)),
        (Value::Text(value), Literal::Flag(literal)) => Some(value.as_str().cmp(&literal.to_string())),
        (Value::Flag(value), Literal::Text(literal)) => Some(value.to_string().as_str().cmp(literal)),
        (Value::Flag(_), Literal::Number(_))
        | (Value::Number(_), Literal::Flag(_))
        | (Value::Time(_), Literal::Number(_) | Literal::Flag(_)) => None,
    }
}

/// Matches a text against a pattern, in time that grows with the product of their lengths at most.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where the last `%` was, and how much of the text it covers.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&'%') {
            star = Some((at, from));
            at += 1;
        } else if pattern.get(at).is_some_and(|one| *one == '_' || *one == text[from]) {
            (at, from) = (at + 1, from + 1);
        } else if let Some((percent, covered)) = star {
            star = Some((percent, covered + 1));
            (at, from) = (percent + 1, covered + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|one| *one == '%')
}

#[cfg(test)]
mod tests {
    use super::{Column, Detail, Field, Search, Value};

    fn value(field: &Field) -> Option<Value> {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        match field {
            Field::Column(Column::Name) => text("prod-east-1"),
            Field::Column(Column::Generation) => Some(Value::Number(3.0)),
            Field::Column(Column::CreatedTime) => Some(Value::Time("2026-11-19T12:00:00Z".parse().ok()?)),
            Field::Label(key) if key == "app.kubernetes.io/part-of" => text("fleet"),
            Field::Spec(path) if path.join(".") == "size.nodes" => Some(Value::Number(12.0)),
            Field::Spec(path) if path.join(".") == "private" => Some(Value::Flag(true)),
            Field::Condition(type_) if type_ == "Reconciled" => text("False"),
            Field::Detail(type_, Detail::ObservedGeneration) if type_ == "Reconciled" => {
                Some(Value::Number(3.0))
            }
            Field::Column(_) | Field::Label(_) | Field::Spec(_) | Field::Condition(_) | Field::Detail(..) => {
                None
            }
        }
    }

    #[test]
    fn a_search_finds_what_it_says() {
        for (text, expected) in [
            ("name = 'prod-east-1'", true),
            ("name='prod-west-1'", false),
            ("name != 'x'", true),
            ("name in ('a', 'prod-east-1')", true),
            ("name not in ('a')", true),
            ("name like 'prod-%'", true),
            ("name like 'PROD-%'", false),
            ("name ilike 'PROD-%-_'", true),
            ("not name like '%west%'", true),
            ("generation > 2 and generation <= 3", true),
            ("generation between 1 and 2", false),
            ("generation between 1 and 2 or generation = 3", true),
            ("(generation = 1 or generation = 3) and name like '%1'", true),
            ("created_time > '2026-11-19T11:00:00Z'", true),
            ("created_time < '2026-11-19T11:00:00+00:00'", false),
            ("labels.app.kubernetes.io/part-of = 'fleet'", true),
            ("labels.other = 'x'", false),
            ("labels.other != 'x'", false),
            ("labels.other is null", true),
            ("labels.other is not null", false),
            ("spec.size.nodes >= 12", true),
            ("spec.size.nodes = '12'", true),
            ("spec.private = true", true),
            ("status.conditions.Reconciled='False'", true),
            ("status.conditions.Reconciled = \"True\"", false),
            ("status.conditions.Reconciled.observed_generation = 3", true),
            ("NAME = 'prod-east-1'", true),
            ("name = 'it''s'", false),
            ("name IS NOT NULL AND NOT generation < 3", true),
        ] {
            let search = Search::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(search.holds(&value), expected, "{text}");
        }
    }

    #[test]
    fn a_search_that_cannot_be_read_says_where() {
        for (text, said) in [
            ("", "is empty"),
            ("name", "expected a comparison"),
            ("name =", "expected a value"),
            ("name = 'x", "is not closed"),
            ("colour = 'red'", "cannot search by \"colour\""),
            ("name = 'x' or", "expected a field"),
            ("(name = 'x'", "expected )"),
            ("name = 'x')", "after the end"),
            ("name ~ 'x'", "cannot read \"~\""),
            ("status.conditions.Reconciled.colour = 'x'", "cannot search by"),
            ("name between 1 or 2", "expected and"),
            ("name like 5", "expected a text"),
            ("name in ()", "expected a value"),
        ] {
            let error = Search::parse(text).expect_err(text);
            assert!(error.message.contains(said), "{text}: {}", error.message);
        }
        let deep = format!("{}name = 'x'{}", "(".repeat(200), ")".repeat(200));
        assert!(Search::parse(&deep).expect_err("deep").message.contains("nested"));
        assert!(Search::parse(&"not ".repeat(500)).expect_err("deep").message.contains("nested"));
        assert!(Search::parse(&" ".repeat(5000)).expect_err("long").message.contains("4096"));
    }

    #[test]
    fn what_has_to_hold_is_known() {
        let parts = |text: &str| Search::parse(text).expect(text).parts().len();
        assert_eq!(parts("name = 'x'"), 1);
        assert_eq!(parts("name = 'x' and (labels.a = 'b' and labels.c = 'd')"), 3);
        assert_eq!(parts("name = 'x' or labels.a = 'b'"), 1);
        let search =
            Search::parse("not status.conditions.A.last_updated_time < '2026-01-01T00:00:00Z'").unwrap();
        assert!(search.looks_at(|field| matches!(field, Field::Detail(..))));
        assert!(!search.looks_at(|field| matches!(field, Field::Spec(_))));
    }
}
