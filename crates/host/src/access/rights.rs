//! The rights of a key that operators hand out.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use valvehouse_config::OperatorRole;
use valvehouse_json::Json;

/// Invalid rights or an invalid name of a key, with the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKey(String);

/// The rights of a key: its models, its limits and its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyRights {
    /// The id of the user whom the key identifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The group of the key, whose limits it shares with the other keys of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The role of an operator; a key without one is for models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<OperatorRole>,
    /// The models that the key can use; a name can end with `*`. All of them if it is missing.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "some_models")]
    pub models: Vec<String>,
    /// The maximum number of requests per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// The maximum number of tokens of a day in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    /// The maximum number of tokens of a month in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_month: Option<u64>,
    /// The maximum cost of a day in UTC, in the currency of the prices of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cost_per_day: Option<f64>,
    /// The maximum cost of a month in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cost_per_month: Option<f64>,
    /// The time from which the key is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires_at: Option<Timestamp>,
}

/// Reads a list of models. An empty one could mean none as well as all.
fn some_models<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let models = Vec::<String>::deserialize(from)?;
    match models.is_empty() {
        true => {
            Err(D::Error::custom("the list of models is empty: leave it out for all models, or name one"))
        }
        false => Ok(models),
    }
}

impl KeyRights {
    /// Checks rights that an operator gives.
    ///
    /// # Errors
    /// Returns the wrong part and how to write it.
    pub fn check(&self, is_group: bool) -> Result<(), InvalidKey> {
        let refused = |why: String| Err(InvalidKey(why));
        if is_group && (self.user.is_some() || self.group.is_some() || self.role.is_some()) {
            return refused(
                "a group has models, limits and an end, and no user, group or role: leave them out".into(),
            );
        }
        if self.role.is_some()
            && *self != (Self { role: self.role, expires_at: self.expires_at, ..Self::default() })
        {
            return refused("a key with a role is an operator's and has no user, group, models or limits: leave them out, or create a second key".into());
        }
        for (name, text) in [("user", &self.user), ("group", &self.group)] {
            if text
                .as_deref()
                .is_some_and(|text| text.trim().is_empty() || text.chars().any(char::is_control))
            {
                return refused(format!("invalid {name}: expected a text without control characters"));
            }
        }
        if let Some(group) =
            self.group.as_deref().filter(|group| check_key_name(&format!("{GROUP}{group}")).is_err())
        {
            return refused(format!(
                "invalid group {group:?}: expected up to {MAX_NAME} letters, digits, `-`, `_` or `.`, without `{GROUP}`"
            ));
        }
        if let Some(model) =
            self.models.iter().find(|model| model.trim_end_matches('*').contains('*') || model.is_empty())
        {
            return refused(format!(
                "invalid model {model:?}: expected a name, or the beginning of names and one `*` at the end"
            ));
        }
        if self.requests_per_minute == Some(0) {
            return refused("invalid requests_per_minute: expected a number from 1; revoke the key to reject all requests".into());
        }
        if let Some(cost) = [self.cost_per_day, self.cost_per_month]
            .into_iter()
            .flatten()
            .find(|cost| !(*cost >= 0.0 && *cost < 1e9))
        {
            return refused(format!("invalid cost {cost}: expected a number from 0 to 1000000000"));
        }
        Ok(())
    }

    /// Returns `true` if the key can use a model.
    pub fn allows_model(&self, name: &str) -> bool {
        self.models.is_empty()
            || self.models.iter().any(|allowed| match allowed.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => allowed == name,
            })
    }
}

/// A key that operators handed out, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRecord {
    /// The rights of the key.
    pub rights: KeyRights,
    /// The time of its creation.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: Timestamp,
    /// The operator who created it.
    pub created_by: String,
    /// The time of its revocation; null while it is valid.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub revoked_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Reads a stored record. One that cannot be read is logged, and its key rejected.
    pub fn read(name: &str, json: &Json) -> Option<Self> {
        match serde_json::from_str(&json.to_string()) {
            Ok(record) => Some(record),
            Err(why) => {
                tracing::warn!(
                    "the key `{name}` is rejected, because its stored rights cannot be read: {why}"
                );
                None
            }
        }
    }
}

/// The beginning of the name of a group, whose limits its keys share.
pub(crate) const GROUP: char = '@';
/// The maximum length of the name of a key.
const MAX_NAME: usize = 64;

/// Checks the name of a key, or of a group (`@research`).
///
/// # Errors
/// Returns how to write it.
pub fn check_key_name(name: &str) -> Result<(), InvalidKey> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let word = name.strip_prefix(GROUP).unwrap_or(name);
    if word.is_empty() || word.len() > MAX_NAME || !word.chars().all(is_word) {
        return Err(InvalidKey(format!(
            "invalid name {name:?}: expected up to {MAX_NAME} letters, digits, `-`, `_` or `.`, after `@` for a group"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_stored_as_their_set_fields() {
        let rights =
            KeyRights { models: vec!["fast".into()], tokens_per_day: Some(5), ..KeyRights::default() };
        let text = serde_json::to_string(&rights).unwrap();
        assert_eq!(text, r#"{"models":["fast"],"tokens_per_day":5}"#);
        assert_eq!(serde_json::from_str::<KeyRights>(&text).unwrap(), rights);
        assert!(serde_json::from_str::<KeyRights>(r#"{"tokens":5}"#).is_err());
    }

    #[test]
    fn wrong_rights_and_names_are_refused_with_the_right_form() {
        let none = KeyRights::default;
        for (rights, part) in [
            (KeyRights { role: Some(OperatorRole::Read), user: Some("ann".into()), ..none() }, "operator's"),
            (KeyRights { models: vec!["a*b".into()], ..none() }, "model"),
            (KeyRights { requests_per_minute: Some(0), ..none() }, "requests_per_minute"),
            (KeyRights { cost_per_day: Some(f64::NAN), ..none() }, "cost"),
            (KeyRights { user: Some(" ".into()), ..none() }, "user"),
        ] {
            assert!(rights.check(false).is_err_and(|why| why.to_string().contains(part)), "{rights:?}");
        }
        assert!(none().check(true).is_ok());
        let of_group = KeyRights { group: Some("a".into()), ..none() };
        assert!(of_group.check(false).is_ok() && of_group.check(true).is_err());
        assert!(check_key_name("ci-2.a_B").is_ok() && check_key_name("@research").is_ok());
        for name in ["", "@", "@@a", "a@", "a b", "a/b", "ä", &"a".repeat(65)] {
            assert!(check_key_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_model_is_allowed_by_its_name_or_its_beginning() {
        let rights = KeyRights { models: vec!["fast".into(), "gpt-*".into()], ..KeyRights::default() };
        assert!(["fast", "gpt-", "gpt-5"].iter().all(|name| rights.allows_model(name)));
        assert!(["faster", "fas", "gp", ""].iter().all(|name| !rights.allows_model(name)));
        assert!(KeyRights::default().allows_model("any"));
    }
}
