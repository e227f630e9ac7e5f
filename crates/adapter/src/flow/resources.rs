//! Brings the resources about, or deletes them, and looks at the other objects.

use serde_json::{Value as Json, json};
use wardroom_upstream::kubernetes::{Kind, Propagation, Target};

use super::{AdapterError, Facts, trace::without_secrets};
use crate::{
    config::{Config, Discovery, Found, Resource},
    expression::Expression,
    run::Interest,
    template::Template,
    world::{Trouble, World},
};

/// The label of everything that an adapter applies: its name.
pub(crate) const ADAPTER_LABEL: &str = "wardroom.dev/adapter";

/// The label with the id of the cluster, or of the node pool, that an object was applied for.
pub(crate) const CLUSTER_LABEL: &str = "wardroom.dev/cluster";

/// A resource with its manifest and its object.
struct Wanted<'c> {
    resource: &'c Resource,
    manifest: Json,
    target: Target,
}

/// What is done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Apply,
    Delete,
    Leave,
}

/// Applies the resources in their order, or deletes them in reverse.
pub(super) async fn bring_about(
    config: &Config,
    facts: &mut Facts,
    world: &mut World,
) -> Result<(), AdapterError> {
    let mut wanted = Vec::new();
    for resource in &config.resources {
        match render(config, resource, facts) {
            Ok(want) => wanted.push(want),
            // What a manifest needs may be missing while a precondition does not hold.
            Err(_) if facts.skipped.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    for want in &wanted {
        let name = &want.resource.name;
        facts.interests.push(Interest::Object(want.target.clone()));
        let object = world.get(&want.target).await.map_err(|trouble| failed(name, trouble))?;
        facts.set_object("resources", name, object);
    }
    let mut left = Vec::new();
    let steps = if facts.is_deleting {
        for stray in strays(config, &wanted, facts, world).await? {
            let name = format!("{} {}", stray.kind.kind, stray.name);
            let gone = world
                .delete(&stray, Propagation::Background)
                .await
                .map_err(|trouble| failed(&name, trouble))?;
            let outcome = if gone { "is gone" } else { "is going" };
            facts.trace.resources.push(json!({"name": &name, "action": "delete", "outcome": outcome}));
            left.extend((!gone).then_some(name));
        }
        remove(&wanted, facts, world).await
    } else {
        apply(&wanted, facts, world).await
    };
    left.extend(wanted.iter().map(|want| want.resource.name.clone()).filter(|name| exists(facts, name)));
    facts.remaining = left;
    for want in &wanted {
        let object = facts.values.by_name["resources"].get(&want.resource.name).cloned();
        facts.trace.found(&want.resource.name, object.as_ref());
    }
    steps
}

fn failed(name: &str, trouble: Trouble) -> AdapterError {
    AdapterError::new("resources", name, trouble)
}

fn exists(facts: &Facts, name: &str) -> bool {
    facts.values.by_name.get("resources").is_some_and(|all| all.get(name).is_some())
}

/// Renders a manifest. The shown one has no value of the environment.
fn render<'c>(config: &Config, resource: &'c Resource, facts: &Facts) -> Result<Wanted<'c>, AdapterError> {
    let path = format!("resources.{}.manifest", resource.name);
    let unbuilt = |unbuilt| AdapterError::unbuilt("resources", &resource.name, &unbuilt);
    let mut manifest = resource.manifest.build(&path, &facts.values, &facts.scope).map_err(unbuilt)?;
    mark(&mut manifest, config, facts);
    let target = Target::of(&manifest)
        .map_err(|failure| failed(&resource.name, Trouble::lasting(failure.to_string())))?;
    Ok(Wanted { resource, manifest, target })
}

/// Adds the labels that the watches and the search for what is left select.
fn mark(manifest: &mut Json, config: &Config, facts: &Facts) {
    let labels = &mut manifest["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    for (key, value) in labels_of(config, facts) {
        labels[key] = json!(value);
    }
}

/// Returns the labels of everything that is applied for a cluster.
fn labels_of(config: &Config, facts: &Facts) -> [(String, String); 2] {
    let values = &facts.values.by_name;
    let subject =
        values.get("nodePoolId").filter(|pool| pool.is_string()).or_else(|| values.get("clusterId"));
    let subject = subject.and_then(Json::as_str).unwrap_or_default();
    [(ADAPTER_LABEL.to_owned(), config.name.clone()), (CLUSTER_LABEL.to_owned(), subject.to_owned())]
}

/// Returns what was made for the cluster and is not among the wanted objects: manifests name their objects by values
/// that may have changed since.
async fn strays(
    config: &Config,
    wanted: &[Wanted<'_>],
    facts: &Facts,
    world: &World,
) -> Result<Vec<Target>, AdapterError> {
    let labels = labels_of(config, facts);
    let mut kinds: Vec<&Kind> = config.resources.iter().map(|resource| &resource.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut strays = Vec::new();
    for kind in kinds {
        let found = world.list(kind, None, &labels).await.map_err(|trouble| failed(&kind.kind, trouble))?;
        for object in found {
            let Ok(target) = Target::of(&object) else { continue };
            // A manifest without a namespace means that of the configuration.
            let is_same = |want: &Wanted<'_>| {
                let namespace = want.target.namespace.as_ref();
                want.target.kind == target.kind
                    && want.target.name == target.name
                    && namespace.is_none_or(|namespace| target.namespace.as_ref() == Some(namespace))
            };
            if !wanted.iter().any(is_same) {
                strays.push(target);
            }
        }
    }
    Ok(strays)
}

/// Decides what is done with a resource.
fn decide(resource: &Resource, facts: &Facts) -> Result<Step, AdapterError> {
    let test = |expression: Option<&Expression>, absent: bool| {
        let Some(expression) = expression else { return Ok(absent) };
        expression
            .test(&facts.scope)
            .map_err(|failure| failed(&resource.name, Trouble::lasting(format!("`when` fails: {failure}"))))
    };
    if test(resource.delete.as_ref(), facts.is_deleting)? {
        return Ok(Step::Delete);
    }
    if facts.is_deleting || facts.skipped.is_some() || !test(resource.create.as_ref(), true)? {
        return Ok(Step::Leave);
    }
    Ok(Step::Apply)
}

async fn apply(wanted: &[Wanted<'_>], facts: &mut Facts, world: &mut World) -> Result<(), AdapterError> {
    for want in wanted {
        let name = &want.resource.name;
        match decide(want.resource, facts)? {
            Step::Leave => note(facts, want, "leave", "left as it is"),
            Step::Delete => delete(want, facts, world).await?,
            Step::Apply => {
                let was_there = exists(facts, name);
                let object = world.apply(&want.manifest).await;
                let object = object.map_err(|trouble| {
                    note(facts, want, "apply", &trouble.message);
                    failed(name, trouble)
                })?;
                facts.set_object("resources", name, Some(object));
                note(facts, want, "apply", if was_there { "was there" } else { "created" });
                if !was_there {
                    facts.created.push(name.clone());
                }
            }
        }
    }
    Ok(())
}

/// Deletes in reverse: each object goes when those after it are gone.
async fn remove(wanted: &[Wanted<'_>], facts: &mut Facts, world: &mut World) -> Result<(), AdapterError> {
    for want in wanted.iter().rev() {
        let name = &want.resource.name;
        if !exists(facts, name) {
            note(facts, want, "delete", "is gone");
            continue;
        }
        if decide(want.resource, facts)? != Step::Delete {
            note(facts, want, "leave", "its `when` does not hold");
            continue;
        }
        delete(want, facts, world).await?;
        if exists(facts, name) {
            // The next look goes on from here.
            return Ok(());
        }
    }
    Ok(())
}

async fn delete(want: &Wanted<'_>, facts: &mut Facts, world: &mut World) -> Result<(), AdapterError> {
    let name = &want.resource.name;
    if !exists(facts, name) {
        note(facts, want, "delete", "is gone");
        return Ok(());
    }
    let outcome = async {
        world.delete(&want.target, want.resource.propagation).await?;
        // A deletion that is accepted is not one that is done.
        world.get(&want.target).await
    };
    let left = outcome.await.map_err(|trouble| {
        note(facts, want, "delete", &trouble.message);
        failed(name, trouble)
    })?;
    note(facts, want, "delete", if left.is_some() { "is going" } else { "is gone" });
    facts.set_object("resources", name, left);
    Ok(())
}

/// Notes a step, with the manifest as it may be shown.
fn note(facts: &mut Facts, want: &Wanted<'_>, action: &str, outcome: &str) {
    let path = format!("resources.{}.manifest", want.resource.name);
    let manifest = want.resource.manifest.build(&path, &facts.shown(), &facts.scope).unwrap_or_default();
    let manifest = (action == "apply").then(|| without_secrets(&manifest));
    let outcome = facts.conceal(outcome);
    let mut step = json!({"name": want.resource.name, "action": action, "outcome": outcome});
    if let Some(manifest) = manifest {
        step["manifest"] = manifest;
    }
    facts.trace.resources.push(step);
}

/// Looks at the objects of `track.discovery`.
pub(super) async fn discover(
    config: &Config,
    facts: &mut Facts,
    world: &mut World,
) -> Result<(), AdapterError> {
    for discovery in &config.discoveries {
        let found = find(discovery, facts, world).await;
        let found = found.map_err(|trouble| AdapterError::new("discovery", &discovery.name, trouble))?;
        let root = if discovery.is_external { "externalResources" } else { "resources" };
        facts.set_object(root, &discovery.name, found);
        let found = facts.values.by_name[root].get(&discovery.name).cloned();
        facts.trace.found(&discovery.name, found.as_ref());
    }
    Ok(())
}

async fn find(discovery: &Discovery, facts: &mut Facts, world: &World) -> Result<Option<Json>, Trouble> {
    let values = facts.values.clone();
    let text = |template: &Template| template.render(&values).map_err(Trouble::lasting);
    let kind = discovery.kind.clone();
    let namespace = discovery.namespace.as_ref().map(text).transpose()?;
    match &discovery.by {
        Found::Name(name) => {
            let target = Target { kind, namespace, name: text(name)? };
            facts.interests.push(Interest::Object(target.clone()));
            world.get(&target).await
        }
        Found::Labels(labels) => {
            let mut selector = Vec::new();
            for (key, value) in labels {
                selector.push((key.clone(), text(value)?));
            }
            let (watched, labels) = (kind.clone(), selector.clone());
            facts.interests.push(Interest::Labels { kind: watched, namespace: namespace.clone(), labels });
            let mut found = world.list(&kind, namespace.as_deref(), &selector).await?;
            // The newest one, then the first by name.
            found.sort_by(|left, right| {
                let time =
                    |object: &Json| object["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
                let name = |object: &Json| object["metadata"]["name"].as_str().map(str::to_owned);
                time(right).cmp(&time(left)).then_with(|| name(left).cmp(&name(right)))
            });
            Ok(found.into_iter().next())
        }
    }
}
