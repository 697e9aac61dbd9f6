//! Providers and models.

use super::plugins::breaker;
use super::section::{secret, section};
use crate::provider::{
    Api, ExposedModels, KINDS, ProviderKind, ProviderSettings, ROUTES, RetrySettings, Timeouts, Wire,
};
use crate::reader::{Log, Reader};
use crate::secret::SecretSource;
use crate::settings::ModelSettings;
use crate::tree::{Node, Setting};
use std::path::Path;
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;

pub(super) fn providers(root: &mut Reader<'_>, project: &Path) -> Vec<ProviderSettings> {
    let entries = root.entries("providers");
    entries.into_iter().filter_map(|(place, entry)| provider(place, entry, project, root.log)).collect()
}

fn provider(place: String, entry: Setting, project: &Path, log: &mut Log) -> Option<ProviderSettings> {
    let mut it = Reader::new(place, entry, log);
    let name = name(&mut it);
    let kind = kind(&mut it, name.as_deref());
    let base_url = it.text("base_url");
    let base_url = match (base_url, kind) {
        (Some(url), _) => base_url_of(&mut it, &url),
        (None, Some(kind)) if kind.base_url.is_empty() && kind.wire != Wire::Demo => {
            it.wrong(
                "base_url",
                "is missing: this kind has a URL per customer, such as \"https://NAME.openai.azure.com/openai/v1\"",
            );
            None
        }
        (None, kind) => kind.map(|kind| kind.base_url.to_owned()),
    };
    let api = api(&mut it, kind);
    let api_key = secret(&mut it, "api_key", project);
    // `client` is a word, and not a key.
    let is_paid_by_callers =
        matches!(&api_key, Some(SecretSource::Literal(word)) if word.expose() == "client");
    let api_key = api_key.filter(|_| !is_paid_by_callers);
    let models = offered(&mut it);
    let routes = routes(&mut it);
    let mut timeouts = Timeouts::default();
    section(&mut it, "timeouts", |it| {
        let mut ms = |key, timeout: &mut Duration| {
            if let Some(ms) = it.whole(key, 1..=86_400_000) {
                *timeout = Duration::from_millis(ms);
            }
        };
        ms("connect_ms", &mut timeouts.connect);
        ms("response_ms", &mut timeouts.answer);
        ms("idle_ms", &mut timeouts.idle);
        timeouts.total = it.whole("total_ms", 1..=86_400_000).map(Duration::from_millis);
    });
    let retry = section(&mut it, "retry", retry).unwrap_or_default();
    let breaker = section(&mut it, "breaker", breaker).unwrap_or_default();
    it.finish();
    Some(ProviderSettings {
        name: name?,
        kind: kind?,
        base_url: base_url?,
        api,
        api_key,
        is_paid_by_callers,
        models,
        routes,
        timeouts,
        retry,
        breaker,
    })
}

/// The API by which it is asked: only services with OpenAI's wire have two.
fn api(it: &mut Reader<'_>, kind: Option<ProviderKind>) -> Api {
    let Some(given) = it.text("api") else { return Api::default() };
    let known = Api::ALL.into_iter().find(|(name, _)| *name == given).map(|(_, api)| api);
    match (known, kind) {
        (None, _) => {
            let names = Api::ALL.map(|(name, _)| name).join(" or ");
            it.wrong("api", &format!("must be {names}, not `{given}`"));
        }
        (Some(Api::Responses), Some(kind)) if kind.wire != Wire::OpenAi => {
            it.wrong(
                "api",
                &format!("must be `chat`: a service of kind `{}` has no Responses API", kind.name),
            );
        }
        _ => {}
    }
    known.unwrap_or(Api::Chat)
}

fn retry(it: &mut Reader<'_>) -> RetrySettings {
    let mut retry = RetrySettings::default();
    if let Some(attempts) = it.whole("max_attempts", 1..=21).and_then(|attempts| u32::try_from(attempts).ok())
    {
        retry.max_retries = attempts - 1;
    }
    let mut ms = |key, wait: &mut Duration| {
        if let Some(ms) = it.whole(key, 1..=3_600_000) {
            *wait = Duration::from_millis(ms);
        }
    };
    ms("initial_delay_ms", &mut retry.initial_delay);
    ms("max_delay_ms", &mut retry.max_delay);
    retry.after_send = it.truth("after_send").unwrap_or(retry.after_send);
    retry
}

fn name(it: &mut Reader<'_>) -> Option<String> {
    let name = it.text("name");
    match name {
        Some(name) if !name.trim().is_empty() => return Some(name),
        Some(_) => it.wrong("name", "is empty"),
        None if !it.was_given("name") => it.wrong("name", "is missing: set a name of your choice"),
        None => {}
    }
    None
}

/// Its kind; a provider that is called like one need not say it again.
fn kind(it: &mut Reader<'_>, name: Option<&str>) -> Option<ProviderKind> {
    let given = it.text("kind");
    if given.is_none() && it.was_given("kind") {
        return None;
    }
    let word = given.as_deref().or(name)?;
    let kind = ProviderKind::from_name(word);
    if kind.is_none() {
        let known = KINDS.map(|kind| kind.name);
        let error = match &given {
            Some(given) => format!("names the unknown kind {given:?}{}", did_you_mean(given, known)),
            None => "is missing".to_owned(),
        };
        it.wrong("kind", &format!("{error}; known kinds: {}", known.join(", ")));
    }
    kind
}

fn base_url_of(it: &mut Reader<'_>, text: &str) -> Option<String> {
    let error = match url::Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
            "must begin with http:// or https://"
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "contains a user name or password: set api_key instead"
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => {
            "must not contain `?` or `#`: remove the part from there on"
        }
        Ok(_) => return Some(text.trim().trim_end_matches('/').to_owned()),
        Err(_) => "must be a URL, such as \"https://api.example.com/v1\"",
    };
    it.wrong("base_url", error);
    None
}

fn routes(it: &mut Reader<'_>) -> Option<Vec<String>> {
    let routes = it.texts_given("routes")?;
    if let Some(wrong) = routes.iter().find(|route| !ROUTES.contains(&route.as_str())) {
        let known = format!("names the unknown route {wrong:?}{}", did_you_mean(wrong, ROUTES));
        it.wrong("routes", &format!("{known}; known routes: {}", ROUTES.join(", ")));
    }
    Some(routes)
}

fn offered(it: &mut Reader<'_>) -> ExposedModels {
    match it.take("models") {
        None => ExposedModels::Listed(Vec::new()),
        Some(Setting { node: Node::Text(text), .. }) if text.trim() == "*" => ExposedModels::All,
        Some(setting) => {
            it.put_back("models", setting);
            let models = it.texts("models");
            if models.iter().any(|model| model == "*") {
                ExposedModels::All
            } else {
                ExposedModels::Listed(models)
            }
        }
    }
}

pub(super) fn models(root: &mut Reader<'_>, providers: &[ProviderSettings]) -> Vec<ModelSettings> {
    let entries = root.entries("models");
    entries.into_iter().filter_map(|(place, entry)| model(place, entry, providers, root.log)).collect()
}

fn model(
    place: String,
    entry: Setting,
    providers: &[ProviderSettings],
    log: &mut Log,
) -> Option<ModelSettings> {
    let mut it = Reader::new(place, entry, log);
    let name = name(&mut it);
    let provider = it.text("provider").or_else(|| match providers {
        [only] => Some(only.name.clone()),
        _ if it.was_given("provider") => None,
        several => {
            let names: Vec<_> = several.iter().map(|provider| format!("{:?}", provider.name)).collect();
            it.wrong(
                "provider",
                &format!("is missing: name the provider that serves it, {}", names.join(" or ")),
            );
            None
        }
    });
    let model = it.text("model").or_else(|| name.clone());
    let fallbacks = it.texts("fallbacks");
    let system_prompt = it.text("system_prompt");
    let filters = it.texts("filters");
    let tools = it.texts("tools");
    let actions = it.texts("actions");
    let tool_search = it.truth("tool_search").unwrap_or(false);
    let max_tool_iterations = it.whole("max_tool_iterations", 1..=1000).unwrap_or(10) as usize;
    let memory = it.truth("memory").unwrap_or(false);
    let description = it.text("description");
    let abilities = it.texts("abilities");
    let context_length = it.whole("context_length", 1..=1_000_000_000);
    let price = price(&mut it);
    let variables = table(&mut it, "variables", "{ permissions = [\"chat\"] }");
    let preset = it.text("preset");
    let middleware = table(&mut it, "middleware", "{ call_limit = { max_model_calls = 5 } }");
    it.finish();
    Some(ModelSettings {
        name: name?,
        provider: provider?,
        model: model?,
        fallbacks,
        system_prompt,
        filters,
        tools,
        actions,
        tool_search,
        max_tool_iterations,
        memory,
        description,
        abilities,
        context_length,
        price,
        variables,
        preset,
        middleware,
    })
}

/// The price of a million tokens by their kind.
fn price(it: &mut Reader<'_>) -> Json {
    let price = table(it, "price", "{ input = 0.5, output = 1.5 }");
    for (kind, value) in price.entries() {
        if !value.as_f64().is_some_and(|value| value >= 0.0) {
            it.wrong(
                "price",
                &format!("must have a number that is not negative for `{kind}`, such as {{ input = 0.5 }}"),
            );
        }
    }
    price
}

/// A table whose keys are read by somebody else: `middleware = { call_limit = { max_model_calls = 5 } }`.
fn table(it: &mut Reader<'_>, key: &'static str, example: &str) -> Json {
    match it.take(key).map(|setting| setting.opened().to_json()) {
        None => Json::object(),
        Some(all @ Json::Object(_)) => all,
        Some(_) => {
            it.wrong(key, &format!("must be a table, such as {example}"));
            Json::object()
        }
    }
}

pub(super) fn demo_provider() -> ProviderSettings {
    let kind = ProviderKind { name: "demo", wire: Wire::Demo, base_url: "", key: "" };
    ProviderSettings {
        name: "demo".to_owned(),
        kind,
        base_url: String::new(),
        api: Api::Chat,
        api_key: None,
        is_paid_by_callers: false,
        routes: None,
        models: ExposedModels::Listed(Vec::new()),
        timeouts: Timeouts::default(),
        retry: RetrySettings::default(),
        breaker: BreakerSettings::default(),
    }
}

pub(super) fn demo_model() -> ModelSettings {
    ModelSettings {
        name: "demo".to_owned(),
        provider: "demo".to_owned(),
        model: "demo".to_owned(),
        fallbacks: Vec::new(),
        system_prompt: None,
        filters: Vec::new(),
        // To see them work: whoever configures a model says which tools it gets.
        tools: vec!["*".to_owned()],
        actions: Vec::new(),
        tool_search: false,
        max_tool_iterations: 10,
        memory: false,
        description: Some("Answers without a network, always the same way.".to_owned()),
        abilities: vec!["tools".to_owned()],
        context_length: None,
        price: Json::object(),
        variables: Json::object(),
        preset: None,
        middleware: Json::object(),
    }
}
