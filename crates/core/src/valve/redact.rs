//! Redaction of secret values in text, in every encoding in which they can occur.

use super::field::ValveSchema;
use super::user_secrets::UserSecrets;
use super::user_secrets::{CUT, REDACTED, forms};
use parking_lot::RwLock;
use regex::Regex;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};
use valvehouse_json::Json;

/// The minimum length of a secret in characters. Shorter values occur in too many other texts and are rejected.
pub const MIN_SECRET: usize = 6;
/// The length in characters of the parts in which long escaped secrets are searched.
const PART: usize = 256;

/// Returns `true` if a value is too short to be redacted and must be rejected as a secret. Null, `""` and 0
/// mean that no secret is set.
pub(super) fn is_too_short(value: &Json) -> bool {
    match value {
        Json::Text(text) => !text.is_empty() && text.trim().chars().count() < MIN_SECRET,
        Json::Number(number) => number.as_f64() != 0.0 && value.to_string().len() < MIN_SECRET,
        Json::Array(array) => array.items().iter().any(is_too_short),
        Json::Bool(_) => true,
        Json::Null | Json::Object(_) => false,
    }
}

/// A redactor that replaces secret values in text: plain, as JSON, and in URLs, HTML, base64 and hexadecimal.
#[derive(Clone, Default)]
pub struct Redactor {
    own: Option<Arc<Secrets>>,
    /// The secrets of other plugins, which can reach a text through metadata, variables and messages.
    others: SecretGroup,
}

/// The secrets of all running plugins of a host and of its users.
#[derive(Clone, Default)]
pub struct SecretGroup(Arc<Group>);

#[derive(Default)]
struct Group {
    plugins: RwLock<Vec<Weak<Secrets>>>,
    users: RwLock<UserSecrets>,
}

impl SecretGroup {
    /// Adds the secret values of a user, so that a value that a script stores for all users is redacted in the
    /// turns of others. Values that are common words are omitted.
    pub fn add_user(&self, schema: &ValveSchema, values: &Json) {
        let secret = schema.fields().iter().filter(|field| field.secret);
        let mut texts = Vec::new();
        secret.for_each(|field| collect(&values.field(&field.name), &mut texts));
        if !texts.is_empty() {
            let mut users = self.0.users.write();
            texts.iter().for_each(|text| users.add(text));
        }
    }

    fn add(&self, secrets: &Arc<Secrets>) {
        let mut all = self.0.plugins.write();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(secrets));
    }
}

/// Omits the secrets.
impl std::fmt::Debug for SecretGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretGroup")
    }
}

struct Secrets {
    /// The secrets, the longest first.
    values: Vec<String>,
    /// Their encodings without escapes, the longest first.
    forms: Vec<String>,
    /// The patterns that match them with any characters escaped; built on first use.
    escaped: OnceLock<Vec<Regex>>,
}

impl Redactor {
    /// Creates a redactor for the secret values in `values`.
    pub fn of(schema: &ValveSchema, values: &Json) -> Self {
        let mut texts = Vec::new();
        for field in schema.fields().iter().filter(|field| field.secret) {
            collect(&values.field(&field.name), &mut texts);
        }
        longest_first(&mut texts);
        if texts.is_empty() {
            return Self::default();
        }
        let mut forms = texts.iter().flat_map(|text| forms(text)).collect();
        longest_first(&mut forms);
        let own = Arc::new(Secrets { values: texts, forms, escaped: OnceLock::new() });
        Self { own: Some(own), others: SecretGroup::default() }
    }

    /// Adds the secrets to those of a host, and redacts the secrets of all its plugins.
    #[must_use]
    pub fn among(mut self, group: &SecretGroup) -> Self {
        if let Some(own) = &self.own {
            group.add(own);
        }
        self.others = group.clone();
        self
    }

    /// Returns the maximum number of bytes compared to redact a text; 0 for a short text.
    pub fn work(&self, text: &str) -> usize {
        /// The number of compared bytes up to which a text is free of charge.
        const UNMEASURED: usize = 256 << 10;
        /// The number of bytes that can be compared in the time of searching all users' secrets at one byte.
        const USERS: usize = 8;
        let own = self.own.as_ref().map_or(0, |own| own.work(text));
        let others = self.others.0.plugins.read();
        let all = others.iter().filter_map(Weak::upgrade).filter(|one| self.is_other(one));
        let work = all.fold(own, |work, one| work.saturating_add(one.work(text)));
        let users = if self.others.0.users.read().is_empty() { 0 } else { text.len().saturating_mul(USERS) };
        let work = work.saturating_add(users);
        if work > UNMEASURED { work } else { 0 }
    }

    fn is_other(&self, secrets: &Arc<Secrets>) -> bool {
        self.own.as_ref().is_none_or(|own| !Arc::ptr_eq(own, secrets))
    }

    /// Returns the text without secrets. A secret truncated with `…` is replaced as well.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let own = self.own.as_ref().map_or(Cow::Borrowed(text), |own| own.redact(Cow::Borrowed(text)));
        let others = self.others.0.plugins.read();
        let others = others.iter().filter_map(Weak::upgrade).filter(|one| self.is_other(one));
        let text = others.fold(own, |text, one| one.redact(text));
        self.others.0.users.read().redact(text)
    }
}

impl Secrets {
    /// Returns the maximum number of bytes compared to redact a text.
    fn work(&self, text: &str) -> usize {
        /// The number of bytes that can be compared in the time in which a pattern processes one.
        const PATTERN: usize = 20;
        /// The number of bytes that can be compared in the time of compiling a secret's pattern.
        const COMPILED: usize = 1 << 20;
        /// The number of secrets whose patterns are compiled together.
        const MAX_AT_ONCE: usize = 128;
        let mut work = self.forms.len().saturating_mul(text.len());
        if text.contains(CUT) {
            work = work.saturating_mul(2);
        }
        if text.contains(['\\', '%', '&', '+']) {
            let values = self.values.len();
            work = work.saturating_add(values.saturating_mul(PATTERN).saturating_mul(text.len()));
            if values > MAX_AT_ONCE && self.escaped.get().is_none() {
                work = work.saturating_add(values.saturating_mul(COMPILED));
            }
        }
        work
    }

    fn redact<'a>(&self, mut text: Cow<'a, str>) -> Cow<'a, str> {
        for form in &self.forms {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), REDACTED).into();
            }
        }
        if text.contains(['\\', '%', '&', '+']) {
            for escaped in self.escaped.get_or_init(|| patterns(&self.values)) {
                if let Cow::Owned(redacted) = escaped.replace_all(&text, REDACTED) {
                    text = redacted.into();
                }
            }
        }
        if text.contains(CUT) {
            for form in &self.forms {
                if let Some(redacted) = without_beginning(&text, form) {
                    text = redacted.into();
                }
            }
        }
        text
    }
}

/// Omits the secrets.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

fn collect(value: &Json, into: &mut Vec<String>) {
    match value {
        Json::Array(array) => array.items().iter().for_each(|item| collect(item, into)),
        value if is_too_short(value) => {}
        Json::Text(text) => {
            let text = text.trim();
            let lines = text.lines().map(str::trim).filter(|line| line.chars().count() >= MIN_SECRET);
            into.extend(
                std::iter::once(text).chain(lines).filter(|text| !text.is_empty()).map(str::to_owned),
            );
        }
        Json::Number(number) if number.as_f64() != 0.0 => {
            let float = number.as_f64();
            into.push(value.to_string());
            if !number.is_integer() {
                into.extend([format!("{float}"), format!("{float:?}"), format!("{float:e}")]);
            }
        }
        _ => {}
    }
}

fn longest_first(texts: &mut Vec<String>) {
    texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    texts.dedup();
}

/// Returns patterns that match secrets with any characters escaped for JSON (including nested JSON), URLs or
/// HTML.
fn patterns(secrets: &[String]) -> Vec<Regex> {
    let mut patterns = Vec::new();
    for secret in secrets {
        let characters: Vec<char> = secret.chars().collect();
        for part in characters.chunks(PART).filter(|part| part.len() >= MIN_SECRET) {
            let pattern: String = part.iter().map(|character| one(*character)).collect();
            match Regex::new(&pattern) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => tracing::error!("cannot look for escaped secrets: {error}"),
            }
        }
    }
    patterns
}

/// Returns a pattern for one character, plain or escaped.
fn one(character: char) -> String {
    let mut ways = vec![regex::escape(character.encode_utf8(&mut [0; 4]))];
    let percent: String =
        character.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02x}")).collect();
    ways.push(format!("(?i:{percent})"));
    let units: String =
        character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!(r"\\+u{unit:04x}")).collect();
    ways.push(format!("(?i:{units})"));
    let code = u32::from(character);
    ways.push(format!(r"(?i:\\+u\{{0*{code:x}\}})"));
    ways.push(format!("(?i:&#0*{code};|&#x0*{code:x};)"));
    let named: &[&str] = match character {
        '\n' => &[r"\\+n"],
        '\r' => &[r"\\+r"],
        '\t' => &[r"\\+t"],
        '\u{8}' => &[r"\\+b"],
        '\u{c}' => &[r"\\+f"],
        '\\' => &[r"\\{2,}"],
        '"' => &[r#"\\+""#, "&quot;"],
        '\'' => &[r"\\+'", "&apos;"],
        '/' => &[r"\\+/"],
        '&' => &["&amp;"],
        '<' => &["&lt;"],
        '>' => &["&gt;"],
        ' ' => &[r"\+"],
        _ => &[],
    };
    ways.extend(named.iter().map(|way| (*way).to_owned()));
    format!("(?:{})", ways.join("|"))
}

/// Returns the text without the start of a secret directly before a truncation mark; `None` if there is none.
fn without_beginning(text: &str, secret: &str) -> Option<String> {
    let beginning = &secret[..secret.char_indices().nth(MIN_SECRET).map_or(secret.len(), |(at, _)| at)];
    let mut out = String::new();
    let mut from = 0;
    for (cut, _) in text.match_indices(CUT) {
        let Some(before) = text.get(from..cut) else { continue };
        let is_secret = |at: &usize| secret.starts_with(&before[*at..]);
        let found = before.match_indices(beginning).map(|(at, _)| at).find(is_secret);
        if let Some(at) = found {
            out.push_str(&before[..at]);
            out.push_str(REDACTED);
            from = cut;
        }
    }
    (from > 0).then(|| out + &text[from..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    fn redactor(declared: &str, values: &str) -> Redactor {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
        Redactor::of(&ValveSchema::declare(&json(declared)).unwrap(), &json(values))
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let secret = "pa\"ss\nwörd/&<>'\\ +%§";
        let value = serde_json::to_string(secret).unwrap();
        let redactor = redactor(r#"{"s": {"value": "", "secret": true}}"#, &format!(r#"{{"s": {value}}}"#));
        let twice = serde_json::to_string(&value).unwrap();
        let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let basic =
            |before: &str| base64::engine::general_purpose::STANDARD.encode(format!("{before}{secret}!"));
        let all =
            percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string();
        for text in [
            secret.to_owned(),
            format!("x{secret}x"),
            value.clone(),
            twice,
            format!("{secret:?}"),
            form,
            all.to_lowercase(),
            all,
            html_escape::encode_safe(secret).into_owned(),
            basic(""),
            basic("u"),
            basic("us"),
            basic("user:"),
        ] {
            let redacted = redactor.redact(&text);
            assert!(redacted.contains("***"), "{text} -> {redacted}");
            assert!(!redacted.contains("rd") && redacted.len() < text.len(), "{text} -> {redacted}");
        }
        assert_eq!(redactor.redact("a harmless & 100% \\ text…"), "a harmless & 100% \\ text…");
    }

    #[test]
    fn secrets_include_numbers_lists_and_single_lines() {
        let redactor = redactor(
            r#"{"i": {"value": 0, "secret": true}, "f": {"value": 0.0, "secret": true},
                "l": {"value": [], "secret": true}, "k": {"value": "", "secret": true}, "p": "public-value"}"#,
            r#"{"i": -12345678, "f": 1234.5678, "l": ["first-item", "second-item"],
                "k": "-----BEGIN\nMIIEvQIBADAN\n-----END", "p": "public-value"}"#,
        );
        for text in ["i -12345678.", "f 1234.5678", "[\"first-item\"]", "second-item", "line MIIEvQIBADAN"] {
            assert!(redactor.redact(text).contains("***"), "{text}");
        }
        assert_eq!(redactor.redact("public-value"), "public-value");
    }

    #[test]
    fn a_truncated_secret_is_redacted() {
        let redactor = redactor(r#"{"s": {"value": "", "secret": true}}"#, r#"{"s": "abcdefghijklmnop"}"#);
        assert_eq!(redactor.redact("pattern `(abcdefghij…`: bad"), "pattern `(***…`: bad");
        assert_eq!(redactor.redact("abcdefx… abcdefgh…"), "abcdefx… ***…");
        assert_eq!(redactor.redact("abcd…"), "abcd…");
    }

    #[test]
    fn a_secret_of_any_text_is_redacted_wherever_it_stands() {
        use proptest::prelude::*;
        proptest!(|(secret in "[^\\s…][^…]{4,40}[^\\s…]", before in ".{0,5}", after in ".{0,5}")| {
            let value = Json::from(secret.as_str()).to_string();
            let redactor = redactor(
                r#"{"s": {"value": "", "secret": true}}"#, &format!(r#"{{"s": {value}}}"#));
            let forms = [secret.clone(), value[1..value.len() - 1].to_owned(),
                url::form_urlencoded::byte_serialize(secret.as_bytes()).collect()];
            for form in forms {
                let redacted = redactor.redact(&format!("{before}{form}{after}")).into_owned();
                prop_assert!(redacted.contains("***"), "{form} -> {redacted}");
            }
        });
    }
}
