//! What a verb would do to several resources: the dry run before it.

use std::{
    collections::{BTreeMap, HashMap},
    str::FromStr as _,
};

use wardroom_api::{
    Problem,
    bulk::{BulkMember, BulkOutcome, BulkReport, BulkRequest, BulkResultWord as Word, BulkShare},
    client::{self, Client, Unsent},
};

use crate::{
    exit::{Code, failure},
    kind::Kind,
    locate::Target,
    outcome::Outcome,
    output, text,
};

/// The most members of one request.
pub(crate) const MOST: usize = 1000;

/// How much may be changed: `--max`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Most {
    Members(i64),
    Percent(f64),
}

/// Reads `--max`.
pub(crate) fn most(text: &str) -> Result<Most, String> {
    let wrong = || "must be a whole number, or a share from 0% to 100%".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = f64::from_str(percent).ok().filter(|percent| (0.0..=100.0).contains(percent));
            percent.map(Most::Percent).ok_or_else(wrong)
        }
        None => text.parse().ok().filter(|number| *number >= 0).map(Most::Members).ok_or_else(wrong),
    }
}

impl Most {
    #[expect(clippy::cast_precision_loss, reason = "fleets have fewer than 2^52 members")]
    fn allows(self, share: BulkShare) -> bool {
        match self {
            Self::Members(most) => share.members <= most,
            Self::Percent(most) => share.members as f64 * 100.0 <= most * share.of as f64,
        }
    }
}

/// What would become of each resource.
pub(crate) struct Preview {
    fleet: BulkShare,
    zones: BTreeMap<String, BulkShare>,
    items: Vec<BulkOutcome>,
    path: String,
}

impl Preview {
    /// Tries a change on each resource.
    pub(crate) async fn of(client: &Client, unsent: Unsent, targets: &[Target]) -> anyhow::Result<Self> {
        let Unsent { method, path, body } = unsent;
        let mut preview = Self {
            fleet: BulkShare::default(),
            zones: BTreeMap::new(),
            items: Vec::new(),
            path: path.clone(),
        };
        for targets in targets.chunks(MOST) {
            let member = |target: &Target| BulkMember { id: target.id.clone(), version: None };
            let request = BulkRequest {
                method: method.clone(),
                path: path.clone(),
                body: Some(body.clone()).filter(|body| !body.is_null()),
                dry_run: true,
                members: targets.iter().map(member).collect(),
                ..BulkRequest::default()
            };
            preview.add(client.bulk(&request).await?);
        }
        Ok(preview)
    }

    fn add(&mut self, report: BulkReport) {
        let sum = |one: BulkShare, other: BulkShare| BulkShare::new(one.members + other.members, other.of);
        self.fleet = sum(self.fleet, report.fleet);
        for (zone, share) in report.zones {
            let known = self.zones.get(&zone).copied().unwrap_or_default();
            self.zones.insert(zone, sum(known, share));
        }
        self.items.extend(report.items);
    }

    /// The versions that were seen.
    pub(crate) fn versions(&self) -> HashMap<String, i64> {
        self.items.iter().filter_map(|item| Some((item.id.clone(), item.version?))).collect()
    }

    /// Refuses to go further than is allowed.
    pub(crate) fn check(&self, kind: Kind, max: Option<&Most>) -> anyhow::Result<()> {
        if max.is_none_or(|max| max.allows(self.fleet)) {
            return Ok(());
        }
        let BulkShare { members, of, percent } = self.fleet;
        let what = text::count(of, kind.as_str());
        let said = format!(
            "{members} of {what} would be changed ({percent}%), more than --max allows: nothing was done"
        );
        Err(failure(Code::Failed, said))
    }

    /// Writes what would become of each, and ends as the change itself would.
    pub(crate) fn show(&self, kind: Kind, targets: &[Target], max: Option<&Most>) -> anyhow::Result<()> {
        let names: HashMap<&str, &str> = targets.iter().map(|target| (&*target.id, &*target.name)).collect();
        let mut outcome = Outcome::default();
        for item in &self.items {
            let name = names.get(&*item.id).copied().unwrap_or(&item.id);
            outcome.add(&format!("{}/{name}", kind.as_str()), self.told(item))?;
        }
        output::note(&format!("dry run, nothing was done: {}", self.said(kind)));
        self.check(kind, max)?;
        outcome.finish()
    }

    fn told(&self, item: &BulkOutcome) -> anyhow::Result<String> {
        if let Some(problem) = &item.problem {
            let asked = self.path.replace(client::MEMBER, &item.id);
            return Err(client::Error::Problem(Box::new(Problem { asked, ..problem.clone() })).into());
        }
        let state = item.state.as_deref().unwrap_or_default();
        Ok(match (item.result, &item.becomes) {
            (Word::Changed, Some(becomes)) if becomes != state => format!("{state} -> {becomes}"),
            (Word::Changed, _) => format!("{state}, would be changed"),
            (Word::Unchanged | Word::Refused | Word::Overtaken, _) => format!("{state}, nothing to do"),
        })
    }

    /// How many would be changed, as a share of the fleet and of its zones, and how many would not.
    pub(crate) fn said(&self, kind: Kind) -> String {
        let of = |word| self.items.iter().filter(|item| item.result == word).count();
        let mut said = self.changed(kind);
        for (number, what) in
            [(of(Word::Unchanged), "stay as they are"), (of(Word::Refused), "would be refused")]
        {
            if number > 0 {
                said.push_str(&format!("; {number} {what}"));
            }
        }
        said
    }

    fn changed(&self, kind: Kind) -> String {
        let BulkShare { members, of, percent } = self.fleet;
        let mut said =
            format!("{members} of {} would be changed ({percent}%)", text::count(of, kind.as_str()));
        for (zone, BulkShare { members, of, percent }) in self.zones.iter().take(ZONES) {
            said.push_str(&format!(", {members} of {of} in zone {} ({percent}%)", text::clean(zone)));
        }
        if self.zones.len() > ZONES {
            said.push_str(&format!(", {} more zones", self.zones.len() - ZONES));
        }
        said
    }
}

/// Zones that are told one by one.
const ZONES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_share() {
        let share = BulkShare::new(3, 60);
        for (text, allows) in [
            ("3", true),
            ("2", false),
            ("0", false),
            ("5%", true),
            ("4.9%", false),
            ("0%", false),
            ("100%", true),
        ] {
            assert_eq!(most(text).unwrap().allows(share), allows, "{text}");
        }
        for text in ["", "%", "-1", "101%", "-1%", "5 %", "NaN%", "many", "1.5"] {
            assert!(most(text).is_err(), "{text}");
        }
        assert!(most("0%").unwrap().allows(BulkShare::new(0, 0)));
    }
}
