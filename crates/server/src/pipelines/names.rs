//! The filter or model that a path names. An Open WebUI with a prefix for this connection adds it to every
//! name: `prefix.turn_limit`.

use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::{Plugin, Ready, Snapshot};
use valvehouse_script::Kind;

/// The name of a filter or a model in a path, which may contain slashes.
#[derive(Deserialize, JsonSchema)]
pub(super) struct FilterName {
    /// The filter, or the first part of a model's name.
    #[schemars(example = &"polite")]
    pub(super) id: String,
    /// The second part of a model's name.
    #[schemars(example = &"x")]
    of: Option<String>,
    /// The third part of a model's name.
    #[schemars(example = &"x")]
    all: Option<String>,
}

impl FilterName {
    /// Returns the name with its slashes.
    pub(super) fn joined(&self) -> String {
        let parts = [Some(&self.id), self.of.as_ref(), self.all.as_ref()];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// Returns a name, followed by its rest after each dot.
pub(super) fn meanings(name: &str) -> impl Iterator<Item = &str> {
    let shorter = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
    std::iter::once(name).chain(shorter).filter(|name| !name.is_empty())
}

/// Returns the filter with this name.
pub(super) fn filter<'s>(snapshot: &'s Snapshot, name: &str) -> Option<&'s Arc<Plugin>> {
    let found = meanings(name).find_map(|name| snapshot.plugins.get(name));
    found.filter(|plugin| plugin.kind == Kind::Filter)
}

/// Returns the filter with this name, or the error for an unknown one.
pub(super) fn known_filter<'s>(snapshot: &'s Snapshot, name: &str) -> Result<&'s Arc<Plugin>, Error> {
    filter(snapshot, name).ok_or_else(|| unknown(name))
}

/// Returns the error for an unknown name.
pub(super) fn unknown(name: &str) -> Error {
    Error::Request {
        message: format!("Filter {name} not found"),
        param: None,
        code: Some("filter_not_found"),
        kind: RequestErrorKind::NotFound,
    }
}

/// Returns the model with this name. A configured model takes precedence over one that a provider may have.
pub(super) fn model(snapshot: &Snapshot, name: &str) -> Option<Ready> {
    let known = snapshot.model_names();
    let configured = meanings(name).find(|name| known.iter().any(|known| known == name));
    snapshot.ready(configured.unwrap_or(name), &[]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_prefix() {
        let all: Vec<&str> = meanings("my.house.turn_limit").collect();
        assert_eq!(all, ["my.house.turn_limit", "house.turn_limit", "turn_limit"]);
        assert_eq!(meanings("gpt-4.1").next(), Some("gpt-4.1"));
        assert_eq!(meanings("odd.").collect::<Vec<_>>(), ["odd."]);
    }
}
