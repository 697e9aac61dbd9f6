//! The plan of a configuration: its providers, its models with their middleware, and the settings of plugins.

use super::error::OpenError;
use super::providers::{ProviderKeys, provider};
use crate::plan::{ModelPlan, MountedOffers, Passes, Plan, PluginPlan, ProviderPlan};
use indexmap::IndexMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_agent::middleware::{Middleware, Parts};
use valvehouse_config::{self as config, Config};
use valvehouse_core::kernel::ModelDefaults;
use valvehouse_core::provider::Provider;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_providers::{Choice, Extras, Fallback};
use valvehouse_script::{Kind, Settings};

/// Returns the plan of a host for a configuration.
pub(super) fn plan(config: &Config, keys: ProviderKeys, extras: &Arc<Extras>) -> Result<Plan, OpenError> {
    let mut clients = Vec::new();
    let providers = config.providers.iter().map(|settings| provider(settings, keys, &mut clients, extras));
    let mut providers = providers.collect::<Result<Vec<_>, _>>()?;
    let known: Vec<(String, Choice)> = config
        .models
        .iter()
        .filter_map(|settings| {
            Some((settings.name.clone(), choice(&providers, &settings.provider, &settings.model)?))
        })
        .collect();
    let models = config.models.iter().map(|settings| {
        let middleware = middleware(settings, &known)?;
        let mut leads_to = vec![(settings.provider.clone(), settings.model.clone())];
        let others = config.fallbacks(settings).into_iter();
        leads_to.extend(others.map(|(provider, model)| (provider.to_owned(), model.to_owned())));
        Ok(model(settings, leads_to, fallback(config, settings, &providers), middleware))
    });
    let models = models.collect::<Result<Vec<_>, OpenError>>()?;
    for plan in providers.iter_mut().filter(|plan| plan.refuses_unlisted) {
        pass_configured_only(plan, &models);
    }
    let of_kind = |kind: Kind, all: &IndexMap<String, config::PluginSettings>| {
        let plans = all.iter().map(move |(id, settings)| {
            ((kind, id.clone()), plugin(kind, settings, config.limits.time_scale))
        });
        plans.collect::<Vec<_>>()
    };
    let plugins =
        Kind::ALL.into_iter().flat_map(|kind| of_kind(kind, settings_of_kind(config, kind))).collect();
    Ok(Plan {
        project: config.project.clone(),
        filters: config.folders.filters.clone(),
        tools: config.folders.tools.clone(),
        actions: config.folders.actions.clone(),
        source: config.folders.source,
        public_key: config.folders.public_key.clone(),
        strict: config.folders.strict,
        plugins,
        grants: config.grants.iter().map(|(id, grants)| (id.clone(), grants.clone())).collect(),
        providers,
        models,
        embedding_model: config.embeddings.model.clone(),
        native_tools: Vec::new(),
        mounted: MountedOffers::default(),
        problems: Vec::new(),
        breaker: config.breaker,
        time_scale: config.limits.time_scale,
        quarantined: Vec::new(),
    })
}

/// Lets a provider that passes any name through pass only those of configured models.
fn pass_configured_only(plan: &mut ProviderPlan, models: &[ModelPlan]) {
    if plan.passes == Passes::Everything {
        let leads_to = models.iter().flat_map(|model| &model.leads_to);
        let own = leads_to.filter(|(provider, _)| provider == plan.provider.name());
        let mut names: Vec<String> = own.map(|(_, model)| model.clone()).collect();
        names.sort();
        names.dedup();
        plan.passes = Passes::These(names);
    }
}

/// Returns the folder of the plugins of a kind.
pub fn folder_of(config: &Config, kind: Kind) -> &Path {
    match kind {
        Kind::Filter => &config.folders.filters,
        Kind::Tool => &config.folders.tools,
        Kind::Action => &config.folders.actions,
    }
}

/// Returns all folders of plugins, each with their kind.
pub fn folders_of(config: &Config) -> [(Kind, &Path); 3] {
    Kind::ALL.map(|kind| (kind, folder_of(config, kind)))
}

/// Returns the settings of the plugins of a kind, by id.
pub fn settings_of_kind(config: &Config, kind: Kind) -> &IndexMap<String, config::PluginSettings> {
    match kind {
        Kind::Filter => &config.filters,
        Kind::Tool => &config.tools,
        Kind::Action => &config.actions,
    }
}

/// Returns the settings of one plugin.
pub(super) fn plugin(kind: Kind, settings: &config::PluginSettings, time_scale: f64) -> PluginPlan {
    let mut own = Settings {
        configured: settings.valves.clone(),
        untyped_valves: settings.untyped_valves.clone(),
        ..Settings::default()
    };
    for budget in [&mut own.stream, &mut own.hook, &mut own.tool] {
        if let Some(operations) = settings.budget.operations {
            *budget = budget.with_operations(operations);
        }
        *budget = budget.scaled(time_scale);
        match settings.budget.ms.map(Duration::from_millis) {
            // The limit of a tool or an action is a timeout, which includes waiting.
            Some(time) if kind != Kind::Filter => budget.wall = time,
            Some(time) => budget.time = time,
            None => {}
        }
        if let Some(megabytes) = settings.budget.memory_mb {
            budget.memory = usize::try_from(megabytes << 20).unwrap_or(usize::MAX);
        }
    }
    PluginPlan { settings: own, enabled: settings.enabled, mode: settings.mode }
}

/// Returns a model's provider with its fallbacks; `None` if the model has no fallbacks.
fn fallback(
    config: &Config,
    model: &config::ModelSettings,
    providers: &[ProviderPlan],
) -> Option<Arc<dyn Provider>> {
    let others = config.fallbacks(model).into_iter();
    let others: Vec<Choice> =
        others.filter_map(|(provider, model)| choice(providers, provider, model)).collect();
    let first = choice(providers, &model.provider, &model.model).filter(|_| !others.is_empty())?;
    Some(Arc::new(Fallback::new(first, others)))
}

/// Returns a model of a configured provider; `None` if the provider is unknown.
fn choice(providers: &[ProviderPlan], provider: &str, model: &str) -> Option<Choice> {
    let found = providers.iter().map(|plan| &plan.provider).find(|own| own.name() == provider)?;
    Some(Choice { provider: found.clone(), model: model.to_owned() })
}

/// Returns the middleware of a model: that of its preset, overridden by the model's settings.
fn middleware(
    settings: &config::ModelSettings,
    known: &[(String, Choice)],
) -> Result<Vec<Middleware>, OpenError> {
    let problem = |what: String| OpenError::Config(format!("model `{}`: {what}", settings.name));
    let mut options_by_name: IndexMap<String, Json> = IndexMap::new();
    if let Some(name) = &settings.preset {
        let presets = Middleware::presets();
        let preset = Middleware::preset(name).ok_or_else(|| {
            let hint = did_you_mean(name, presets);
            problem(format!("unknown preset {name:?}{hint}; known names: {}", presets.join(", ")))
        })?;
        options_by_name.extend(preset.into_iter().map(|(name, options)| (name.to_owned(), options)));
    }
    for (name, options) in settings.middleware.entries() {
        let all = options_by_name.entry(name.to_string()).or_insert_with(Json::object);
        match options.as_object() {
            Some(options) => options.entries().into_iter().for_each(|(key, value)| {
                // The object was copied and is not read-only.
                all.edit(&key, value);
            }),
            // Options that are not a table are reported by `Middleware::of`.
            None => *all = options,
        }
    }
    let own = known.iter().find(|(name, _)| *name == settings.name).map(|(_, choice)| choice.clone());
    let parts = Parts { model: own, others: known.to_vec(), ..Parts::default() };
    let made = options_by_name.iter().map(|(name, options)| {
        Middleware::of(name, options, &parts).map_err(|wrong| problem(wrong.to_string()))
    });
    made.collect()
}

fn model(
    settings: &config::ModelSettings,
    leads_to: Vec<(String, String)>,
    fallback: Option<Arc<dyn Provider>>,
    middleware: Vec<Middleware>,
) -> ModelPlan {
    let list = |words: &[String]| words.iter().map(|word| Json::from(word.as_str())).collect::<Vec<_>>();
    let facts = Json::from([
        ("id", settings.name.as_str().into()),
        ("name", settings.name.as_str().into()),
        ("provider", settings.provider.as_str().into()),
        ("model", settings.model.as_str().into()),
        ("fallbacks", list(&settings.fallbacks).into()),
        ("system_prompt", settings.system_prompt.clone().into()),
        ("filters", list(&settings.filters).into()),
        ("tools", list(&settings.tools).into()),
        ("actions", list(&settings.actions).into()),
        ("tool_search", settings.tool_search.into()),
        ("max_tool_iterations", settings.max_tool_iterations.into()),
        ("memory", settings.memory.into()),
    ]);
    if !settings.variables.is_empty() {
        // The value is a copy, and the object is not read-only.
        facts.edit("variables", settings.variables.deep_clone());
    }
    let described = [
        ("description", settings.description.clone().into()),
        ("abilities", list(&settings.abilities).into()),
        ("context_length", settings.context_length.into()),
        ("price", settings.price.deep_clone()),
    ];
    for (key, value) in
        described.into_iter().filter(|(_, value): &(_, Json)| !value.is_empty() && !value.is_null())
    {
        // The value is a copy, and the object is not read-only.
        facts.edit(key, value);
    }
    ModelPlan {
        name: settings.name.clone(),
        provider: settings.provider.clone(),
        leads_to,
        fallback,
        filters: settings.filters.clone(),
        without: settings.without.clone(),
        tools: settings.tools.clone(),
        actions: settings.actions.clone(),
        settings: ModelDefaults {
            model: (settings.model != settings.name).then(|| settings.model.clone()),
            system_prompt: settings.system_prompt.clone(),
            max_tool_iterations: settings.max_tool_iterations,
            tool_search: settings.tool_search,
            ..ModelDefaults::default()
        },
        facts: facts.freeze(),
        memory: settings.memory,
        check_response_format: settings.check_response_format,
        middleware,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_time_follows_the_operations_and_the_factor_unless_it_is_set() {
        let of = |ms, operations, factor| {
            let budget = config::BudgetSettings { ms, operations, memory_mb: None };
            let settings = config::PluginSettings { budget, ..config::PluginSettings::default() };
            let Settings { stream, hook, tool, .. } = plugin(Kind::Filter, &settings, factor).settings;
            [stream, hook, tool].map(|budget| budget.time)
        };
        let ms = Duration::from_millis;
        assert_eq!(of(None, None, 1.0), [ms(200), ms(4_000), Duration::MAX]);
        assert_eq!(of(None, None, 0.5), [ms(100), ms(2_000), Duration::MAX]);
        assert_eq!(of(None, Some(10_000), 3.0), [ms(120), ms(120), Duration::MAX]);
        assert_eq!(of(Some(7), Some(10_000), 3.0), [ms(7); 3]);
        let scaled = PluginPlan::default().scaled(0.5).settings;
        assert_eq!([scaled.stream, scaled.hook].map(|budget| budget.time), [ms(100), ms(2_000)]);
    }
}
