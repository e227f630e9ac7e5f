//! Random stories of a cluster through the binary: after every step the API shows what `core` makes of the same story.

use serde_json::{Value, json};
use wardroom_core::cluster::{
    AdapterStatus, Condition, Desired, RawReport, Verdict, all_finalized, classify, fold, upsert, validate,
};

use crate::support::{
    Backend, Site,
    cluster::{CLUSTERS, REQUIRED, cluster, earlier, now, report_at},
    on_both,
};

on_both! {
    stories_equal_the_fold,
}

const REQUIRED_ADAPTERS: [&str; 3] = ["validation", "dns", "pull-secret"];
const ADAPTERS: [&str; 4] = ["validation", "dns", "pull-secret", "extra"];

/// Steps of one story.
const STEPS: usize = 40;

fn stories_equal_the_fold(on: Backend) {
    let stories = std::env::var("WARDROOM_CLUSTER_STORIES").map_or(2, |stories| stories.parse().unwrap());
    let seed = std::env::var("WARDROOM_CLUSTER_SEED").map_or(20_261_119, |seed| seed.parse().unwrap());
    let mut site = Site::start_with(on, &[(REQUIRED, &REQUIRED_ADAPTERS.join(","))]);
    for number in 0..stories {
        let seed = seed + number;
        let mut story = Story::begin(&site, number, Dice(seed * 2 + 1));
        for step in 0..STEPS {
            let said = story.step(&site);
            if step == STEPS / 2 && number == 0 {
                site.servers[0].kill();
                site.restart(0);
            }
            story.check(&site, &format!("seed {seed}, step {step}: {said}"));
            if story.is_gone {
                break;
            }
        }
    }
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % 1_000_003).unwrap() % sides
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.roll(all.len())]
    }
}

/// A cluster as `core` knows it.
struct Story {
    dice: Dice,
    path: String,
    generation: i64,
    updated_time: jiff::Timestamp,
    is_deleted: bool,
    is_gone: bool,
    statuses: Vec<AdapterStatus>,
    conditions: Vec<Condition>,
    required: Vec<String>,
}

impl Story {
    fn begin(site: &Site, number: u64, dice: Dice) -> Self {
        let made = cluster(&site.admin(), &format!("story-{number}"));
        let mut story = Self {
            dice,
            path: format!("{CLUSTERS}/{}", made["id"].as_str().unwrap()),
            generation: 1,
            updated_time: made["updated_time"].as_str().unwrap().parse().unwrap(),
            is_deleted: false,
            is_gone: false,
            statuses: Vec::new(),
            conditions: Vec::new(),
            required: REQUIRED_ADAPTERS.map(str::to_owned).to_vec(),
        };
        story.fold();
        story
    }

    fn fold(&mut self) {
        let desired = Desired {
            generation: self.generation,
            updated_time: self.updated_time,
            required_adapters: &self.required,
            deleted: self.is_deleted,
            active_children: false,
        };
        self.conditions = fold(&desired, &self.statuses, &self.conditions);
    }

    fn step(&mut self, site: &Site) -> String {
        match self.dice.roll(20) {
            0 | 1 if !self.is_deleted => {
                let spec = json!({"spec": {"roll": self.dice.roll(1000)}});
                let patched = site.admin().patch(&self.path, &spec).expect(200);
                self.desired(&patched);
                "patch".to_owned()
            }
            2 if self.generation > 3 && !self.is_deleted => {
                let deleted = site.admin().delete(&self.path).expect(202);
                self.is_deleted = true;
                self.desired(&deleted);
                "delete".to_owned()
            }
            _ => {
                let report = self.report();
                self.tell(site, &report);
                report.to_string()
            }
        }
    }

    /// What people want has changed, maybe.
    fn desired(&mut self, shown: &Value) {
        let generation = shown["generation"].as_i64().unwrap();
        if generation != self.generation {
            self.generation = generation;
            self.updated_time = shown["updated_time"].as_str().unwrap().parse().unwrap();
            self.fold();
        }
    }

    /// A report of some adapter, which may have been overtaken.
    fn report(&mut self) -> Value {
        let adapter = self.dice.one_of(&ADAPTERS);
        let generation = (self.generation + [0, 0, 0, 0, -1, 1][self.dice.roll(6)]).max(1);
        let at = if self.dice.roll(4) == 0 { earlier(60) } else { now() };
        let available = self.dice.one_of(&["True", "True", "True", "False", "Unknown"]);
        let finalized = [None, Some("True"), Some("False")][self.dice.roll(3)];
        let finalized =
            if self.is_deleted { Some("True").filter(|_| self.dice.roll(3) > 0) } else { finalized };
        report_at(adapter, generation, at, available, finalized)
    }

    fn tell(&mut self, site: &Site, said: &Value) {
        let raw: RawReport = serde_json::from_value(said.clone()).unwrap();
        let report = validate(raw, now()).unwrap();
        let stored = self.statuses.iter().position(|status| status.adapter == report.adapter);
        let verdict = classify(self.generation, stored.map(|at| &self.statuses[at]), &report);
        let path = format!("{}/statuses", self.path);
        let is_put = self.dice.roll(2) == 0;
        let reply = if is_put { site.admin().put(&path, said) } else { site.admin().post(&path, said) };
        match verdict {
            Verdict::Discard(why) if is_put => assert_eq!(reply.status, 204, "{why}: {}", reply.text()),
            Verdict::Discard(why) => assert_eq!(reply.expect(200)["discarded"], why.as_str()),
            Verdict::Store { folds } => {
                assert_eq!(reply.status, if is_put { 201 } else { 200 }, "{}", reply.text());
                let status = upsert(stored.map(|at| &self.statuses[at]), report);
                self.statuses.retain(|other| other.adapter != status.adapter);
                self.statuses.push(status);
                if folds {
                    self.fold();
                }
                self.is_gone =
                    self.is_deleted && all_finalized(&self.required, self.generation, &self.statuses);
            }
        }
    }

    fn check(&self, site: &Site, what: &str) {
        let reply = site.admin().get(&self.path);
        if self.is_gone {
            reply.problem(404);
            return;
        }
        let shown = reply.expect(200);
        let conditions: Vec<Condition> =
            serde_json::from_value(shown["status"]["conditions"].clone()).unwrap();
        assert_eq!(conditions, self.conditions, "{what}");
    }
}
