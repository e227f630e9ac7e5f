//! The Harbor client against the fake: every call, every class of fault, and what was applied.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use wardroom_fakes::{fault::Order, harbor as fake};
use wardroom_upstream::{
    Failure, Repeat, Secret,
    harbor::{Harbor, Lifetime, NewRobot, Options, Permission, Wanted, extension, robot_name},
};

const DAY: i64 = 24 * 60 * 60;

async fn pair() -> (fake::Harbor, Harbor) {
    let fake = fake::Harbor::start(fake::Options::default()).await.unwrap();
    let client = client(&fake.url(), "Harbor12345", None);
    (fake, client)
}

fn client(url: &str, password: &str, timeout: Option<Duration>) -> Harbor {
    let (username, password) = ("admin".to_owned(), Secret::new(password));
    Harbor::new(Options { url: url.to_owned(), username, password, certificates: None, timeout }).unwrap()
}

fn new_robot(satellite: &str) -> NewRobot {
    NewRobot {
        name: robot_name(satellite),
        description: format!("satellite {satellite}"),
        lifetime: Lifetime::Days(30),
        permissions: vec![Permission::pull("library")],
    }
}

fn wanted(disable: bool, lifetime: Lifetime) -> Wanted {
    Wanted {
        description: "changed".to_owned(),
        disable,
        lifetime,
        permissions: vec![Permission::pull("library")],
    }
}

async fn may_log_in(fake: &fake::Harbor, name: &str, secret: &Secret) -> bool {
    let options = Options {
        url: fake.url(),
        username: name.to_owned(),
        password: secret.clone(),
        certificates: None,
        timeout: None,
    };
    // A user without the permission to list robots gets 403; one that cannot log in gets 401.
    match Harbor::new(options).unwrap().find_robot("x").await {
        Err(Failure::Refused { status: 403, .. }) => true,
        Err(Failure::Refused { status: 401, .. }) => false,
        other => panic!("neither in nor out: {other:?}"),
    }
}

#[tokio::test]
async fn a_robot_lives_and_dies() {
    let (fake, harbor) = pair().await;
    assert_eq!(harbor.find_robot("edge-01").await, Ok(None));
    let created = harbor.create_robot(&new_robot("edge-01")).await.unwrap();
    assert_eq!(created.name, "robot$edge-01");
    assert!(may_log_in(&fake, &created.name, &created.secret).await);

    let found = harbor.find_robot("edge-01").await.unwrap().unwrap();
    assert_eq!(found, harbor.robot(created.id).await.unwrap());
    assert_eq!((found.id, found.disable, found.lifetime), (created.id, false, Lifetime::Days(30)));
    assert_eq!(found.permissions, [Permission::pull("library")]);
    assert_eq!(found.expires_at, created.creation_time.as_second() + 30 * DAY);

    harbor.update_robot(created.id, &wanted(true, Lifetime::Days(30))).await.unwrap();
    assert!(harbor.robot(created.id).await.unwrap().disable);
    assert!(!may_log_in(&fake, &created.name, &created.secret).await, "a disabled robot stays outside");
    harbor.update_robot(created.id, &wanted(false, Lifetime::Days(30))).await.unwrap();
    assert!(may_log_in(&fake, &created.name, &created.secret).await);

    let second = harbor.refresh_secret(created.id).await.unwrap();
    assert!(!may_log_in(&fake, &created.name, &created.secret).await, "the old secret is void");
    assert!(may_log_in(&fake, &created.name, &second).await);

    harbor.delete_robot(created.id).await.unwrap();
    harbor.delete_robot(created.id).await.unwrap();
    assert_eq!(harbor.robot(created.id).await, Err(Failure::NotFound));
    assert_eq!(harbor.refresh_secret(created.id).await, Err(Failure::NotFound));
    assert_eq!(fake.faults().count("robot.delete"), 1);
}

#[tokio::test]
async fn only_more_days_move_the_end_of_a_robot() {
    let (fake, harbor) = pair().await;
    let created = harbor.create_robot(&new_robot("edge-01")).await.unwrap();
    fake.advance(29 * DAY);
    let secret = harbor.refresh_secret(created.id).await.unwrap();
    let robot = harbor.robot(created.id).await.unwrap();
    assert_eq!(robot.expires_at, created.expires_at, "a new secret moves nothing");

    let until = robot.creation_time + SignedDuration::from_secs(59 * DAY);
    let longer = extension(robot.creation_time, robot.lifetime, until).unwrap();
    harbor.update_robot(created.id, &wanted(false, longer)).await.unwrap();
    fake.advance(20 * DAY);
    assert!(may_log_in(&fake, &created.name, &secret).await);
    fake.advance(11 * DAY);
    assert!(!may_log_in(&fake, &created.name, &secret).await, "an expired robot stays outside");
}

#[tokio::test]
async fn every_name_of_a_satellite_is_taken() {
    let (_fake, harbor) = pair().await;
    for name in ["a--b", "a-b", "a.", "a..b", "0", "x-a", &"long-".repeat(51)] {
        let created = harbor.create_robot(&new_robot(name)).await.unwrap();
        let found = harbor.find_robot(&robot_name(name)).await.unwrap().unwrap();
        assert_eq!((found.id, &found.name), (created.id, &created.name), "{name}");
    }
}

#[tokio::test]
async fn the_prefix_is_harbors() {
    let options = fake::Options { prefix: "bot+".to_owned(), ..fake::Options::default() };
    let fake = fake::Harbor::start(options).await.unwrap();
    let harbor = client(&fake.url(), "Harbor12345", None);
    let created = harbor.create_robot(&new_robot("edge-01")).await.unwrap();
    assert_eq!(created.name, "bot+edge-01");
    assert_eq!(harbor.find_robot("edge-01").await.unwrap().unwrap().name, created.name);
    harbor.update_robot(created.id, &wanted(true, Lifetime::Endless)).await.unwrap();
    assert_eq!(harbor.robot(created.id).await.unwrap().expires_at, -1);
}

#[tokio::test]
async fn refusals_have_a_class() {
    let (fake, harbor) = pair().await;
    let created = harbor.create_robot(&new_robot("edge-01")).await.unwrap();
    let twice = harbor.create_robot(&new_robot("edge-01")).await.unwrap_err();
    assert!(matches!(twice, Failure::Conflict(_)), "{twice:?}");
    let bad = NewRobot { name: "a--b".to_owned(), ..new_robot("a") };
    let bad = harbor.create_robot(&bad).await.unwrap_err();
    assert!(matches!(bad, Failure::Refused { status: 400, .. }), "{bad:?}");
    let nothing = Wanted { permissions: Vec::new(), ..wanted(false, Lifetime::Days(1)) };
    let nothing = harbor.update_robot(created.id, &nothing).await.unwrap_err();
    assert!(matches!(nothing, Failure::Refused { status: 400, .. }), "{nothing:?}");
    assert_eq!(harbor.update_robot(999, &wanted(true, Lifetime::Endless)).await, Err(Failure::NotFound));

    let stranger = client(&fake.url(), "wrong-password", None).find_robot("x").await.unwrap_err();
    assert!(stranger.is_denied() && stranger.repeat() == Repeat::Useless, "{stranger:?}");
    assert!(!format!("{stranger:?} {stranger}").contains("wrong-password"));
    assert_eq!(fake.faults().effects(), [("robot.create".to_owned(), 1)].into());
}

#[tokio::test]
async fn robots_may_create_robots_but_not_change_them() {
    let (fake, harbor) = pair().await;
    let access = ["create", "read", "list", "delete", "update"]
        .map(|action| json!({"resource": "robot", "action": action}));
    let system = json!({"kind": "system", "namespace": "/", "access": access});
    let mut robot = new_robot("keeper");
    robot.permissions = vec![serde_json::from_value(system).unwrap()];
    let keeper = harbor.create_robot(&robot).await.unwrap();
    let keeper = Options {
        url: fake.url(),
        username: keeper.name,
        password: keeper.secret,
        certificates: None,
        timeout: None,
    };
    let keeper = Harbor::new(keeper).unwrap();
    let created = keeper.create_robot(&new_robot("edge-01")).await.unwrap();
    let refused = keeper.update_robot(created.id, &wanted(true, Lifetime::Endless)).await.unwrap_err();
    assert!(matches!(refused, Failure::Refused { status: 403, .. }), "{refused:?}");
    let refused = keeper.refresh_secret(created.id).await.unwrap_err();
    assert!(refused.is_denied(), "{refused:?}");
    keeper.delete_robot(created.id).await.unwrap();
}

#[tokio::test]
async fn projects_are_made_once_and_private() {
    let (fake, harbor) = pair().await;
    let project = harbor.ensure_project("satellite").await.unwrap();
    assert!(project.is_new && !project.is_public);
    let project = harbor.ensure_project("satellite").await.unwrap();
    assert!(!project.is_new && !project.is_public);
    let library = harbor.ensure_project("library").await.unwrap();
    assert!(!library.is_new && library.is_public, "a public project is noticed");
    assert_eq!(fake.faults().count("project.create"), 1);

    // Another client is first between the question and the creation.
    fake.faults().order(Order::once("HEAD /projects", "404")).unwrap();
    let raced = harbor.ensure_project("satellite").await.unwrap();
    assert!(!raced.is_new);
}

#[tokio::test]
async fn repositories_are_deleted_by_their_whole_name() {
    let (fake, harbor) = pair().await;
    let seeded = json!({"repositories": ["satellite/group-state/a/state", "satellite/group-state/b/state"]});
    seed(&fake, &seeded).await;
    harbor.delete_repository("satellite", "group-state/a/state").await.unwrap();
    harbor.delete_repository("satellite", "group-state/a/state").await.unwrap();
    assert_eq!(fake.state()["repositories"], json!(["satellite/group-state/b/state"]));
    assert_eq!(fake.faults().count("repository.delete"), 1);
}

#[tokio::test]
async fn health_looks_only_at_what_satellites_need() {
    let (fake, harbor) = pair().await;
    let health = harbor.health().await.unwrap();
    assert!(health.is_usable() && health.status == "healthy");
    seed(&fake, &json!({"down": ["trivy", "jobservice"]})).await;
    let health = harbor.health().await.unwrap();
    assert!(health.is_usable() && health.status == "unhealthy");
    seed(&fake, &json!({"down": ["database"]})).await;
    assert!(!harbor.health().await.unwrap().is_usable());
}

/// A call that changes something, with its names as a fault and as an effect.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Call {
    Create,
    Update,
    Refresh,
    Delete,
}

impl Call {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Create, "POST /robots", "robot.create"),
        (Self::Update, "PUT /robots", "robot.update"),
        (Self::Refresh, "PATCH /robots", "robot.refresh"),
        (Self::Delete, "DELETE /robots", "robot.delete"),
    ];

    async fn send(self, harbor: &Harbor, id: i64) -> Result<(), Failure> {
        match self {
            Self::Create => harbor.create_robot(&new_robot("fresh")).await.map(drop),
            Self::Update => harbor.update_robot(id, &wanted(true, Lifetime::Days(60))).await,
            Self::Refresh => harbor.refresh_secret(id).await.map(drop),
            Self::Delete => harbor.delete_robot(id).await,
        }
    }
}

/// The kind of a fault, whether the call is applied, and what asking again needs.
const FAULTS: [(&str, u64, Repeat); 5] = [
    ("500", 0, Repeat::AfterLook),
    ("429", 0, Repeat::Safe),
    ("hang", 0, Repeat::AfterLook),
    ("lost_reply", 1, Repeat::AfterLook),
    ("slow", 1, Repeat::AfterLook),
];

/// How long a client waits before it concludes that no answer comes; generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_failure_says_what_is_known() {
    let mut cases = tokio::task::JoinSet::new();
    let mut sites = Vec::new();
    for (call, on, effect) in Call::ALL {
        for (kind, applied, repeat) in FAULTS {
            let (fake, harbor) = pair().await;
            let id = harbor.create_robot(&new_robot("edge-01")).await.unwrap().id;
            let before = fake.faults().count(effect);
            // Far slower than any caller waits.
            fake.faults().order(Order { delay_ms: 600_000, ..Order::once(on, kind) }).unwrap();
            let is_silent = matches!(kind, "hang" | "slow");
            let asking = client(&fake.url(), "Harbor12345", is_silent.then_some(PATIENCE));
            // The first call of a client is its slowest.
            asking.health().await.unwrap();
            sites.push((call, kind, applied, repeat, effect, before, fake, harbor, id, asking));
        }
    }
    let count = sites.len();
    for (call, kind, applied, repeat, effect, before, fake, harbor, id, asking) in sites {
        cases.spawn(async move {
            let failure = call.send(&asking, id).await.unwrap_err();
            assert_eq!(failure.repeat(), repeat, "{call:?} with {kind}: {failure:?}");
            assert_eq!(fake.faults().count(effect), before + applied, "{call:?} with {kind}");
            asked_again(call, kind, applied, &fake, &harbor, id).await;
        });
    }
    assert_eq!(cases.join_all().await.len(), count);
}

/// Asked again, everything is as it should be, and nothing is there twice.
async fn asked_again(call: Call, kind: &str, applied: u64, fake: &fake::Harbor, harbor: &Harbor, id: i64) {
    let again = call.send(harbor, id).await;
    match (call, applied) {
        (Call::Create, 1) => assert!(matches!(again, Err(Failure::Conflict(_))), "{again:?}"),
        _ => assert_eq!(again, Ok(()), "{call:?} after {kind}"),
    }
    let expected = match call {
        Call::Create => 2,
        Call::Delete => 0,
        Call::Update | Call::Refresh => 1,
    };
    let robots = fake.state()["robots"].as_object().unwrap().len();
    assert_eq!(robots, expected, "{call:?} after {kind}");
}

#[tokio::test]
async fn conflicts_are_told_from_failures() {
    let (fake, harbor) = pair().await;
    let id = harbor.create_robot(&new_robot("edge-01")).await.unwrap().id;
    fake.faults().order(Order::once("PUT /robots", "409")).unwrap();
    let failure = Call::Update.send(&harbor, id).await.unwrap_err();
    assert!(matches!(failure, Failure::Conflict(_)) && failure.repeat() == Repeat::Useless, "{failure:?}");
}

#[tokio::test]
async fn an_absent_server_is_harmless() {
    let (fake, harbor) = pair().await;
    drop(fake);
    let failure = harbor.create_robot(&new_robot("edge-01")).await.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)) && failure.repeat() == Repeat::Safe, "{failure:?}");
}

#[tokio::test]
async fn a_killed_fake_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let options = || fake::Options { state: Some(folder.path().join("state")), ..fake::Options::default() };
    let fake = fake::Harbor::start(options()).await.unwrap();
    let created = client(&fake.url(), "Harbor12345", None).create_robot(&new_robot("edge-01")).await.unwrap();
    drop(fake);
    let fake = fake::Harbor::start(options()).await.unwrap();
    let found = client(&fake.url(), "Harbor12345", None).find_robot("edge-01").await.unwrap().unwrap();
    assert_eq!(found.id, created.id);
}

#[tokio::test]
async fn nothing_prints_a_secret() {
    let (_fake, harbor) = pair().await;
    let created = harbor.create_robot(&new_robot("edge-01")).await.unwrap();
    let secret = created.secret.expose().to_owned();
    let refreshed = harbor.refresh_secret(created.id).await.unwrap();
    for text in [format!("{created:?}"), format!("{refreshed:?}"), format!("{harbor:?}")] {
        assert!(!text.contains(&secret) && !text.contains(refreshed.expose()), "{text}");
        assert!(!text.contains("Harbor12345"), "{text}");
    }
}

#[test]
fn odd_addresses_are_refused() {
    for url in ["", "harbor.example", "ftp://h", "https://user:pass@h", "https://h/?a=b"] {
        let (username, password) = (String::new(), Secret::default());
        let options = Options { url: url.to_owned(), username, password, certificates: None, timeout: None };
        assert!(matches!(Harbor::new(options), Err(Failure::Setup(_))), "{url}");
    }
}

async fn seed(fake: &fake::Harbor, seed: &serde_json::Value) {
    let url = format!("{}/_seed", fake.url());
    let status = reqwest::Client::new().post(url).json(seed).send().await.unwrap().status();
    assert!(status.is_success());
}
