//! Replays recorded answers of HyperFleet's own aggregation and report classification.

use std::{env, fs, path::PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use wardroom_core::cluster::{
    self, AdapterCondition, AdapterStatus, Condition, Desired, Discard, RawCondition, RawReport, Report,
    ReportedCondition, Status, Verdict,
};

/// Where ours differ, by decision: these are refused as invalid whatever the recorded answer is.
///
/// Recorded, most discard rules come before the checks, so that a malformed report is silently dropped when it
/// is also late; ours are checked first, because only then does its sender learn of the mistake.
const REFUSED: [Refusal; 4] = [
    Refusal {
        reason: "the contract makes the time of observation mandatory; recorded is a discard",
        applies: |report| report.observed_time.is_none(),
    },
    Refusal {
        reason: "a mandatory condition is missing",
        applies: |report| {
            [&report.available, &report.applied, &report.health].iter().any(|status| status.is_none())
        },
    },
    Refusal {
        reason: "every status is one of three; recorded is a check of Available only",
        applies: |report| report.statuses().any(|(_, status)| status.parse::<Status>().is_err()),
    },
    Refusal {
        reason: "an adapter has a name and generations count from 1; recorded is a check made elsewhere",
        applies: |report| report.adapter.trim().is_empty() || report.observed_generation < 1,
    },
];

struct Refusal {
    reason: &'static str,
    applies: fn(&Recorded) -> bool,
}

#[test]
fn contract_hyperfleet_aggregation() {
    let folder = env::var_os("WARDROOM_CONTRACT_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!("no recorded answers in {}: nothing replayed", folder.display());
        return;
    }
    let text = fs::read_to_string(folder.join("hyperfleet-aggregation-oracle.jsonl")).unwrap();

    let mut replayed =
        [("classify", 0), ("transition", 0), ("aggregate", 0), ("finalized", 0), ("naming", 0)];
    let mut differences = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Row = serde_json::from_str(line).unwrap();
        let count = replayed.iter_mut().find(|(table, _)| *table == row.table);
        count.unwrap_or_else(|| panic!("{}: no replay for table {}", row.id, row.table)).1 += 1;
        if let Err(difference) = replay(&row) {
            differences.push(format!("{} {}: {difference}", row.table, row.id));
        }
    }

    println!("replayed {replayed:?}");
    let missing = |table: &str| replayed.iter().any(|(name, rows)| *name == table && *rows == 0);
    assert!(!missing("classify") && !missing("aggregate"), "the main tables are there: {replayed:?}");
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {replayed:?} differ, the first:\n{shown}", differences.len());
}

fn replay(row: &Row) -> Result<(), String> {
    let (input, expect) = (row.input.clone(), row.expect.clone());
    match row.table.as_str() {
        "classify" => classify(parse(input), &parse(expect)),
        "transition" => transition(parse(input), parse(expect)),
        "aggregate" => aggregate(&parse(input), &parse(expect)),
        "finalized" => finalized(&parse(input), &parse(expect)),
        _ => naming(&parse(input), &parse(expect)),
    }
}

fn classify(input: ClassifyIn, expect: &ClassifyOut) -> Result<(), String> {
    let refused = REFUSED.iter().find(|refusal| (refusal.applies)(&input.incoming));
    let expected = match (expect.outcome.as_str(), expect.rule.as_str()) {
        _ if refused.is_some() => None,
        ("invalid", _) => None,
        ("accepted", _) => Some(Verdict::Store { folds: expect.triggers_aggregation }),
        ("discarded", "D1") => Some(Verdict::Discard(Discard::FutureGeneration)),
        ("discarded", "D2") => Some(Verdict::Discard(Discard::OlderGeneration)),
        ("discarded", "D4") => Some(Verdict::Discard(Discard::OlderObservedTime)),
        ("discarded", "D5") => Some(Verdict::Discard(Discard::RepeatedUnknown)),
        unknown => return Err(format!("no verdict of ours for {unknown:?}")),
    };

    // The rows have no clock of their own: every report arrives when it was observed.
    let now = input.incoming.observed_time.unwrap_or(Timestamp::UNIX_EPOCH);
    let stored = input.stored.as_ref().map(Recorded::status);
    let report = cluster::validate(input.incoming.raw(), now).ok();
    let verdict = report.map(|report| cluster::classify(input.resource_generation, stored.as_ref(), &report));
    same(verdict, expected).map_err(|difference| match refused {
        Some(refusal) => format!("{difference}\nto be refused: {}", refusal.reason),
        None => difference,
    })
}

fn transition(input: TransitionIn, expect: Dated) -> Result<(), String> {
    let observed_time =
        input.incoming_conditions.first().map_or(Timestamp::UNIX_EPOCH, |first| first.last_transition_time);
    let stored = AdapterStatus {
        adapter: "dns".into(),
        observed_generation: 1,
        created_time: Timestamp::UNIX_EPOCH,
        last_report_time: Timestamp::UNIX_EPOCH,
        conditions: input.stored_conditions,
    };
    let said = |condition: AdapterCondition| ReportedCondition {
        type_: condition.type_,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    };
    let report = Report {
        adapter: "dns".into(),
        observed_generation: 1,
        observed_time,
        conditions: input.incoming_conditions.into_iter().map(said).collect(),
    };
    same(cluster::upsert(Some(&stored), report).conditions, expect.conditions)
}

fn aggregate(input: &AggregateIn, expect: &Folded) -> Result<(), String> {
    let resource = &input.resource;
    let desired = Desired {
        generation: resource.generation,
        updated_time: resource.reference_time,
        required_adapters: &resource.required_adapters,
        deleted: resource.deleted,
        active_children: resource.has_active_children,
    };
    let statuses: Vec<_> = input.reports.iter().map(Recorded::status).collect();
    let previous: Vec<_> =
        input.previous_conditions.iter().map(|previous| previous.condition(&desired)).collect();
    let expected = expect.conditions.iter().map(|expected| expected.condition(&desired));

    let folded = cluster::fold(&desired, &statuses, &previous);
    same(folded.into_iter().map(comparable).collect::<Vec<_>>(), expected.map(comparable).collect())
}

/// The text of the cluster's own conditions is ours; an adapter's text is passed on as it is.
fn comparable(condition: Condition) -> Condition {
    match &*condition.type_ {
        cluster::RECONCILED | cluster::LAST_KNOWN_RECONCILED => Condition { message: None, ..condition },
        _ => condition,
    }
}

fn finalized(input: &FinalizedIn, expect: &FinalizedOut) -> Result<(), String> {
    let statuses: Vec<_> = input.reports.iter().map(Recorded::status).collect();
    same(cluster::all_finalized(&input.required_adapters, input.generation, &statuses), expect.all_finalized)
}

fn naming(input: &NamingIn, expect: &NamingOut) -> Result<(), String> {
    same(&cluster::successful_type(&input.adapter), &expect.type_)
}

fn same<T: PartialEq + std::fmt::Debug>(ours: T, recorded: T) -> Result<(), String> {
    if ours == recorded { Ok(()) } else { Err(format!("ours\n  {ours:?}\nrecorded\n  {recorded:?}")) }
}

fn parse<T: for<'de> Deserialize<'de>>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("rows have the shape of their table")
}

#[derive(Deserialize)]
struct Row {
    table: String,
    id: String,
    #[serde(rename = "in")]
    input: serde_json::Value,
    expect: serde_json::Value,
}

#[derive(Deserialize)]
struct ClassifyIn {
    resource_generation: i64,
    stored: Option<Recorded>,
    incoming: Recorded,
}

#[derive(Deserialize)]
struct ClassifyOut {
    outcome: String,
    rule: String,
    triggers_aggregation: bool,
}

#[derive(Deserialize)]
struct TransitionIn {
    stored_conditions: Vec<AdapterCondition>,
    incoming_conditions: Vec<AdapterCondition>,
}

#[derive(Deserialize)]
struct Dated {
    conditions: Vec<AdapterCondition>,
}

#[derive(Deserialize)]
struct AggregateIn {
    resource: Resource,
    previous_conditions: Vec<Previous>,
    reports: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Resource {
    generation: i64,
    deleted: bool,
    has_active_children: bool,
    required_adapters: Vec<String>,
    reference_time: Timestamp,
}

#[derive(Deserialize)]
struct Folded {
    conditions: Vec<Previous>,
}

#[derive(Deserialize)]
struct FinalizedIn {
    generation: i64,
    reports: Vec<Recorded>,
    required_adapters: Vec<String>,
}

#[derive(Deserialize)]
struct FinalizedOut {
    all_finalized: bool,
}

#[derive(Deserialize)]
struct NamingIn {
    adapter: String,
}

#[derive(Deserialize)]
struct NamingOut {
    #[serde(rename = "type")]
    type_: String,
}

#[derive(Deserialize)]
struct Previous {
    #[serde(rename = "type")]
    type_: String,
    status: Status,
    reason: Option<String>,
    message: Option<String>,
    observed_generation: i64,
    created_time: Option<Timestamp>,
    last_updated_time: Timestamp,
    last_transition_time: Timestamp,
}

impl Previous {
    /// Ours always know when they were created; a recorded one that does not counts as created by this fold.
    fn condition(&self, desired: &Desired<'_>) -> Condition {
        Condition {
            type_: self.type_.clone().into(),
            status: self.status,
            reason: self.reason.clone().map(Into::into),
            message: self.message.clone().map(Into::into),
            observed_generation: self.observed_generation,
            created_time: self.created_time.unwrap_or(desired.updated_time),
            last_updated_time: self.last_updated_time,
            last_transition_time: self.last_transition_time,
        }
    }
}

/// A report in the rows' shorthand, incoming or stored.
#[derive(Deserialize)]
struct Recorded {
    adapter: String,
    observed_generation: i64,
    observed_time: Option<Timestamp>,
    available: Option<String>,
    applied: Option<String>,
    health: Option<String>,
    finalized: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    extra_condition_types: Option<Vec<String>>,
    conditions_unparsable: Option<bool>,
}

impl Recorded {
    fn statuses(&self) -> impl Iterator<Item = (&str, &str)> {
        let readable = self.conditions_unparsable != Some(true);
        let known = [
            (cluster::AVAILABLE, &self.available),
            (cluster::APPLIED, &self.applied),
            (cluster::HEALTH, &self.health),
            (cluster::FINALIZED, &self.finalized),
        ];
        let known = known.into_iter().filter_map(|(type_, status)| Some((type_, status.as_deref()?)));
        known
            .chain(self.extra_condition_types.iter().flatten().map(|type_| (type_.as_str(), "True")))
            .filter(move |_| readable)
    }

    /// What could not be read arrives without conditions.
    fn raw(&self) -> RawReport {
        let condition = |(type_, status): (&str, &str)| RawCondition {
            type_: Some(type_.into()),
            status: Some(status.into()),
            reason: self.reason.clone(),
            message: self.message.clone(),
        };
        RawReport {
            adapter: Some(self.adapter.clone()),
            observed_generation: Some(self.observed_generation),
            observed_time: self.observed_time.map(|time| time.to_string()),
            conditions: (self.conditions_unparsable != Some(true))
                .then(|| self.statuses().map(condition).collect()),
        }
    }

    /// Stored rows are older than any check: what cannot be read in one is not there.
    fn status(&self) -> AdapterStatus {
        let observed_time = self.observed_time.unwrap_or(Timestamp::MIN);
        let condition = |(type_, status): (&str, &str)| {
            Some(AdapterCondition {
                type_: type_.into(),
                status: status.parse().ok()?,
                reason: self.reason.clone(),
                message: self.message.clone(),
                last_transition_time: observed_time,
            })
        };
        AdapterStatus {
            adapter: self.adapter.clone(),
            observed_generation: self.observed_generation,
            created_time: observed_time,
            last_report_time: observed_time,
            conditions: self.statuses().filter_map(condition).collect(),
        }
    }
}
