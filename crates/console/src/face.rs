//! The face of a kind: how its members look in lists and on their pages. The kind writes it in its own folder.
//!
//! A face reads what the API answers and nothing else, so that the console shows no more than the caller may see.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;
use wardroom_core::{
    action::Call,
    tone::{self, Tone},
};

/// How a kind is shown.
#[derive(Debug)]
pub struct Face {
    /// The kind on the wire.
    pub kind: &'static str,
    /// The part of the path of its pages, and its name for commands.
    pub segment: &'static str,
    /// What many are called.
    pub many: &'static str,
    /// What one is called.
    pub one: &'static str,
    /// Its icon.
    pub icon: &'static str,
    /// The group of the sidebar that it belongs to.
    pub group: Group,
    /// Where the API lists them.
    pub path: &'static str,
    /// The kind of the work on a member, which commands find by the name of the member.
    pub work: Option<&'static str>,
    /// The words that lead to the page before and to the next one.
    pub pages: (&'static str, &'static str),
    /// Members have a name for people beside the one on the wire; pages look it up.
    pub renamed: bool,
    /// The fields of requests that name one of them.
    pub named_by: &'static [&'static str],
    /// More about one member: what the API has under its path.
    pub more: Option<&'static str>,
    /// The states of the chips, in the order of a life.
    pub states: fn() -> Vec<&'static str>,
    /// What lists can be filtered by.
    pub selects: Selects,
    /// The fields that a filter may name.
    pub fields: &'static [&'static str],
    /// What can be asked of any of them, whatever its state.
    pub calls: &'static [Call],
    /// What an action does, for those whose place in a table does not say it.
    pub effect: fn(&str) -> Option<&'static str>,
    /// The parameters that ask the API for a page.
    pub ask: fn(&Ask<'_>) -> Vec<(&'static str, String)>,
    /// Reads a page.
    pub read: fn(Value, &Ask<'_>) -> Listed,
    /// The heads of its own three columns.
    pub heads: [&'static str; 3],
    /// Reads a member.
    pub member: fn(&Value) -> Member,
    /// What is worth knowing of a member, from itself and from `more`.
    pub facts: fn(&Value, Option<&Value>) -> Vec<Fact>,
    /// What is desired, observed and worked on, from itself and from `more`.
    pub layers: fn(&Value, Option<&Value>) -> Layers,
    /// What only this kind has, as tables on a member's page.
    pub panels: fn(&Value, Option<&Value>) -> Vec<Panel>,
    /// What it is, for a fleet that has none: in one sentence, and in more.
    pub about: (&'static str, &'static str),
    /// How the first one comes to be: what it does, and the command.
    pub start: &'static [(&'static str, &'static str)],
}

/// The pages of a list in the order in which its members were registered.
pub const BY_AGE: (&str, &str) = ("← Older", "Newer →");

/// The pages of a list that begins with the newest.
pub const NEWEST_FIRST: (&str, &str) = ("← Newer", "Older →");

/// The pages of a list in the order of names.
pub const BY_NAME: (&str, &str) = ("← Before", "After →");

/// Which page of which members.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Only in this state.
    pub state: Option<&'a str>,
    /// Labels, as selectors write them.
    pub labels: Option<&'a str>,
    /// Fields, as selectors write them.
    pub fields: Option<&'a str>,
    /// The cursor of the page before.
    pub after: Option<&'a str>,
    /// How many.
    pub limit: usize,
}

/// One page of members.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The members.
    pub items: Vec<Value>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// A member in a list, and the head of its page.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// What its path names it by.
    pub key: String,
    /// What the id of its history is.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What commands call it, if not by its name.
    pub called: Option<String>,
    /// The newest work on it, for kinds that have work.
    pub work: Option<String>,
    /// Its state.
    pub state: String,
    /// What is notable beside its state, at most two.
    pub chips: Vec<Chip>,
    /// Its own three columns.
    pub cells: [Cell; 3],
    /// When it was last heard; nothing for kinds that do not beat.
    pub seen: Seen,
    /// Since when it is in its state.
    pub since: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// When a member was last heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Seen {
    /// It does not beat.
    #[default]
    Unknown,
    /// It was never heard.
    Never,
    /// Then.
    At(Timestamp),
}

impl Seen {
    /// Of a member that beats.
    #[must_use]
    pub fn of(at: Option<Timestamp>) -> Self {
        at.map_or(Self::Never, Self::At)
    }
}

/// A word beside a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chip {
    /// Its tone.
    pub tone: Tone,
    /// The word.
    pub text: String,
}

impl Chip {
    /// Makes one.
    pub fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, text: text.into() }
    }
}

/// A value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Cell {
    /// Nothing.
    #[default]
    None,
    /// Words.
    Text(String),
    /// An id, an address, a digest.
    Mono(String),
    /// A state, or a status of this subject.
    State(&'static str, String),
    /// A link to another page of the console.
    Link(String, String),
    /// A time.
    Time(Timestamp),
    /// Labels.
    Labels(BTreeMap<String, String>),
    /// A text that others wrote, in full.
    Whole(String),
    /// How long something took.
    Took(SignedDuration),
    /// A word in this tone.
    Word(Tone, String),
}

/// A table on the page of a member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// Its title.
    pub title: &'static str,
    /// What is to be said of it as a whole.
    pub note: String,
    /// The heads of its columns.
    pub heads: &'static [&'static str],
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// The row that everything waits for.
    pub current: Option<usize>,
}

impl Cell {
    /// Words, unless there are none.
    #[must_use]
    pub fn text(text: Option<impl Into<String>>) -> Self {
        text.map(Into::into).filter(|text: &String| !text.is_empty()).map_or(Self::None, Self::Text)
    }

    /// An id, unless there is none.
    #[must_use]
    pub fn mono(text: Option<impl Into<String>>) -> Self {
        text.map(Into::into).filter(|text: &String| !text.is_empty()).map_or(Self::None, Self::Mono)
    }

    /// A time, unless there is none.
    #[must_use]
    pub fn time(at: Option<Timestamp>) -> Self {
        at.map_or(Self::None, Self::Time)
    }

    /// A text in full, unless there is none.
    #[must_use]
    pub fn whole(text: Option<impl Into<String>>) -> Self {
        text.map(Into::into).filter(|text: &String| !text.is_empty()).map_or(Self::None, Self::Whole)
    }

    /// A state of this subject, unless there is none.
    #[must_use]
    pub fn state(what: &'static str, state: Option<impl Into<String>>) -> Self {
        state.map(Into::into).map_or(Self::None, |state| Self::State(what, state))
    }
}

/// A fact about a member.
pub type Fact = (&'static str, Cell);

/// Three of the five layers of truth; the lifecycle and what is derived are the same for all kinds.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// What is desired.
    pub desired: Layer,
    /// What was observed.
    pub observed: Layer,
    /// What is worked on.
    pub work: Layer,
}

/// One layer.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    /// How old it is.
    pub at: Option<Timestamp>,
    /// What it says.
    pub head: String,
    /// Its tone, where it is a state.
    pub tone: Option<Tone>,
    /// More.
    pub lines: Vec<Cell>,
}

impl Layer {
    /// Says one thing.
    pub fn of(head: impl Into<String>) -> Self {
        Self { head: head.into(), ..Self::default() }
    }

    /// The same with its age.
    #[must_use]
    pub fn at(self, at: Option<Timestamp>) -> Self {
        Self { at, ..self }
    }

    /// The same with more, if there is.
    #[must_use]
    pub fn line(mut self, cell: Cell) -> Self {
        self.lines.extend((cell != Cell::None).then_some(cell));
        self
    }

    /// The same in the tone of a state.
    #[must_use]
    pub fn toned(self, what: &str, state: &str) -> Self {
        Self { tone: Some(tone::of(what, state)), ..self }
    }
}

impl Face {
    /// The path of the page of a member.
    #[must_use]
    pub fn page(&self, key: &str) -> String {
        format!("/console/{}/{}", self.segment, crate::form::encoded(key))
    }

    /// The path of a member in the API.
    #[must_use]
    pub fn call(&self, key: &str) -> String {
        format!("{}/{}", self.path, crate::form::encoded(key))
    }
}

/// The parameters of a list as most kinds take them; a state is the parameter of this name.
#[must_use]
pub fn asked(state: &'static str, ask: &Ask<'_>) -> Vec<(&'static str, String)> {
    let pairs = [
        (state, ask.state),
        ("labelSelector", ask.labels),
        ("fieldSelector", ask.fields),
        ("continue", ask.after),
    ];
    let given = pairs.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned())));
    given.chain([("limit", ask.limit.to_string())]).collect()
}

/// Reads a page of `data`.
#[must_use]
pub fn page(mut answer: Value, _: &Ask<'_>) -> Listed {
    let items = items(answer["data"].take());
    Listed { items, next: answer["continue"].as_str().map(str::to_owned) }
}

/// The items of an array.
#[must_use]
pub fn items(array: Value) -> Vec<Value> {
    if let Value::Array(items) = array { items } else { Vec::new() }
}

/// Reads an answer as its type; nothing where it is of another.
#[must_use]
pub fn typed<T: DeserializeOwned>(answer: &Value) -> Option<T> {
    T::deserialize(answer).ok()
}

/// The states of a lifecycle that is a table.
#[must_use]
pub fn states(lifecycle: &str) -> Vec<&'static str> {
    let all = wardroom_core::lifecycles::all();
    let found = all.into_iter().find(|one| one.name == lifecycle);
    found.map(|found| found.states.into_iter().map(|state| state.name).collect()).unwrap_or_default()
}

/// A group of the sidebar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What the fleet consists of.
    Members,
    /// What is done to it.
    Work,
    /// What happened.
    Record,
    /// What it is told.
    Settings,
}

/// What lists of a kind can be filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selects {
    /// Nothing.
    Nothing,
    /// The state.
    State,
    /// State, fields and labels.
    All,
}

impl Face {
    /// A kind without states, selectors and actions, to be filled in.
    pub const PLAIN: Self = Self {
        kind: "",
        segment: "",
        many: "",
        one: "",
        icon: "gear",
        group: Group::Settings,
        path: "",
        work: None,
        pages: BY_NAME,
        renamed: false,
        named_by: &[],
        more: None,
        states: Vec::new,
        selects: Selects::Nothing,
        fields: &[],
        calls: &[],
        effect: |_| None,
        ask: |ask| asked("state", ask),
        read: page,
        heads: ["", "", ""],
        member: |_| Member {
            key: String::new(),
            id: String::new(),
            name: String::new(),
            called: None,
            work: None,
            state: String::new(),
            chips: Vec::new(),
            cells: [Cell::None, Cell::None, Cell::None],
            seen: Seen::Unknown,
            since: None,
            labels: BTreeMap::new(),
            deleted: false,
        },
        facts: |_, _| Vec::new(),
        layers: |_, _| Layers::default(),
        panels: |_, _| Vec::new(),
        about: ("", ""),
        start: &[],
    };

    /// The names of its own columns, without those that it does not need.
    pub fn columns(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.heads.into_iter().enumerate().filter(|(_, head)| !head.is_empty())
    }
}
