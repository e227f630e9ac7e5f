//! The places of mistakes in a configuration.

use super::Config;

/// Reads a configuration and returns its problems as they are shown.
fn problems(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.yaml");
    std::fs::write(&path, text).unwrap();
    let problems = Config::read(&path).err().unwrap_or_default();
    problems
        .iter()
        .map(|problem| problem.to_string().rsplit_once("adapter.yaml:").unwrap().1.to_owned())
        .collect()
}

const GOOD: &str = r#"adapter: {name: dns}
params:
  - name: region
    source: cluster.spec.region
  - name: image
    source: env.IMAGE
resources:
  - name: map
    manifest:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "{{ .clusterId }}", namespace: "{{ .region }}"}
      data: {image: "{{ .image }}"}
post:
  payloads:
    - name: payload
      build:
        conditions:
          applied: {status: {expression: resources.map != nil}}
          available:
            status:
              expression: |
                resources.map.data.x == "1" &&
                region != nil
          health: {status: {expression: "true"}}
  postActions:
    - {type: api_call, method: POST, endpoint: "/clusters/{{ .clusterId }}/statuses", body: "{{ .payload }}"}
"#;

#[test]
fn a_good_configuration_has_no_problems() {
    assert_eq!(problems(GOOD), Vec::<String>::new());
}

#[test]
fn every_mistake_is_told_with_its_place() {
    for (from, to, expected) in [
        ("adapter: {name: dns}\n", "", "1:1: adapter: is required"),
        ("{name: dns}", "{name: DNS_}", "1:17: adapter.name: needs 1 to 63 characters"),
        ("params:", "parms:", "2:1: parms: is not known; known are `adapter`, `params`"),
        (
            "source: cluster.spec.region",
            "source: clutser.spec",
            "4:13: params[0].source: `clutser` is none of",
        ),
        (
            "source: cluster.spec.region",
            "expression: clutser.x",
            "4:17: params[0].expression: `clutser` is not declared",
        ),
        ("    source: cluster.spec.region\n", "", "3:5: params[0]: needs one of `source`"),
        (
            "source: cluster.spec.region",
            "source: event.id\n    type: number",
            "5:11: params[0].type: `number` is not known",
        ),
        (
            "source: cluster.spec.region",
            "source: event.id\n    type: int\n    default: x",
            "6:14: params[0].default: it cannot",
        ),
        ("- name: image", "- name: region", "5:11: params[1].name: `region` appears more than once"),
        ("- name: map", "- name: \"1\"", "8:11: resources[0].name: `1` is no name"),
        (
            "{{ .region }}",
            "{{ .regoin }}",
            "12:59: resources[0].manifest.metadata.namespace: `regoin` is not declared",
        ),
        ("{{ .region }}", "{{ .region | frob }}", "12:"),
        ("{{ .region }}", "{{ .region ", "12:"),
        (
            "kind: ConfigMap",
            "kind: \"{{ .region }}\"",
            "10:7: resources[0].manifest.kind: cannot be a template",
        ),
        (
            "resources.map.data.x",
            "resources.mop.data.x",
            "23:27: post.payloads[0].build.conditions.available.status.expression: `resources` has no `mop`",
        ),
        (
            "region != nil",
            "regoin != nil",
            "24:17: post.payloads[0].build.conditions.available.status.expression: `regoin` is not declared",
        ),
        (
            "region != nil",
            "image != nil",
            "24:17: post.payloads[0].build.conditions.available.status.expression: `image` comes from the environment",
        ),
        (
            "region != nil",
            "size(region, 1) > 0",
            "24:17: post.payloads[0].build.conditions.available.status.expression: `size` takes 1 arguments",
        ),
        ("region != nil", "region.frob()", "24:24:"),
        ("region != nil", "(region", "25:1:"),
        ("resources.map != nil", "resources.map !== nil", "19:"),
        ("          health: {status: {expression: \"true\"}}\n", "", "conditions.health: is required"),
        (
            "method: POST",
            "method: DELETE",
            "post.post_actions[0].method: a status is reported with POST or PUT",
        ),
        ("/statuses", "/tokens", "post.post_actions[0].endpoint: only a report to"),
        ("{{ .payload }}", "{{ .other }}", "post.post_actions[0].body: only the payload is reported"),
        ("post:\n", "post: [\n", "is no"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = problems(&GOOD.replacen(from, to, 1));
        assert!(!found.is_empty(), "{to} is accepted");
        if expected != "is no" {
            assert!(found.iter().any(|problem| problem.contains(expected)), "{to}: {found:#?}");
        }
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = GOOD
        .replace("region != nil", "regoin != nil")
        .replace("{{ .clusterId }}\", n", "{{ .clutserId }}\", n");
    assert_eq!(problems(&text).len(), 2, "{:#?}", problems(&text));
}

/// The examples are without mistakes, and the page shows them as they are.
#[test]
fn the_examples_are_good() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/adapters.md")).unwrap();
    for name in ["dns.yaml", "validation.yaml"] {
        let path = root.join("examples").join(name);
        assert!(Config::read(&path).is_ok(), "{:?}", Config::read(&path).err());
        assert!(
            page.contains(&std::fs::read_to_string(&path).unwrap()),
            "docs/adapters.md shows {name} as it is"
        );
    }
}
