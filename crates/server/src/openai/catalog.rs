//! The catalog of models: the configured ones, those that providers pass through, and those that scripts
//! offer.

use futures::future::join_all;
use std::collections::HashSet;
use valvehouse_config::PIPES;
use valvehouse_host::{Passes, ProviderPlan, Snapshot};
use valvehouse_json::Json;

/// Returns all models in OpenAI's format.
pub(crate) async fn list(snapshot: &Snapshot) -> Vec<Json> {
    let plan = snapshot.plan();
    let mut models: Vec<Json> = plan.models.iter().map(|model| entry(&model.name, &model.provider)).collect();
    models.extend(join_all(plan.providers.iter().map(passed)).await.into_iter().flatten());
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

/// Returns the models that a provider passes through.
async fn passed(plan: &ProviderPlan) -> Vec<Json> {
    match &plan.passes {
        Passes::Nothing => Vec::new(),
        Passes::These(names) => names.iter().map(|model| entry(model, plan.provider.name())).collect(),
        Passes::Everything => plan.list.models(&plan.provider).await,
    }
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
