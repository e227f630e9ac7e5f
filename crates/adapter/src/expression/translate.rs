//! The dialect of the document, translated from tokens into CEL, and the names of an expression checked on the way.
//!
//! | Dialect | CEL |
//! |---|---|
//! | `A ?? B` | `__or(A, B)`; `??` binds loosest |
//! | `nil` | `null` |
//! | `L[?(@.type == 'T')]` | `L.__first(__it1, __it1.type == 'T')`: the first match, or nothing |

use super::{
    Declared, Fault,
    functions::{self, Shape},
    lex::{self, Kind, Token},
};

/// How deep brackets may be nested.
pub(super) const DEPTH: usize = 24;

/// How deep loops may be nested.
pub(super) const LOOPS: usize = 3;

/// The stand-in of `??`.
pub(super) const OR: &str = "__or";

/// The stand-in of a filter.
pub(super) const FIRST: &str = "__first";

/// A piece of the translation and the byte of the source that it comes from.
struct Piece {
    text: String,
    at: usize,
}

/// An expression in CEL.
pub(super) struct Translation {
    /// The text for the parser.
    pub(super) text: String,
    /// Where pieces of the text begin, and where they come from.
    origins: Vec<(usize, usize)>,
}

impl Translation {
    /// Returns the byte of the source that a byte of the translation comes from.
    pub(super) fn origin(&self, at: usize) -> usize {
        self.origins.iter().rev().find(|(begin, _)| *begin <= at).map_or(0, |(_, origin)| *origin)
    }
}

/// Translates an expression. Every fault that can be told without evaluating it is reported, with its place.
pub(super) fn translate(source: &str, declared: &Declared) -> Result<Translation, Vec<Fault>> {
    let tokens = lex::tokens(source).map_err(|fault| vec![fault])?;
    let mut state = Translator {
        tokens,
        next: 0,
        end: source.len(),
        declared,
        locals: Vec::new(),
        items: 0,
        depth: 0,
        loops: 0,
        faults: Vec::new(),
    };
    let pieces = state.whole().map_err(|fault| vec![fault])?;
    if !state.faults.is_empty() {
        return Err(state.faults);
    }
    let mut translation = Translation { text: String::new(), origins: Vec::new() };
    for piece in pieces {
        translation.origins.push((translation.text.len(), piece.at));
        translation.text.push_str(&piece.text);
        translation.text.push(' ');
    }
    Ok(translation)
}

struct Translator<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    end: usize,
    declared: &'a Declared,
    /// Variables of loops, innermost last.
    locals: Vec<String>,
    /// Filters around the current place.
    items: usize,
    depth: usize,
    loops: usize,
    faults: Vec<Fault>,
}

impl<'a> Translator<'a> {
    fn whole(&mut self) -> Result<Vec<Piece>, Fault> {
        let pieces = self.coalesce()?;
        match self.peek() {
            None => Ok(pieces),
            Some(token) => Err(Fault::new(token.at, format!("`{}` is not expected here", token.text))),
        }
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn ahead(&self, by: usize) -> Option<Token<'a>> {
        self.tokens.get(self.next + by).copied()
    }

    fn is_next(&self, symbol: &str) -> bool {
        self.peek().is_some_and(|token| token.is(symbol))
    }

    fn take(&mut self, symbol: &str) -> Result<Piece, Fault> {
        match self.peek() {
            Some(token) if token.is(symbol) => {
                self.next += 1;
                Ok(Piece { text: symbol.to_owned(), at: token.at })
            }
            Some(token) => {
                Err(Fault::new(token.at, format!("`{symbol}` is expected instead of `{}`", token.text)))
            }
            None => Err(Fault::new(self.end, format!("`{symbol}` is expected at the end"))),
        }
    }

    /// `A ?? B`, where B may be such an expression again.
    fn coalesce(&mut self) -> Result<Vec<Piece>, Fault> {
        let at = self.peek().map_or(self.end, |token| token.at);
        let left = self.chain()?;
        if left.is_empty() {
            return Err(Fault::new(at, "an operand is missing here".to_owned()));
        }
        if !self.is_next("??") {
            return Ok(left);
        }
        let operator = self.take("??")?;
        let mut pieces = vec![Piece { text: format!("{OR}("), at }];
        pieces.extend(left);
        pieces.push(Piece { text: ",".to_owned(), at: operator.at });
        // A chain of many defaults nests as deep as brackets would.
        pieces.extend(self.nested(operator.at, Self::coalesce)?);
        pieces.push(Piece { text: ")".to_owned(), at: operator.at });
        Ok(pieces)
    }

    /// Everything up to the end of a bracket, a `,`, a `:` or a `??`.
    fn chain(&mut self) -> Result<Vec<Piece>, Fault> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut before: Option<Token<'a>> = None;
        while let Some(token) = self.peek() {
            match (token.kind, token.text) {
                (Kind::Symbol, ")" | "]" | "}" | "," | ":" | "??") => break,
                (Kind::Symbol, "?") => {
                    pieces.push(self.take("?")?);
                    pieces.extend(self.nested(token.at, Self::coalesce)?);
                    pieces.push(self.take(":")?);
                }
                (Kind::Symbol, "(") => pieces.extend(self.list("(", ")")?),
                (Kind::Symbol, "[") if self.is_filter(before) => pieces.extend(self.filter()?),
                (Kind::Symbol, "[") => pieces.extend(self.index(before)?),
                (Kind::Symbol, "{") => pieces.extend(self.map(before)?),
                (Kind::Symbol, "@") => pieces.push(self.item(token)?),
                (Kind::Name, _) => pieces.extend(self.name(token, before)?),
                (Kind::Number | Kind::Text | Kind::Symbol, _) => {
                    self.next += 1;
                    pieces.push(Piece { text: token.text.to_owned(), at: token.at });
                }
            }
            before = self.tokens.get(self.next - 1).copied();
        }
        Ok(pieces)
    }

    /// Parses something one level deeper.
    fn nested<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.depth >= DEPTH {
            return Err(Fault::new(at, format!("is nested deeper than {DEPTH} levels")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Brackets around elements with commas between them.
    fn list(&mut self, open: &str, close: &str) -> Result<Vec<Piece>, Fault> {
        let opened = self.take(open)?;
        let at = opened.at;
        let mut pieces = vec![opened];
        self.nested(at, |state| {
            while !state.is_next(close) {
                pieces.extend(state.coalesce()?);
                if !state.is_next(",") {
                    break;
                }
                pieces.push(state.take(",")?);
            }
            pieces.push(state.take(close)?);
            Ok(pieces)
        })
    }

    /// An index, which is optional after a `?`, or a list.
    fn index(&mut self, before: Option<Token<'a>>) -> Result<Vec<Piece>, Fault> {
        let is_optional = self.ahead(1).is_some_and(|token| token.is("?"));
        if !is_optional || !is_operand(before) {
            return self.list("[", "]");
        }
        let (open, mark) = (self.take("[")?, self.take("?")?);
        let at = open.at;
        let mut pieces = vec![open, mark];
        pieces.extend(self.nested(at, Self::coalesce)?);
        pieces.push(self.take("]")?);
        Ok(pieces)
    }

    /// Braces around `key: value` pairs.
    fn map(&mut self, before: Option<Token<'a>>) -> Result<Vec<Piece>, Fault> {
        let opened = self.take("{")?;
        if is_operand(before) {
            return Err(Fault::new(opened.at, "messages are not supported: use a map".to_owned()));
        }
        let at = opened.at;
        let mut pieces = vec![opened];
        self.nested(at, |state| {
            while !state.is_next("}") {
                pieces.extend(state.coalesce()?);
                pieces.push(state.take(":")?);
                pieces.extend(state.coalesce()?);
                if !state.is_next(",") {
                    break;
                }
                pieces.push(state.take(",")?);
            }
            pieces.push(state.take("}")?);
            Ok(pieces)
        })
    }

    /// Returns whether a filter of the dialect begins here: `[?` with an `@` inside.
    fn is_filter(&self, before: Option<Token<'a>>) -> bool {
        if !is_operand(before) || !self.ahead(1).is_some_and(|token| token.is("?")) {
            return false;
        }
        let mut open = 0_usize;
        for token in &self.tokens[self.next..] {
            if token.kind != Kind::Symbol {
                continue;
            }
            match token.text {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open -= 1,
                "@" => return true,
                _ => {}
            }
            if open == 0 {
                break;
            }
        }
        false
    }

    fn filter(&mut self) -> Result<Vec<Piece>, Fault> {
        let open = self.take("[")?;
        let mark = self.take("?")?;
        self.items += 1;
        let item = format!("__it{}", self.items);
        let mut pieces = vec![Piece { text: format!(".{FIRST}({item},"), at: open.at }];
        let body = self.looping(open.at, |state| state.nested(mark.at, Self::coalesce))?;
        pieces.extend(body);
        let close = self.take("]")?;
        self.items -= 1;
        pieces.push(Piece { text: ")".to_owned(), at: close.at });
        Ok(pieces)
    }

    /// `@`, the element that a filter looks at.
    fn item(&mut self, token: Token<'a>) -> Result<Piece, Fault> {
        if self.items == 0 {
            return Err(Fault::new(
                token.at,
                "`@` has a meaning only in a filter such as [?(@.type=='T')]".to_owned(),
            ));
        }
        self.next += 1;
        Ok(Piece { text: format!("__it{}", self.items), at: token.at })
    }

    fn name(&mut self, token: Token<'a>, before: Option<Token<'a>>) -> Result<Vec<Piece>, Fault> {
        let is_member = before.is_some_and(|token| token.is(".") || token.is(".?"));
        self.next += 1;
        let piece = |text: &str| Piece { text: text.to_owned(), at: token.at };
        if self.is_next("(") {
            return self.call(token, is_member);
        }
        if is_member || matches!(token.text, "true" | "false" | "null" | "in") {
            return Ok(vec![piece(token.text)]);
        }
        if token.text == "nil" {
            return Ok(vec![piece("null")]);
        }
        self.check_variable(token);
        Ok(vec![piece(token.text)])
    }

    fn check_variable(&mut self, token: Token<'a>) {
        let name = token.text;
        if self.locals.iter().any(|local| local == name) || name == "optional" {
            return;
        }
        let Some(members) = self.declared.variable(name) else {
            self.faults.extend(self.declared.refuse(name).map(|why| Fault::new(token.at, why)));
            return;
        };
        let Some(members) = members else { return };
        let dot = self.peek().filter(|next| next.is(".") || next.is(".?"));
        let member = self.ahead(1).filter(|member| dot.is_some() && member.kind == Kind::Name);
        if let Some(member) = member.filter(|member| !members.contains(member.text)) {
            let known = list(members.iter().map(String::as_str));
            let why = format!("`{name}` has no `{}`; the configuration declares {known}", member.text);
            self.faults.push(Fault::new(member.at, why));
        }
    }

    /// A call: its function is known, has as many arguments, and is called in the right way.
    fn call(&mut self, token: Token<'a>, is_member: bool) -> Result<Vec<Piece>, Fault> {
        let name = token.text;
        let mut pieces = vec![Piece { text: name.to_owned(), at: token.at }];
        let is_of_optional = is_member && self.next >= 3 && self.tokens[self.next - 3].text == "optional";
        let function = functions::find(name, is_member && !is_of_optional);
        let Some(function) = function else {
            let way = if is_member { "no value has the function" } else { "there is no function" };
            self.faults.push(Fault::new(token.at, format!("{way} `{name}`")));
            pieces.extend(self.list("(", ")")?);
            return Ok(pieces);
        };
        let begin = self.next;
        if let Shape::Loop | Shape::Bind = function.shape {
            pieces.extend(self.bound(token, function.shape == Shape::Loop)?);
        } else {
            pieces.extend(self.list("(", ")")?);
        }
        let count = arguments(&self.tokens[begin..self.next]);
        if !function.arguments.contains(&count) {
            let (least, most) = (function.arguments.start(), function.arguments.end());
            let takes = if least == most { format!("{least}") } else { format!("{least} to {most}") };
            self.faults
                .push(Fault::new(token.at, format!("`{name}` takes {takes} arguments, and has {count}")));
        }
        Ok(pieces)
    }

    /// The arguments of a call whose first one names a variable.
    fn bound(&mut self, token: Token<'a>, is_loop: bool) -> Result<Vec<Piece>, Fault> {
        let variable = self.ahead(1).filter(|variable| variable.kind == Kind::Name);
        let comma = self.ahead(2).filter(|comma| comma.is(","));
        let (Some(variable), Some(comma)) = (variable, comma) else {
            let why = format!(
                "`{}` needs a variable and an expression, such as {}(x, x.ready)",
                token.text, token.text
            );
            return Err(Fault::new(token.at, why));
        };
        let mut pieces = vec![self.take("(")?];
        self.next += 2;
        pieces.push(Piece { text: variable.text.to_owned(), at: variable.at });
        pieces.push(Piece { text: ",".to_owned(), at: comma.at });
        self.locals.push(variable.text.to_owned());
        let body = |state: &mut Self| state.nested(token.at, Self::coalesce);
        let body = if is_loop { self.looping(token.at, body) } else { body(self) };
        self.locals.pop();
        pieces.extend(body?);
        pieces.push(self.take(")")?);
        Ok(pieces)
    }

    fn looping<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.loops >= LOOPS {
            return Err(Fault::new(at, format!("loops are nested deeper than {LOOPS} levels")));
        }
        self.loops += 1;
        let parsed = parse(self);
        self.loops -= 1;
        parsed
    }
}

/// Returns whether an index or a filter can follow a token.
fn is_operand(before: Option<Token<'_>>) -> bool {
    before.is_some_and(|token| match token.kind {
        Kind::Name | Kind::Text | Kind::Number => token.text != "in",
        Kind::Symbol => matches!(token.text, ")" | "]" | "}" | "@"),
    })
}

/// Counts the arguments between brackets.
fn arguments(tokens: &[Token<'_>]) -> usize {
    let (mut open, mut commas) = (0_usize, 0);
    for token in tokens.iter().filter(|token| token.kind == Kind::Symbol) {
        match token.text {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            "," if open == 1 => commas += 1,
            _ => {}
        }
    }
    if tokens.len() <= 2 { 0 } else { commas + 1 }
}

/// Returns names as a list for a sentence.
pub(super) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
