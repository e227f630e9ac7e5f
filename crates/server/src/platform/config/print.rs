//! The configuration in force, as a file.

use toml::Value;

use super::{ConfigError, DEFAULT, Sources, layers};

/// The configuration in force as a file with the comments of the default, without passwords.
///
/// # Errors
/// What is wrong, with the key it is about.
pub fn print(sources: &Sources) -> Result<String, ConfigError> {
    let table = layers::merged(sources)?;
    let mut section = "";
    let mut printed = String::new();
    for line in DEFAULT.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        }
        let key = line.split_once(" = ").map(|(key, _)| key).filter(|key| !key.starts_with('#'));
        let value = key.and_then(|key| Some((key, table.get(section)?.get(key)?)));
        match value {
            Some((key, Value::String(text))) if key.ends_with("_url") => {
                printed.push_str(&format!("{key} = {}\n", Value::String(redacted(text))));
            }
            Some((key @ "password", Value::String(text))) if !text.is_empty() => {
                printed.push_str(&format!("{key} = \"***\"\n"));
            }
            Some((key, value)) => printed.push_str(&format!("{key} = {value}\n")),
            None => printed.push_str(&format!("{line}\n")),
        }
    }
    Ok(printed)
}

/// Removes passwords from a URL: before the host and among the parameters.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}=***"),
        Some(_) | None => pair.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(hidden).collect::<Vec<_>>().join("&"));
    format!("{scheme}://{rest}{}", query.map_or_else(String::new, |query| format!("?{query}")))
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn passwords_are_not_shown() {
        let check = |url: &str, expected: &str| assert_eq!(redacted(url), expected);
        check("postgres://me:secret@db:5432/w", "postgres://me:***@db:5432/w");
        check("postgres://me:se@cr:et@db/w?sslmode=require", "postgres://me:***@db/w?sslmode=require");
        check("postgres://db/w?user=me&password=secret", "postgres://db/w?user=me&password=***");
        check("postgres://db/w", "postgres://db/w");
        check("", "");
    }
}
