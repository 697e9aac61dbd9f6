//! The models that a request names in fields beside `model`: each adds its guards.

use crate::plan::{ModelPlan, Passes, ProviderPlan};
use crate::snapshot::Snapshot;
use valvehouse_core::chat::keys::folded;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::kernel::is_ours;
use valvehouse_json::Json;

/// The ends of the fields that are known to select models, as letters and digits.
const FIELDS: [&str; 13] = [
    // OpenAI `tools[].model`; OpenRouter `plugins[].model`.
    "model",
    // OpenRouter `models`, `plugins[].allowed_models`; Vercel `providerOptions.gateway.models`.
    "models",
    // Gateways in front of a service.
    "modelid",
    "modelids",
    "modelname",
    "modellist",
    "fallback",
    // LiteLLM `fallbacks`, `context_window_fallbacks`.
    "fallbacks",
    // Adapters: Text Generation Inference, SGLang, vLLM.
    "adapterid",
    "lorapath",
    "loraname",
    // Azure.
    "deploymentid",
    "deploymentname",
];
/// The word in the fields of OpenRouter with settings that only the service knows, also of the model.
const PRESET: &str = "preset";
/// The fields with what a model reads, and the one that is compared elsewhere.
const INPUTS: [&str; 7] = ["model", "messages", "input", "prompt", "texts", "query", "documents"];
/// The keys of a schema below which keys are names that its author chose.
const SCHEMAS: [&str; 3] = ["properties", "$defs", "definitions"];
/// The maximum length of the name of a model in an unknown field, in bytes.
const MAX_NAME: usize = 256;
/// The maximum number of texts that are compared with names. One that has more may select any model.
const MAX_NAMES: usize = 1_000;

/// Returns what a field is known for.
fn known(key: &str) -> Option<&'static str> {
    let name: String = folded(key).chars().filter(|letter| letter.is_alphanumeric()).collect();
    if name.contains(PRESET) {
        return Some(PRESET);
    }
    FIELDS.into_iter().find(|end| name.ends_with(end))
}

/// The texts of a request that may select models: each with the field that is known for it, and with its name unless
/// only the service knows that.
#[derive(Default)]
struct Selections(Vec<(Option<&'static str>, Option<String>)>);

impl Selections {
    /// Returns those of a request: all short texts, because a service may read any field so, except those of inputs and
    /// of functions of the client.
    fn of(body: &Json) -> Self {
        let mut found = Self::default();
        for (key, value) in body.entries() {
            match (&*key, &value) {
                (key, _) if INPUTS.contains(&key) || is_ours(key, value.is_object()) => {}
                ("tools", Json::Array(tools)) => {
                    for tool in tools.items() {
                        let own = tool.entries().into_iter().filter(|(key, _)| key != "function");
                        own.for_each(|(key, value)| found.add_entry(&key, &value, None));
                        if !tool.is_object() {
                            found.add(&tool, None);
                        }
                    }
                }
                (key, _) => found.add_entry(key, &value, None),
            }
        }
        found
    }

    fn add_entry(&mut self, key: &str, value: &Json, field: Option<&'static str>) {
        self.add_name(key, field);
        if SCHEMAS.contains(&key) {
            let schemas: Json =
                value.entries().into_iter().map(|(_, schema)| schema).collect::<Vec<_>>().into();
            value.keys().iter().for_each(|key| self.add_name(key, None));
            return self.add(&schemas, None);
        }
        match known(key).filter(|_| !value.is_empty()) {
            Some(PRESET) => self.0.push((Some(PRESET), None)),
            own => self.add(value, own.or(field)),
        }
    }

    fn add(&mut self, value: &Json, field: Option<&'static str>) {
        match value {
            Json::Text(text) => self.add_name(text, field),
            Json::Array(list) => list.with(|items| items.iter().for_each(|item| self.add(item, field))),
            Json::Object(object) => object.for_each(|key, value| self.add_entry(key, value, field)),
            _ => {}
        }
    }

    fn add_name(&mut self, text: &str, field: Option<&'static str>) {
        let is_word = || text.len() <= MAX_NAME && !text.trim().contains(char::is_whitespace);
        if self.0.len() <= MAX_NAMES && (field.is_some() || is_word()) {
            self.0.push((field, (self.0.len() < MAX_NAMES).then(|| text.to_owned())));
        }
    }
}

impl Snapshot {
    /// Returns the models that fields known for it select beside `model`; `None` for a selection that only the service
    /// knows.
    pub fn models_beside(body: &Json) -> Vec<Option<String>> {
        let selected = Selections::of(body).0.into_iter();
        selected.filter(|(field, _)| field.is_some()).map(|(_, name)| name).collect()
    }

    /// Returns the ids of the guards of the models that a request selects beside `model`, at the providers of the model
    /// `name`. A selection that only the service knows may mean any model of the provider.
    ///
    /// # Errors
    /// Returns a request error if a field that is known for it selects a model that is not configured, and the provider
    /// serves only configured models.
    pub fn guards_beside(&self, name: &str, body: &Json) -> Result<Vec<String>, Error> {
        if !self.checks_fields() {
            return Ok(Vec::new());
        }
        let selections = Selections::of(body);
        let own = self.plan().model(name);
        let passed = self.served.passes(name).map(|(provider, _)| provider.name());
        let leads_to = own.map_or(&[][..], |model| &model.leads_to);
        let is_asked = |plan: &&ProviderPlan| match own {
            Some(_) => leads_to.iter().any(|(provider, _)| provider == plan.provider.name()),
            None => Some(plan.provider.name()) == passed,
        };
        let mut models: Vec<&ModelPlan> = Vec::new();
        for plan in self.plan().providers.iter().filter(is_asked) {
            let provider = plan.provider.name();
            let own: Vec<&ModelPlan> = self.plan().models_of(provider).collect();
            let is_closed = plan.refuses_unlisted
                || (plan.passes != Passes::Everything && !self.guards_of_all(own.iter().copied()).is_empty());
            for (field, name) in &selections.0 {
                if let Some(field) = field.filter(|_| is_closed) {
                    check(plan, &own, field, name.as_deref())?;
                }
                match name {
                    // This server has one model.
                    _ if plan.kind == "llamacpp" => {}
                    Some(name) => models.extend(self.plan().meant_by(provider, name)),
                    None => models.extend(&own),
                }
            }
        }
        Ok(self.guards_of_all(models.into_iter()))
    }
}

/// Rejects a selection of another model than the configured ones at a provider that serves only those.
fn check(plan: &ProviderPlan, own: &[&ModelPlan], field: &str, name: Option<&str>) -> Result<(), Error> {
    let provider = plan.provider.name();
    let is_configured = |name: &str| match &plan.passes {
        Passes::These(names) if names.iter().any(|listed| listed == name) => true,
        _ => {
            own.iter().flat_map(|model| &model.leads_to).any(|(own, model)| own == provider && model == name)
        }
    };
    if name.is_some_and(is_configured) {
        return Ok(());
    }
    Err(Error::Request {
        message: format!(
            "cannot send a field with `{field}` that selects another model: provider {provider} serves only configured models; leave the field out, or name one of them"
        ),
        param: Some("model"),
        code: Some("model_not_found"),
        kind: RequestErrorKind::Invalid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_field_but_only_known_ones_select() {
        let selected = |body: &str| {
            let found = Selections::of(&Json::parse(body.as_bytes()).unwrap()).0.into_iter();
            let shown = |(field, name): (Option<&str>, Option<String>)| {
                format!("{}={}", field.unwrap_or_default(), name.unwrap_or("?".into()))
            };
            found.map(shown).filter(|one| one.contains("=b") || one.contains("=?")).collect::<Vec<_>>()
        };
        for (body, expected) in [
            (r#"{"model":"a","models":["b","bc"]}"#, &["models=b", "models=bc"][..]),
            (r#"{"x":{"Models":"b","model_ids":"bc"}}"#, &["models=b", "modelids=bc"]),
            (
                r#"{"fallbacks":[{"b":["bc"]},{"model":"b c"}]}"#,
                &["fallbacks=b", "fallbacks=bc", "model=b c"],
            ),
            (r#"{"route":"b","y":"b c","z":{"b":1}}"#, &["=b", "=b"]),
            (r#"{"plugins":[{"usedModels":["b"],"presetId":"p"}]}"#, &["models=b", "preset=?"]),
            (r#"{"tools":[{"type":"x","model":"b","function":{"model":"b"}}]}"#, &["model=b"]),
            (r#"{"tools":["b",["b"]],"x":{"tools":{"model":"b"}}}"#, &["=b", "=b", "model=b"]),
            (r#"{"tools":{"function":"b"}}"#, &["=b"]),
            (r#"{"x":{"properties":{"model":{"enum":["b"]}}}}"#, &["=b"]),
            (r#"{"messages":[{"model":"b"}],"metadata":{"model":"b"},"models":[],"preset":"","n":1}"#, &[]),
        ] {
            assert_eq!(selected(body), expected, "{body}");
        }
        let many = Json::from((0..5_000).map(|n| n.to_string().into()).collect::<Vec<Json>>());
        let many = Selections::of(&Json::from([("x", many.clone()), ("y", many)])).0;
        assert_eq!((many.len(), &many[MAX_NAMES].1), (MAX_NAMES + 1, &None));
    }

    #[test]
    fn the_manual_lists_each_field_that_selects_models() {
        let manual = include_str!("../../../docs/operating.md").replace('_', "");
        for field in FIELDS.into_iter().chain([PRESET]) {
            assert!(manual.contains(&format!("`{field}`")), "docs/operating.md lacks `{field}`");
        }
    }
}
