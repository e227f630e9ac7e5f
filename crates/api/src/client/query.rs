//! Which resources of a list, and which page of them.

/// Which resources, and which page of them. Members can be selected, and tokens by their
/// state; lists of other kinds take limit and cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Only in this state.
    pub state: Option<String>,
    /// Labels, e.g. `site=berlin,rack in (a,b),!spare`.
    pub label_selector: Option<String>,
    /// Fields, e.g. `state=active,workflow_id=debian`.
    pub field_selector: Option<String>,
    /// The deleted instead of the living, for the kinds that list them.
    pub deleted: bool,
    /// How many at most in the page.
    pub limit: Option<usize>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}
