//! Reading a search: words first, then the parts that they make.

use super::{Column, Compare, Detail, Field, Literal, Search, Test};

/// How deep parentheses and `not` may be nested.
const DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Number(f64),
    Compare(Compare),
    Open,
    Close,
    Comma,
}

pub(super) fn parse(text: &str) -> Result<Search, String> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err("is empty; leave it out for all".to_owned());
    }
    let mut reader = Reader { tokens: tokens.into_iter().peekable(), depth: 0 };
    let search = reader.any()?;
    match reader.tokens.next() {
        None => Ok(search),
        Some(token) => Err(format!("has {} after the end; join with and or or", said(&token))),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut letters = text.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(letter) = letters.next() {
        tokens.push(match letter {
            _ if letter.is_whitespace() => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '=' => Token::Compare(Compare::Equal),
            '!' if letters.next_if_eq(&'=').is_some() => Token::Compare(Compare::Unequal),
            '<' if letters.next_if_eq(&'>').is_some() => Token::Compare(Compare::Unequal),
            '<' if letters.next_if_eq(&'=').is_some() => Token::Compare(Compare::AtMost),
            '<' => Token::Compare(Compare::Less),
            '>' if letters.next_if_eq(&'=').is_some() => Token::Compare(Compare::AtLeast),
            '>' => Token::Compare(Compare::More),
            '\'' | '"' => Token::Text(quoted(letter, &mut letters)?),
            _ if is_word(letter) => {
                let mut word = String::from(letter);
                while let Some(next) = letters.next_if(|next| is_word(*next)) {
                    word.push(next);
                }
                let is_number = letter.is_ascii_digit() || letter == '-';
                match word.parse() {
                    Ok(number) if is_number => Token::Number(number),
                    _ => Token::Word(word),
                }
            }
            other => return Err(format!("cannot read {:?}", other.to_string())),
        });
    }
    Ok(tokens)
}

/// What names of fields, labels and conditions are made of.
fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | '/')
}

/// A text up to its closing quote; a quote inside is doubled.
fn quoted(quote: char, letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        if letter != quote {
            text.push(letter);
        } else if letters.next_if_eq(&quote).is_some() {
            text.push(quote);
        } else {
            return Ok(text);
        }
    }
    Err(format!("the text {text:?} is not closed"))
}

struct Reader {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    depth: usize,
}

impl Reader {
    fn any(&mut self) -> Result<Search, String> {
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Search::Any(parts) })
    }

    fn all(&mut self) -> Result<Search, String> {
        let mut parts = vec![self.one()?];
        while self.takes("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Search::All(parts) })
    }

    fn one(&mut self) -> Result<Search, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("is nested deeper than {DEPTH} levels"));
        }
        let search = if self.takes("not") {
            Search::Not(Box::new(self.one()?))
        } else if self.tokens.next_if_eq(&Token::Open).is_some() {
            let search = self.any()?;
            self.expect(&Token::Close)?;
            search
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(search)
    }

    fn comparison(&mut self) -> Result<Search, String> {
        let field = match self.tokens.next() {
            Some(Token::Word(word)) => field(&word)?,
            other => return Err(format!("expected a field, found {}", found(other.as_ref()))),
        };
        if self.takes("is") {
            let not = self.takes("not");
            if !self.takes("null") {
                return Err("expected null after is".to_owned());
            }
            return Ok(negated(not, Search::Field(field, Test::Null)));
        }
        let not = self.takes("not");
        let test = if self.takes("in") {
            self.expect(&Token::Open)?;
            let mut values = vec![self.literal()?];
            while self.tokens.next_if_eq(&Token::Comma).is_some() {
                values.push(self.literal()?);
            }
            self.expect(&Token::Close)?;
            Test::In(values)
        } else if self.takes("between") {
            let low = self.literal()?;
            if !self.takes("and") {
                return Err("expected and between the two values of between".to_owned());
            }
            Test::Between(low, self.literal()?)
        } else if self.takes("like") {
            Test::Like { pattern: self.text()?, exact: true }
        } else if self.takes("ilike") {
            Test::Like { pattern: self.text()?, exact: false }
        } else {
            match self.tokens.next() {
                Some(Token::Compare(compare)) if !not => Test::Than(compare, self.literal()?),
                other => {
                    let expected = "= != < <= > >= in between like ilike is null";
                    let found = found(other.as_ref());
                    return Err(format!("expected a comparison ({expected}), found {found}"));
                }
            }
        };
        Ok(negated(not, Search::Field(field, test)))
    }

    fn literal(&mut self) -> Result<Literal, String> {
        match self.tokens.next() {
            Some(Token::Text(text)) => Ok(Literal::Text(text)),
            Some(Token::Number(number)) => Ok(Literal::Number(number)),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("true") => Ok(Literal::Flag(true)),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("false") => Ok(Literal::Flag(false)),
            other => {
                let found = found(other.as_ref());
                Err(format!("expected a value, such as 'text', 5 or true, found {found}"))
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Text(text)) => Ok(text),
            other => Err(format!("expected a text in quotes, found {}", found(other.as_ref()))),
        }
    }

    /// Takes a word of the language, in capitals or not.
    fn takes(&mut self, word: &str) -> bool {
        let is_it = |token: &Token| matches!(token, Token::Word(other) if other.eq_ignore_ascii_case(word));
        self.tokens.next_if(is_it).is_some()
    }

    fn expect(&mut self, token: &Token) -> Result<(), String> {
        match self.tokens.next() {
            Some(next) if next == *token => Ok(()),
            other => Err(format!("expected {}, found {}", said(token), found(other.as_ref()))),
        }
    }
}

fn negated(not: bool, search: Search) -> Search {
    if not { Search::Not(Box::new(search)) } else { search }
}

fn found(token: Option<&Token>) -> String {
    token.map_or_else(|| "the end".to_owned(), said)
}

fn said(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("{word:?}"),
        Token::Text(text) => format!("'{text}'"),
        Token::Number(number) => number.to_string(),
        Token::Compare(_) => "a comparison".to_owned(),
        Token::Open => "(".to_owned(),
        Token::Close => ")".to_owned(),
        Token::Comma => ",".to_owned(),
    }
}

const COLUMNS: [(&str, Column); 8] = [
    ("id", Column::Id),
    ("name", Column::Name),
    ("generation", Column::Generation),
    ("created_time", Column::CreatedTime),
    ("updated_time", Column::UpdatedTime),
    ("deleted_time", Column::DeletedTime),
    ("created_by", Column::CreatedBy),
    ("updated_by", Column::UpdatedBy),
];

const DETAILS: [(&str, Detail); 3] = [
    ("observed_generation", Detail::ObservedGeneration),
    ("last_updated_time", Detail::LastUpdatedTime),
    ("last_transition_time", Detail::LastTransitionTime),
];

fn field(word: &str) -> Result<Field, String> {
    let column = COLUMNS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    if let Some((_, column)) = column {
        return Ok(Field::Column(*column));
    }
    if let Some(key) = word.strip_prefix("labels.").filter(|key| !key.is_empty()) {
        return Ok(Field::Label(key.to_owned()));
    }
    if let Some(path) = word.strip_prefix("spec.") {
        let path: Vec<_> = path.split('.').map(str::to_owned).collect();
        if path.iter().all(|part| !part.is_empty()) {
            return Ok(Field::Spec(path));
        }
    }
    if let Some(rest) = word.strip_prefix("status.conditions.") {
        match rest.split_once('.') {
            None if !rest.is_empty() => return Ok(Field::Condition(rest.to_owned())),
            Some((type_, detail)) if !type_.is_empty() => {
                let detail = DETAILS.iter().find(|(name, _)| *name == detail);
                if let Some((_, detail)) = detail {
                    return Ok(Field::Detail(type_.to_owned(), *detail));
                }
            }
            None | Some(_) => {}
        }
    }
    let columns: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    Err(format!(
        "cannot search by {word:?}, only by {}, labels.KEY, spec.PATH and status.conditions.TYPE, with \
         .observed_generation, .last_updated_time or .last_transition_time",
        columns.join(", ")
    ))
}
