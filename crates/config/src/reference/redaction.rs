//! Values as TOML without secrets: in URLs, arguments of programs, and tables whose keys users choose.

use crate::schema::properties;
use serde_json::Value;
use url::Url;
use valvehouse_grants::is_postgres;
use valvehouse_json::Json;

const MASK: &str = "***";

/// The parameters of URLs that are not redacted: they select the version of an API.
const SHOWN_PARAMETERS: [&str; 3] = ["api-version", "api_version", "version"];

/// The words in names of secrets.
const SECRET_WORDS: &str = "token secret secrets password passwd pwd pass passphrase key credential credentials authorization \
    auth bearer cookie signature sig pat jwt";

/// The ends of names of secrets that are written without a separator.
const SECRET_ENDS: [&str; 4] = ["token", "secret", "password", "apikey"];

/// The beginnings of the keys of well-known services.
const KEY_BEGINNINGS: [&str; 10] =
    ["sk-", "sk_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "hf_", "eyJ"];

/// Returns a value as TOML without secrets.
pub(super) fn shown(schema: &Value, value: &Json) -> String {
    let kind = if matches!(value, Json::Text(_)) { "string" } else { "object" };
    let mut branches = schema["anyOf"].as_array().into_iter().flatten();
    if let Some(branch) = branches.find(|branch| branch["type"] == kind && schema.get("format").is_none()) {
        return shown(branch, value);
    }
    match (schema["format"].as_str(), value) {
        (Some("secret" | "key"), _) => match value.as_str() {
            Some(word) if schema["x-word"] == word => written(value),
            _ => secret(value),
        },
        (Some("valves"), Json::Object(_)) => table(value, |_, _| "…".to_owned()),
        (Some("store" | "database"), Json::Text(url)) if is_postgres(url) => {
            written(&"postgres://***".into())
        }
        (Some("command"), Json::Array(words)) => {
            let words = words.items();
            let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
            list(command(&words).into_iter().map(|word| written(&word.into())))
        }
        (_, Json::Array(array)) => list(array.items().iter().map(|item| shown(&schema["items"], item))),
        (None | Some("user"), Json::Object(_)) => table(value, |name, value| match properties(schema) {
            Some(known) => shown(&known[name], value),
            None if schema["additionalProperties"]["format"] == "secret" => secret(value),
            None => named(name, value),
        }),
        _ => written(value),
    }
}

/// Returns a value as inline TOML, without secrets in URLs and under names of secrets.
fn written(value: &Json) -> String {
    match value {
        Json::Object(_) => table(value, named),
        Json::Text(text) => Json::from(url(text)).to_string(),
        Json::Array(array) => list(array.items().iter().map(written)),
        other => other.to_string(),
    }
}

fn named(name: &str, value: &Json) -> String {
    match value {
        Json::Null | Json::Bool(_) => written(value),
        _ if is_secret_name(name) => secret(value),
        _ => written(value),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn table(value: &Json, shown: impl Fn(&str, &Json) -> String) -> String {
    let entries = value.entries();
    let entries: Vec<String> =
        entries.iter().map(|(key, value)| format!("{key} = {}", shown(key, value))).collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
}

/// Returns the source of a secret; a literal secret is masked.
fn secret(value: &Json) -> String {
    let is_source = value.as_str().is_some_and(|text| text.starts_with("env:") || text.starts_with("file:"));
    if is_source { written(value) } else { written(&MASK.into()) }
}

/// Returns `true` if a name, such as `api_key` or `--access-token`, says that its value is a secret.
fn is_secret_name(name: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.iter().any(|word| {
        SECRET_WORDS.split(' ').any(|secret| secret == word)
            || SECRET_ENDS.iter().any(|end| word.ends_with(end))
    })
}

/// Returns a text without secrets if it is a URL: without users, values of parameters and the fragment.
fn url(text: &str) -> String {
    let Some(mut url) = Url::parse(text.trim()).ok().filter(Url::has_host) else { return text.to_owned() };
    let before = url.clone();
    if !url.username().is_empty() {
        // A URL with a host can have another user.
        let _ = url.set_username(MASK);
    }
    if url.password().is_some() {
        let _ = url.set_password(Some(MASK));
    }
    if let Some(query) = url.query() {
        let shown = |pair: &str| match pair.split_once('=') {
            Some((name, value)) if value.is_empty() || SHOWN_PARAMETERS.contains(&name) => pair.to_owned(),
            Some((name, _)) => format!("{name}={MASK}"),
            None => MASK.to_owned(),
        };
        let shown: Vec<String> = query.split('&').map(shown).collect();
        url.set_query(Some(&shown.join("&")));
    }
    if url.fragment().is_some_and(|fragment| !fragment.is_empty()) {
        url.set_fragment(Some(MASK));
    }
    if url == before { text.to_owned() } else { url.into() }
}

/// Returns the program and the arguments of a command without secrets.
pub(crate) fn command(words: &[&str]) -> Vec<String> {
    let mut follows = false;
    let shown = words.iter().map(|word| {
        let is_value = std::mem::replace(&mut follows, false) && !word.starts_with('-');
        if is_value {
            return MASK.to_owned();
        }
        follows = word.starts_with('-') && !word.contains(['=', ':']) && is_secret_name(word)
            || word.eq_ignore_ascii_case("bearer");
        argument(word)
    });
    shown.collect()
}

fn argument(word: &str) -> String {
    if KEY_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning)) {
        return MASK.to_owned();
    }
    // `--api-key=X`, `API_KEY=X`, `Authorization: Bearer X`.
    let place = word.find(['=', ':']).filter(|place| !word[*place..].starts_with("://"));
    if let Some(place) = place {
        let (name, value) = (&word[..place], &word[place + 1..]);
        if is_secret_name(name) {
            let gap = if value.starts_with(' ') { " " } else { "" };
            return format!("{}{gap}{MASK}", &word[..=place]);
        }
        if word[place..].starts_with('=') {
            return format!("{name}={}", argument(value));
        }
    }
    if word
        .split_whitespace()
        .next()
        .is_some_and(|first| first.eq_ignore_ascii_case("bearer") && first != word)
    {
        return format!("Bearer {MASK}");
    }
    url(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognized() {
        for name in [
            "api_key",
            "apiKey",
            "--access-token",
            "X-API-Key",
            "GITHUB_PAT",
            "authtoken",
            "db.password",
            "key",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["max_tokens", "monkey", "keyboard", "author", "path", "tokenizer", "passage", "compass"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn urls_are_redacted() {
        for (given, shown) in [
            ("https://h/mcp", "https://h/mcp"),
            ("https://h?api-version=2", "https://h?api-version=2"),
            ("https://h/mcp?api_key=cAnArY&x=cAnArY&flag", "https://h/mcp?api_key=***&x=***&***"),
            ("https://u:cAnArY@h/", "https://***:***@h/"),
            ("https://cAnArY@h/", "https://***@h/"),
            ("https://h/#cAnArY", "https://h/#***"),
            ("not a url", "not a url"),
            ("env:NAME", "env:NAME"),
        ] {
            assert_eq!(url(given), shown);
        }
    }

    #[test]
    fn commands_are_redacted() {
        let given = [
            "npx",
            "-y",
            "server",
            "--token",
            "cAnArY",
            "--api-key=cAnArY",
            "-e",
            "API_KEY=cAnArY",
            "--port",
            "80",
            "--header",
            "Authorization: Bearer cAnArY",
            "--url=https://h?k=cAnArY",
            "https://cAnArY@h",
            "sk-cAnArY",
            "Bearer cAnArY",
            "--key=sk-cAnArY",
            "--password",
            "--verbose",
            "a:b",
        ];
        let shown = [
            "npx",
            "-y",
            "server",
            "--token",
            "***",
            "--api-key=***",
            "-e",
            "API_KEY=***",
            "--port",
            "80",
            "--header",
            "Authorization: ***",
            "--url=https://h/?k=***",
            "https://***@h/",
            "***",
            "Bearer ***",
            "--key=***",
            "--password",
            "--verbose",
            "a:b",
        ];
        assert_eq!(command(&given), shown);
    }
}
