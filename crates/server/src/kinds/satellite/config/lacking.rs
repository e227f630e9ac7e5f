//! Settings that a config must have: a satellite replaces its whole configuration with that of its config.

use serde_json::Value;

/// Returns the warnings about a config, for satellites that reach this server under `url`.
pub(super) fn lacking(config: &Value, url: Option<&str>) -> Vec<String> {
    let app = &config["app_config"];
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let mut warnings = Vec::new();
    let mut warn = |setting: &str, effect: &str| {
        warnings.push(format!("config.app_config.{setting}: is missing: {effect}"));
    };
    if !text(&app["ground_control_url"]) {
        warn(
            "ground_control_url",
            "a satellite that was not started with the URL of this server refuses the config",
        );
    }
    if silences(config, url) {
        warn(
            "use_unsecure",
            "over plain HTTP a satellite sends no heartbeat unless it is true, and becomes stale",
        );
    }
    let has_own = app["bring_own_registry"] == true;
    match (has_own, text(&app["local_registry"]["url"]), config["zot_config"].is_object()) {
        (true, false, _) => {
            warn("local_registry.url", "a satellite with bring_own_registry refuses the config without it");
        }
        (false, _, false) => warn(
            "bring_own_registry",
            "a satellite with a registry of its own replicates into its built-in one instead; set it and local_registry, \
             or zot_config for the built-in one",
        ),
        (true, true, _) | (false, _, true) => {}
    }
    warnings
}

/// Returns whether a satellite with this config stops sending heartbeats.
pub(super) fn silences(config: &Value, url: Option<&str>) -> bool {
    let is_plain = url.is_some_and(|url| url.starts_with("http://"));
    is_plain && config["app_config"]["use_unsecure"] != true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lacking;

    fn names(config: &serde_json::Value, url: &str) -> Vec<String> {
        let warnings = lacking(config, Some(url));
        warnings.iter().map(|warning| warning.split(": is missing").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_a_satellite_needs_is_named() {
        let (plain, tls) = ("http://10.0.0.1:8440", "https://wardroom.example.com");
        let [url, unsecure, own, local] =
            ["ground_control_url", "use_unsecure", "bring_own_registry", "local_registry.url"]
                .map(|name| format!("config.app_config.{name}"));
        let bare = json!({"app_config": {"log_level": "debug"}});
        assert_eq!(names(&bare, plain), [url.clone(), unsecure.clone(), own.clone()]);
        assert_eq!(names(&bare, tls), [url, own]);
        let whole = json!({"app_config": {
            "ground_control_url": plain, "use_unsecure": true, "bring_own_registry": true,
            "local_registry": {"url": "http://127.0.0.1:5000"},
        }});
        assert_eq!(names(&whole, plain), [""; 0]);
        let mut without = whole.clone();
        without["app_config"]["local_registry"] = json!({});
        assert_eq!(names(&without, plain), [local]);
        let built_in = json!({"app_config": {"ground_control_url": tls}, "zot_config": {"storage": {}}});
        assert_eq!(names(&built_in, tls), [""; 0]);
        assert_eq!(names(&built_in, plain), [unsecure]);
        assert_eq!(names(&json!({}), tls).len(), 2, "settings of any shape");
    }
}
