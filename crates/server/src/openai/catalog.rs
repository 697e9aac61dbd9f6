//! The catalog of models: the configured ones, those that providers pass through, and those that scripts
//! offer.

use std::collections::HashSet;
use std::time::Duration;
use valvehouse_config::PIPES;
use valvehouse_host::{Passes, Snapshot};
use valvehouse_json::Json;

/// The maximum time to wait for a provider's list of models.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns all models in OpenAI's format.
pub(crate) async fn list(snapshot: &Snapshot) -> Vec<Json> {
    let plan = snapshot.plan();
    let mut models: Vec<Json> = plan.models.iter().map(|model| entry(&model.name, &model.provider)).collect();
    for plan in &plan.providers {
        let name = plan.provider.name();
        match &plan.passes {
            Passes::Nothing => {}
            Passes::These(names) => models.extend(names.iter().map(|model| entry(model, name))),
            Passes::Everything => match tokio::time::timeout(PATIENCE, plan.provider.models()).await {
                Ok(Ok(offered)) => models.extend(offered),
                Ok(Err(error)) => tracing::warn!(provider = name, "cannot list its models: {error}"),
                Err(_) => tracing::warn!(provider = name, "cannot list its models: no response within 5 s"),
            },
        }
    }
    models.extend(snapshot.offers().into_iter().map(|offer| {
        let entry = entry(&offer.id, PIPES);
        // A new object accepts any value.
        entry.put("name", offer.name.as_str());
        entry
    }));
    let mut seen = HashSet::new();
    models.retain(|model| model.text("id").is_some_and(|id| seen.insert(id)));
    if snapshot.actions().is_empty() {
        return models;
    }
    models.into_iter().map(|model| with_buttons(snapshot, model)).collect()
}

/// Returns a model with the buttons under its answers, if any.
pub(super) fn with_buttons(snapshot: &Snapshot, model: Json) -> Json {
    let buttons = snapshot.buttons_of(&model.text_or_empty("id"));
    if buttons.is_empty() {
        return model;
    }
    // This copy is not shared, so it accepts any value.
    let model = model.deep_clone();
    model.edit("actions", buttons);
    model
}

/// Returns one model in OpenAI's format.
pub(super) fn entry(id: &str, provider: &str) -> Json {
    Json::from([
        ("id", id.into()),
        ("object", "model".into()),
        ("created", 0_i64.into()),
        ("owned_by", provider.into()),
    ])
}
