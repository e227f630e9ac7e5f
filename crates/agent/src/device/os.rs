//! The operating system: which image runs, which one boots next, and the reboot itself.

use std::path::Path;

use super::{
    config::{Driver, Os},
    crash,
};
use crate::{
    command::{self, Program, Ran, complaint},
    orphan,
};

/// The image that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Booted {
    pub(crate) image: String,
    pub(crate) digest: String,
}

/// Returns the id of this boot.
pub(crate) fn boot_id(os: &Os) -> Result<String, String> {
    let text = std::fs::read_to_string(&os.boot_id)
        .map_err(|error| format!("cannot read the id of this boot, {}: {error}", os.boot_id.display()))?;
    Ok(text.trim().to_owned())
}

/// Returns the image that runs; an empty one where no driver is configured.
pub(crate) async fn booted(os: &Os, mark: &Path) -> Result<Booted, String> {
    if os.driver == Driver::None {
        return Ok(Booted::default());
    }
    let said = run(os, "booted", &os.booted, mark).await?;
    if os.driver == Driver::Bootc {
        return parse_bootc(&said);
    }
    let image = said.lines().next().unwrap_or_default().trim().to_owned();
    if image.is_empty() {
        return Err("the command os.booted prints no image".to_owned());
    }
    Ok(Booted { image, digest: String::new() })
}

/// Makes an image the one to boot.
pub(crate) async fn stage(os: &Os, image: &str, mark: &Path) -> Result<(), String> {
    let command: Vec<_> = os.stage.iter().map(|word| word.replace("{image}", image)).collect();
    run(os, "stage", &command, mark).await.map(drop)
}

/// Makes the image before this one the one to boot.
pub(crate) async fn rollback(os: &Os, mark: &Path) -> Result<(), String> {
    run(os, "rollback", &os.rollback, mark).await.map(drop)
}

/// Checks that the booted image is healthy.
pub(crate) async fn health(os: &Os, mark: &Path) -> Result<(), String> {
    if os.health.is_empty() {
        return Ok(());
    }
    run(os, "health", &os.health, mark).await.map(drop)
}

/// Reboots. Returns only if the device is still up after the time limit.
pub(crate) async fn reboot(os: &Os, mark: &Path) -> String {
    if let Err(error) = run(os, "reboot", &os.reboot, mark).await {
        return error;
    }
    tokio::time::sleep(os.timeout()).await;
    format!("the command os.reboot succeeded, but the device did not go down in {} s", os.timeout_seconds)
}

async fn run(os: &Os, name: &str, command: &[String], mark: &Path) -> Result<String, String> {
    orphan::end(mark, os.timeout()).await?;
    crash::point(name);
    let ran = command::run(&Program::of(command), os.timeout(), Some(mark)).await;
    crash::point(name);
    let failed = |why: String| format!("the command os.{name} failed: {why}");
    match ran {
        Ran::Exited(Some(0), written) => Ok(written.text),
        Ran::Exited(code, written) => Err(failed(complaint(code, &written.text))),
        Ran::TooLong(_) => Err(failed(format!("it was ended after {} s", os.timeout_seconds))),
        Ran::NotStarted(error) => Err(failed(error)),
    }
}

fn parse_bootc(said: &str) -> Result<Booted, String> {
    // Standard error follows the document.
    let mut documents = serde_json::Deserializer::from_str(said).into_iter::<serde_json::Value>();
    let status = documents.next().and_then(Result::ok).unwrap_or_default();
    let text = |pointer| status.pointer(pointer).and_then(|value| value.as_str()).map(str::to_owned);
    let image = text("/status/booted/image/image/image").ok_or("`bootc status` names no booted image")?;
    Ok(Booted { image, digest: text("/status/booted/image/imageDigest").unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_booted_image_is_read_from_bootc() {
        let said = r#"{"apiVersion":"org.containers.bootc/v1","kind":"BootcHost","status":{"booted":{"image":{"image":
            {"image":"quay.io/edge:2","transport":"registry"},"imageDigest":"sha256:ab"}}}}
            warning: something"#;
        let booted = Booted { image: "quay.io/edge:2".to_owned(), digest: "sha256:ab".to_owned() };
        assert_eq!(parse_bootc(said), Ok(booted));
        for wrong in ["", "{}", "no", r#"{"status":{"booted":null}}"#] {
            assert!(parse_bootc(wrong).is_err(), "{wrong}");
        }
    }
}
