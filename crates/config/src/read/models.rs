//! Providers and models.

use super::plugins::breaker;
use super::section::secret;
use crate::provider::{
    Api, ExposedModels, KINDS, ProviderKind, ProviderSettings, RetrySettings, Timeouts, Wire,
};
use crate::reader::{Log, Reader};
use crate::secret::SecretSource;
use crate::settings::ModelSettings;
use crate::tree::{Node, Setting};
use std::path::Path;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;

pub(super) fn providers(root: &mut Reader<'_>, project: &Path) -> Vec<ProviderSettings> {
    let entries = root.entries("providers");
    entries.into_iter().filter_map(|(places, entry)| provider(places, entry, project, root.log)).collect()
}

fn provider(
    places: (String, String),
    entry: Setting,
    project: &Path,
    log: &mut Log,
) -> Option<ProviderSettings> {
    let mut it = Reader::new(places, entry, log);
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
    let refuses_unlisted = it.word("unlisted") == "refuse";
    let routes = it.texts_given("routes");
    let timeouts = it.section("timeouts", |it| Timeouts {
        connect: it.time("connect_ms"),
        answer: it.time("response_ms"),
        idle: it.time("idle_ms"),
        total: it.time_given("total_ms"),
    });
    let retry = it.section("retry", retry);
    let breaker = it.section("breaker", breaker);
    if let (Some(kind), Some(base_url)) = (&kind, &base_url) {
        it.note("kind", kind.name);
        it.note("base_url", base_url.as_str());
    }
    it.finish();
    Some(ProviderSettings {
        name: name?,
        kind: kind?,
        base_url: base_url?,
        api,
        api_key,
        is_paid_by_callers,
        models,
        refuses_unlisted,
        routes,
        timeouts,
        retry,
        breaker,
    })
}

/// The API by which it is called: only services with OpenAI's wire have two.
fn api(it: &mut Reader<'_>, kind: Option<ProviderKind>) -> Api {
    match (it.word("api").as_str(), kind) {
        ("responses", Some(kind)) if kind.wire != Wire::OpenAi => {
            let what = format!("must be `chat`: a service of kind `{}` has no Responses API", kind.name);
            it.wrong("api", &what);
            Api::Chat
        }
        ("responses", _) => Api::Responses,
        _ => Api::Chat,
    }
}

fn retry(it: &mut Reader<'_>) -> RetrySettings {
    RetrySettings {
        max_retries: it.whole::<u32>("max_attempts").saturating_sub(1),
        initial_delay: it.time("initial_delay_ms"),
        max_delay: it.time("max_delay_ms"),
        after_send: it.truth("after_send"),
    }
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
    entries.into_iter().filter_map(|(places, entry)| model(places, entry, providers, root.log)).collect()
}

fn model(
    places: (String, String),
    entry: Setting,
    providers: &[ProviderSettings],
    log: &mut Log,
) -> Option<ModelSettings> {
    let mut it = Reader::new(places, entry, log);
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
    let without = it.texts("without");
    let tools = it.texts("tools");
    let actions = it.texts("actions");
    let tool_search = it.truth("tool_search");
    let max_tool_iterations = it.whole("max_tool_iterations");
    let memory = it.truth("memory");
    let check_response_format =
        it.truth("check_response_format") || (memory && !it.was_given("check_response_format"));
    let description = it.text("description");
    let abilities = it.texts("abilities");
    let context_length = it.whole_given("context_length");
    let price = price(&mut it);
    let variables = it.table("variables");
    let preset = it.text("preset");
    let middleware = it.table("middleware");
    if let (Some(provider), Some(model)) = (&provider, &model) {
        it.note("provider", provider.as_str());
        it.note("model", model.as_str());
    }
    it.finish();
    Some(ModelSettings {
        name: name?,
        provider: provider?,
        model: model?,
        fallbacks,
        system_prompt,
        filters,
        without,
        tools,
        actions,
        tool_search,
        max_tool_iterations,
        memory,
        check_response_format,
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
    let price = it.table("price");
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

/// Supplies the demo to a project that has no provider.
pub(super) fn supply_demo(root: &mut Reader<'_>) {
    if root.has("providers") {
        return;
    }
    root.supply("providers", &vec![Json::from([("name", "demo".into())])].into());
    let model = Json::from([
        ("name", "demo".into()),
        // To see them work: whoever configures a model says which tools it gets.
        ("tools", vec![Json::from("*")].into()),
        ("description", "Answers without a network, always the same way.".into()),
        ("abilities", vec![Json::from("tools")].into()),
    ]);
    root.supply("models", &vec![model].into());
}
